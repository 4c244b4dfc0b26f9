//! `covmatch train`: the upper bound, a model trained on the whole train split.

use std::fs;
use std::path::Path;

use covmatch::config::{Config, RUN_FILE, RunInfo};
use covmatch::evaluate::train_on_everything;
use covmatch::experiment::{Experiment, ExperimentError};
use covmatch::files::{self, WriteError};
use serde_json::json;

use super::models::go_on;
use super::results::{ResultFile, results_table};
use crate::args::TrainArgs;

/// Trains, keeps what was measured and prints the table.
pub fn run(args: &TrainArgs) -> anyhow::Result<String> {
    let device = args.run.experiment.engine.open()?;
    let mut overrides = args.run.experiment.set.clone();
    overrides.extend(args.runs.map(|runs| format!("train.runs={runs}")));
    let out = args.run.folder(&args.config, "-everything");
    refuse_a_set(&out)?;
    let mut experiment = Experiment::open(Config::read(&args.config, &overrides)?, &device)?;
    experiment.config.run = Some(RunInfo::of(&experiment.dataset)); // other data is another experiment
    fs::create_dir_all(&out).map_err(|cause| WriteError::new(&out, cause))?;
    let config = experiment.config.train;
    let (evaluation, unfinished) =
        go_on(&out, &experiment, &config, |done, progress| train_on_everything(&experiment, &config, done, progress))?;
    let (path, result) = (out.join(ResultFile::NAME), json!({ "config": experiment.config, "evaluation": evaluation }));
    files::write(&path, format!("{result:#}\n").as_bytes())?;
    unfinished.finish();
    let table = results_table(&[("all train pairs".to_owned(), &evaluation)]);
    match args.json {
        true => Ok(format!("{result}\n")),
        false => Ok(format!("{}\nresults: {}\n", table.text(), path.display())),
    }
}

/// The results of a set's folder are of its pairs.
fn refuse_a_set(out: &Path) -> Result<(), ExperimentError> {
    match out.join(RUN_FILE).exists() {
        true => Err(ExperimentError::Occupied { path: out.display().to_string() }),
        false => Ok(()),
    }
}
