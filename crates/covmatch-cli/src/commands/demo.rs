//! `covmatch demo`: CovMatch and WayMatch end to end on the built-in dataset and encoders, without a download.
//!
//! ```text
//! scenes -> N pairs of CovMatch -> train fresh models on them -------------\
//!        -> N pairs of WayMatch, teachers and all, likewise ----------------> recalls side by side, report.html
//!        -> the N real pairs that the distillations began with, likewise --/
//! ```
//! The experiment is `presets/demo.toml`; `--smoke` is the same with the smallest numbers that still take every path.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use burn::tensor::{Device, Tensor};
use covmatch::config::{Config, Machine};
use covmatch::data::Split;
use covmatch::distill;
use covmatch::distilled::DistilledSet;
use covmatch::evaluate::{Evaluation, EvaluationFile, Kept, Progress, evaluate_folder, evaluate_pairs, results_table};
use covmatch::experiment::{Experiment, Opener};
use covmatch::files;
use covmatch::methods::{Methods, random, selection};
use covmatch::model::Inputs;
use covmatch::report::write_run_report;
use covmatch::retrieval::Recalls;
use covmatch::run_folder::RunFolder;
use serde_json::json;

use crate::args::DemoArgs;
use crate::console::{duration, grouped, progress};
use crate::progress::{EpochBar, StepBar};

const PRESET: &str = include_str!("../../../../presets/demo.toml");
/// What `--smoke` changes.
const SMOKE: [&str; 10] = [
    "data.scenes.train=80",
    "data.scenes.val=10",
    "data.scenes.test=20",
    "distill.pairs=8",
    "distill.rounds=2",
    "distill.steps_per_round=3",
    "distill.real_batch=16",
    "waymatch.waypoints=[0, 2]",
    "evaluate.runs=2",
    "evaluate.epochs=3",
];
/// Where the demo goes unless `--out` says otherwise.
const FOLDER: &str = "covmatch-demo";
/// Tells that a folder was made by the demo; in the end it has the numbers.
const MARK: &str = "demo.json";
/// What else a demo leaves.
const FILES: [&str; 9] = [
    "run.toml",
    "metrics.jsonl",
    "metadata.jsonl",
    "README.md",
    "distilled.safetensors",
    "cost.json",
    "evaluation.json",
    EvaluationFile::OF_RANDOM,
    "report.html",
];
/// What a demo of version 0.1 left, and what an evaluation of the demo's pairs that was stopped leaves.
const LEFT: [&str; 4] =
    ["results.json", "results-random.json", "results.unfinished.json", "evaluation.unfinished.json"];
const FOLDERS: [&str; 6] = ["checkpoints", "tensorboard", "images", "evaluations", WAYMATCH, TEACHERS];
/// WayMatch's run, and its teachers, in the folder of the demo.
const WAYMATCH: &str = "waymatch";
const TEACHERS: &str = "teachers";

/// Runs the demo and prints its table; fails if any part did not do its work.
pub fn run(args: &DemoArgs) -> anyhow::Result<String> {
    let start = Instant::now();
    args.cpu.set()?;
    let overrides: Vec<String> = if args.smoke { SMOKE.map(str::to_owned).to_vec() } else { Vec::new() };
    let mut config = Config::parse("presets/demo.toml", PRESET, &overrides)?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(FOLDER));
    make_room(&out)?;
    let device = Device::flex();

    config.waymatch.folder = out.join(TEACHERS);
    let (methods, mut opener) = (Methods::built_in(), Opener::new(&device));
    let (folder, ours) = (RunFolder::new(&out), RunFolder::new(out.join(WAYMATCH)));
    let mut bar = StepBar::new()?;
    progress(&format!("distilling {} pairs with CovMatch ...", config.distill.pairs));
    distill::run(&methods, opener.open(config.clone())?, &folder, &mut bar)?;
    let covmatch_in = start.elapsed().as_secs_f64();
    bar.clear();
    progress(&format!("distilling {} pairs with WayMatch ...", config.distill.pairs));
    config.distill.method = "waymatch".to_owned();
    distill::run(&methods, opener.open(config)?, &ours, &mut bar)?;
    drop(bar);
    let waymatch_in = start.elapsed().as_secs_f64() - covmatch_in;

    let experiment = opener.open(folder.config(&[])?)?;
    let experiment_of_ours = opener.open(ours.config(&[])?)?;
    let random = real_pairs(&experiment)?;
    check_learned(&random, &DistilledSet::load(&out, &device)?.pairs)?;
    check_learned(&random, &DistilledSet::load(ours.path(), &device)?.pairs)?;
    let results = Results {
        random: evaluate("Random", &experiment, |progress| {
            let evaluation = evaluate_pairs(&experiment, &random, None, Vec::new(), progress)?;
            save_random(&out, &experiment, &evaluation)?;
            Ok(evaluation)
        })?,
        covmatch: evaluate("CovMatch", &experiment, |progress| {
            let Kept { file, .. } = evaluate_folder(&folder, experiment.clone(), progress)?;
            Ok(file.evaluation)
        })?,
        waymatch: evaluate("WayMatch", &experiment, |progress| {
            let Kept { file, .. } = evaluate_folder(&ours, experiment_of_ours.clone(), progress)?;
            Ok(file.evaluation)
        })?,
    };
    write_run_report(&methods, &folder, &experiment)?;
    write_run_report(&methods, &ours, &experiment_of_ours)?;
    let seconds = Seconds { covmatch_in, waymatch_in, total: start.elapsed().as_secs_f64() };
    files::write(&out.join(MARK), format!("{:#}\n", results.json(&seconds)).as_bytes())?;
    check_files(&out)?;
    Ok(results.text(&experiment, &out, &seconds))
}

/// An empty folder, or one in which an earlier demo made room; anything else is left alone.
fn make_room(out: &Path) -> anyhow::Result<()> {
    let shown = out.display();
    if out.exists() {
        ensure!(out.is_dir(), "{shown} is not a folder: name another with --out");
        let empty = fs::read_dir(out).with_context(|| format!("cannot look into {shown}"))?.next().is_none();
        match out.join(MARK).is_file() {
            true => remove_demo(out).with_context(|| format!("cannot remove the earlier demo in {shown}"))?,
            false if !empty => {
                bail!("{shown} holds something else than an earlier demo: name another folder with --out")
            }
            false => {}
        }
    }
    fs::create_dir_all(out).with_context(|| format!("cannot make the folder {shown}"))?;
    Ok(files::write(&out.join(MARK), b"{}\n")?)
}

/// Removes what a demo leaves, and nothing else.
fn remove_demo(out: &Path) -> std::io::Result<()> {
    for path in FILES.iter().chain(&LEFT).map(|name| out.join(name)).filter(|path| path.is_file()) {
        fs::remove_file(path)?;
    }
    for path in FOLDERS.iter().map(|name| out.join(name)).filter(|path| path.is_dir()) {
        fs::remove_dir_all(path)?;
    }
    Ok(())
}

/// The real pairs that the distillation starts from, not augmented.
fn real_pairs(experiment: &Experiment) -> anyhow::Result<Inputs> {
    Ok(selection::real_pairs(experiment, &random::random(experiment)?)?)
}

/// What `measure` finds of the pairs of the method `name`, with a bar.
fn evaluate(
    name: &str,
    experiment: &Experiment,
    measure: impl FnOnce(&mut dyn FnMut(Progress)) -> anyhow::Result<Evaluation>,
) -> anyhow::Result<Evaluation> {
    let (config, pairs) = (experiment.config.evaluate, experiment.config.distill.pairs);
    progress(&format!("training {} models on the {pairs} pairs of {name} ...", config.runs));
    let mut bar = EpochBar::new(config.runs, config.epochs);
    measure(&mut |event| bar.show(event))
}

/// Keeps what was measured of the real pairs, for the report.
fn save_random(out: &Path, experiment: &Experiment, evaluation: &Evaluation) -> anyhow::Result<()> {
    let machine = Some(Machine::here(&experiment.device));
    let (config, evaluation) = (experiment.config.clone(), evaluation.clone());
    let file = EvaluationFile { config, differs: Vec::new(), machine, evaluation };
    Ok(file.write(&out.join(EvaluationFile::OF_RANDOM))?)
}

/// Fails unless both modalities are finite and have been learned.
fn check_learned(before: &Inputs, after: &Inputs) -> anyhow::Result<()> {
    moved("pixels", before.pixels.clone(), after.pixels.clone())?;
    moved("captions", before.text.clone(), after.text.clone())
}

fn moved<const D: usize>(what: &str, before: Tensor<D>, after: Tensor<D>) -> anyhow::Result<()> {
    ensure!(before.dims() == after.dims(), "the distilled {what} have another shape than the real ones");
    let change = (after - before).powi_scalar(2).mean().into_scalar::<f32>();
    ensure!(change.is_finite() && change > 0.0, "the {what} were not learned (mean square change {change})");
    Ok(())
}

fn check_files(out: &Path) -> anyhow::Result<()> {
    for name in FILES {
        ensure!(out.join(name).is_file(), "{} is missing", out.join(name).display());
    }
    Ok(())
}

/// How long it took.
struct Seconds {
    covmatch_in: f64,
    waymatch_in: f64,
    total: f64,
}

/// What was measured.
struct Results {
    random: Evaluation,
    covmatch: Evaluation,
    waymatch: Evaluation,
}

impl Results {
    /// The average recall of `learned` as a multiple of Random's.
    fn ratio(&self, learned: &Evaluation) -> f64 {
        avg(learned) / avg(&self.random)
    }

    fn json(&self, seconds: &Seconds) -> serde_json::Value {
        json!({
            "random": self.random.last,
            "covmatch": self.covmatch.last,
            "waymatch": self.waymatch.last,
            "ratio": self.ratio(&self.covmatch),
            "ratio_waymatch": self.ratio(&self.waymatch),
            "seconds": seconds.total,
        })
    }

    fn text(&self, experiment: &Experiment, out: &Path, seconds: &Seconds) -> String {
        let (train, test) = (experiment.dataset.counts(Split::Train), experiment.dataset.counts(Split::Test));
        let (pairs, folder) = (experiment.config.distill.pairs, out.display());
        let rows = [
            (format!("Random: {pairs} real pairs"), &self.random),
            (format!("CovMatch: {pairs} distilled pairs"), &self.covmatch),
            (format!("WayMatch: {pairs} distilled pairs"), &self.waymatch),
        ];
        format!(
            "{} scenes with {} captions in {pairs} pairs.\n\
             Recall in percent on {} other scenes, mean ± deviation of {} models trained on the pairs alone:\n\n{}\nCovMatch reaches {:.2} times the average recall of Random, WayMatch {:.2} times.\n\
             Time: {}, of which {} CovMatch's distillation and {} that of WayMatch with its teachers.\n\n\
             report:  {folder}/report.html, {folder}/{WAYMATCH}/report.html\n\
             next:    covmatch distill presets/flickr8k-100.toml   your data: presets/ has experiments to start from\n\
             \x20        covmatch evaluate {folder}   train and test on the pairs again\n",
            grouped(train.images),
            grouped(train.captions),
            grouped(test.images),
            self.covmatch.runs.len(),
            results_table(&rows).text(),
            self.ratio(&self.covmatch),
            self.ratio(&self.waymatch),
            duration(seconds.total),
            duration(seconds.covmatch_in),
            duration(seconds.waymatch_in),
        )
    }
}

/// The mean of the average recall.
fn avg(evaluation: &Evaluation) -> f64 {
    evaluation.last.mean[Recalls::NAMES.len() - 1]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_preset_and_its_smoke_form_can_be_read() {
        assert!(Config::parse("demo", PRESET, &[]).is_ok());
        assert!(Config::parse("demo", PRESET, &SMOKE.map(str::to_owned)).is_ok());
    }

    #[test]
    fn an_earlier_demo_makes_room_and_anything_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("demo");
        make_room(&out).unwrap();
        for name in ["run.toml", "evaluation.unfinished.json"] {
            fs::write(out.join(name), "old").unwrap();
        }
        fs::write(out.join("mine.txt"), "mine").unwrap();
        fs::create_dir(out.join("images")).unwrap();
        make_room(&out).unwrap();
        for name in ["run.toml", "evaluation.unfinished.json", "images"] {
            assert!(!out.join(name).exists(), "{name}");
        }
        assert_eq!(fs::read_to_string(out.join("mine.txt")).unwrap(), "mine");

        let other = folder.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("run.toml"), "precious").unwrap();
        assert!(make_room(&other).unwrap_err().to_string().contains("other"));
        assert_eq!(fs::read_to_string(other.join("run.toml")).unwrap(), "precious");
        assert!(make_room(&other.join("run.toml")).is_err());
    }
}
