//! `covmatch train`: the upper bound, a model trained on the whole train split.

use covmatch::config::Config;
use covmatch::evaluate::train_on_everything;
use covmatch::experiment::Experiment;
use serde_json::json;

use super::results::results_table;
use crate::args::TrainArgs;
use crate::progress::EpochBar;

/// Trains and prints the table.
pub fn run(args: &TrainArgs) -> anyhow::Result<String> {
    let device = args.experiment.engine.open()?;
    let mut overrides = args.experiment.set.clone();
    overrides.extend(args.runs.map(|runs| format!("train.runs={runs}")));
    let experiment = Experiment::open(Config::read(&args.config, &overrides)?, &device)?;
    let config = experiment.config.train;
    let mut bar = EpochBar::new(config.runs, config.epochs);
    let evaluation = train_on_everything(&experiment, &config, Vec::new(), &mut |p| bar.show(p))?;
    drop(bar);
    match args.json {
        true => Ok(format!("{}\n", json!({ "config": experiment.config, "evaluation": evaluation }))),
        false => Ok(results_table(&[("all train pairs".to_owned(), &evaluation)]).text()),
    }
}
