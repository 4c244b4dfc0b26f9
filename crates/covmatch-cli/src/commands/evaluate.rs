//! `covmatch evaluate`: train fresh models on the pairs of a folder, test them by retrieval.

use std::path::Path;

use covmatch::config::Config;
use covmatch::distilled::{self, DistilledSet};
use covmatch::evaluate::{Evaluation, evaluate_pairs};
use covmatch::experiment::Experiment;
use covmatch::files;
use serde_json::json;

use super::models::go_on;
use super::report::write_report;
use super::results::{Measured, ResultFile, results_table};
use crate::args::EvaluateArgs;

/// Evaluates the set and prints its table.
pub fn run(args: &EvaluateArgs) -> anyhow::Result<String> {
    let device = args.experiment.engine.open()?;
    let config = Config::of_run(&args.folder, &overrides(args))?;
    let set = DistilledSet::load(&args.folder, &device)?;
    let experiment = Experiment::open(config, &device)?;
    let pairs = set.pairs_for(&experiment)?;
    let (config, learned) = (experiment.config.evaluate, set.learned.as_ref());
    let (evaluation, unfinished) = go_on(&args.folder, &experiment, &config, |done, progress| {
        evaluate_pairs(&experiment, &pairs, learned, &config, done, progress)
    })?;
    let own = own_encoders(&set, &experiment.config);
    if own {
        save(&args.folder, &experiment, &set, &evaluation)?;
        if args.folder.join("metrics.jsonl").is_file() {
            write_report(&args.folder, &Measured::load(&args.folder)?, &device)?; // a selection has no steps to report on
        }
    }
    unfinished.finish();
    let label = format!("{} pairs, {}", pairs.len(), set.about.method);
    match args.json {
        true => Ok(format!("{}\n", json!({ "config": experiment.config, "evaluation": evaluation }))),
        false => Ok(results_table(&[(label, &evaluation)]).text()),
    }
}

/// The flags as overrides of the configuration.
fn overrides(args: &EvaluateArgs) -> Vec<String> {
    let mut set = args.experiment.set.clone();
    let mut put = |key: &str, value: Option<String>| set.extend(value.map(|value| format!("{key}={value}")));
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    put("image.encoder", args.image_encoder.clone());
    put("image.weights", path(&args.image_weights));
    put("text.encoder", args.text_encoder.clone());
    put("text.weights", path(&args.text_weights));
    put("image.size", args.size.map(|size| size.to_string()));
    put("evaluate.runs", args.runs.map(|runs| runs.to_string()));
    put("evaluate.train_text_encoder", args.frozen_text.then(|| "false".to_owned()));
    set
}

/// Whether the set is evaluated as it was made, and not with other encoders or settings.
fn own_encoders(set: &DistilledSet, config: &Config) -> bool {
    set.about.image_encoder == config.image.encoder
        && set.about.text_encoder == config.text.encoder
        && set.pairs.pixels.dims()[4] == config.image.size
        && config.evaluate.train_text_encoder
}

/// Writes the results into the folder, and into its card.
fn save(folder: &Path, experiment: &Experiment, set: &DistilledSet, evaluation: &Evaluation) -> anyhow::Result<()> {
    ResultFile { evaluation: evaluation.clone(), config: experiment.config.evaluate }.save(folder)?;
    let table = results_table(&[("these pairs".to_owned(), evaluation)]).markdown();
    let card = distilled::card(set, &experiment.config, Some(&table));
    files::write(&folder.join("README.md"), card.as_bytes())?;
    Ok(())
}
