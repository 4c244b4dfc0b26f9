//! `covmatch evaluate`: train fresh models on the pairs of a folder, test them by retrieval.

use std::path::PathBuf;

use anyhow::Context;
use covmatch::config::Difference;
use covmatch::evaluate::{Kept, evaluate_folder, results_table};
use covmatch::experiment::Opener;
use covmatch::methods::Methods;
use covmatch::report::write_run_report;
use covmatch::run_folder::RunFolder;

use crate::args::EvaluateArgs;
use crate::console::progress;
use crate::progress::EpochBar;

/// Evaluates the set and prints its table.
pub fn run(args: &EvaluateArgs) -> anyhow::Result<String> {
    let device = args.experiment.engine.open()?;
    let (folder, mut opener) = (RunFolder::new(&args.folder), Opener::new(&device));
    let (config, maker) = folder.require_pairs(&overrides(args))?;
    let experiment = opener.open(config)?;
    let (pairs, config) = (experiment.config.distill.pairs, experiment.config.evaluate);
    let mut bar = EpochBar::new(config.runs, config.epochs);
    let kept = evaluate_folder(&folder, experiment, &mut |event| bar.show(event))?;
    drop(bar);
    tell_of_another_protocol(&kept);
    if folder.metrics().is_file() {
        // A selection has no steps to report on.
        write_run_report(&Methods::built_in(), &folder, &opener.open(folder.config(&[])?)?)?;
    }
    match args.json {
        true => Ok(serde_json::to_string(&kept.file).context("the results have no form as JSON")? + "\n"),
        false => {
            let label = format!("{pairs} pairs, {}", maker.title);
            Ok(results_table(&[(label, &kept.file.evaluation)]).text())
        }
    }
}

/// Says that the folder's own result is another one, and where this one is.
fn tell_of_another_protocol(Kept { file, path }: &Kept) {
    if !file.differs.is_empty() {
        let changed = |Difference { field, first, second }: &Difference| format!("{field} is {second}, not {first}");
        let changes: Vec<String> = file.differs.iter().map(changed).collect();
        progress(&format!("not by the set's own protocol ({}): kept beside its result", changes.join("; ")));
    }
    progress(&format!("results: {}", path.display()));
}

/// The flags as overrides of the configuration.
fn overrides(args: &EvaluateArgs) -> Vec<String> {
    let mut set = args.experiment.set.clone();
    let mut put = |key: &str, value: Option<String>| set.extend(value.map(|value| format!("{key}={value}")));
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    put("image.encoder", args.image_encoder.clone());
    put("image.weights", path(&args.image_weights));
    put("text.encoder", args.text_encoder.clone());
    put("text.weights", path(&args.text_weights));
    put("image.size", args.size.map(|size| size.to_string()));
    put("evaluate.runs", args.runs.map(|runs| runs.to_string()));
    put("evaluate.train_text_encoder", args.frozen_text.then(|| "false".to_owned()));
    set
}
