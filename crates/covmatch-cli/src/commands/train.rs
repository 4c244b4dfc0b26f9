//! `covmatch train`: the upper bound, a model trained on the whole train split.

use anyhow::Context;
use covmatch::evaluate::{Kept, results_table, train_folder};
use covmatch::experiment::Experiment;

use crate::args::TrainArgs;
use crate::experiment;
use crate::progress::EpochBar;

/// Trains, keeps what was measured and prints the table.
pub fn run(args: &TrainArgs) -> anyhow::Result<String> {
    let device = args.run.experiment.engine.open()?;
    let mut overrides = args.run.experiment.set.clone();
    overrides.extend(args.runs.map(|runs| format!("train.runs={runs}")));
    let out = args.run.folder(&args.config, "-everything");
    let experiment = Experiment::open(experiment::read(&args.config, &overrides)?, &device)?;
    let config = experiment.config.train;
    let mut bar = EpochBar::new(config.runs, config.epochs);
    let Kept { file, path } = train_folder(&out, experiment, &mut |event| bar.show(event))?;
    drop(bar);
    match args.json {
        true => Ok(serde_json::to_string(&file).context("the results have no form as JSON")? + "\n"),
        false => {
            let table = results_table(&[("all train pairs".to_owned(), &file.evaluation)]);
            Ok(format!("{}\nresults: {}\n", table.text(), path.display()))
        }
    }
}
