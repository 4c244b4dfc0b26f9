//! `report.html` of a run: its results, curves and pairs on one page.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use covmatch::config::{Config, MethodName, Units};
use covmatch::distill::{initial_pairs, read_metrics};
use covmatch::distilled::{DistilledSet, PairInfo, picture};
use covmatch::experiment::Experiment;
use covmatch::report::{Curve, Figure, PairView, Report, Scale, Table};
use serde_json::Value;

use super::results::{Measured, ResultFile, results_table};
use crate::console::duration;

/// The name of the file.
pub const REPORT: &str = "report.html";
/// Pairs that the report shows.
const SHOWN: usize = 48;

/// Writes the report of the run in `folder`, where `measured` was measured. Returns its path.
pub fn write_report(folder: &Path, measured: &Measured, device: &Device) -> anyhow::Result<PathBuf> {
    let config = Config::of_run(folder, &[])?;
    let set = DistilledSet::load(folder, device)?;
    let steps = read_metrics(&folder.join("metrics.jsonl"))?;
    let experiment = Experiment::open(config, device)?;
    let report = Report {
        title: format!("{} synthetic pairs", set.pairs.len()),
        subtitle: subtitle(&experiment),
        facts: facts(&experiment.config, &steps),
        notes: notes(measured),
        results: measured.pairs.as_ref().map(|results| compared(results, measured.random.as_ref())),
        curves: figures(&steps),
        pairs: pair_views(folder, &experiment, &set)?,
        config: experiment.config.to_toml()?,
        ..Report::default()
    };
    let path = folder.join(REPORT);
    report.save(&path)?;
    Ok(path)
}

fn subtitle(experiment: &Experiment) -> String {
    let train = experiment.dataset.counts(covmatch::data::Split::Train);
    let config = &experiment.config;
    format!(
        "distilled from {} images with {} captions by {}, with {} and {}",
        train.images,
        train.captions,
        method_title(config.distill.method),
        config.image.encoder,
        config.text.encoder
    )
}

fn method_title(method: MethodName) -> &'static str {
    match method {
        MethodName::CovMatch => "CovMatch",
        MethodName::MttVl => "MTT-VL",
        MethodName::Lors => "LoRS",
    }
}

fn facts(config: &Config, steps: &[Value]) -> Vec<(String, String)> {
    let phases = steps.iter().filter_map(|step| step["seconds"].as_object());
    let seconds: f64 = phases.flat_map(|phases| phases.values()).filter_map(Value::as_f64).sum();
    let units = match config.distill.units {
        Units::Absolute => "absolute",
        Units::Relative => "relative",
    };
    let fact = |name: &str, value: String| (name.to_owned(), value);
    vec![
        fact("Pairs", config.distill.pairs.to_string()),
        fact("Image size", format!("{0} × {0}", config.image.size)),
        fact("Steps", format!("{} × {}", config.distill.rounds, config.distill.steps_per_round)),
        fact("Time", duration(seconds)),
        match config.distill.method {
            MethodName::CovMatch => {
                fact("ρ, λ", format!("{}, {} ({units})", config.distill.rho, config.distill.lambda()))
            }
            MethodName::MttVl | MethodName::Lors => {
                fact("Students' steps", config.trajectory.student_steps.to_string())
            }
        },
        fact("Seed", config.seed.to_string()),
    ]
}

/// The table of the pairs and, where they were evaluated too, of real pairs.
fn compared(results: &ResultFile, random: Option<&ResultFile>) -> Table {
    let real = random.map(|file| ("As many real pairs alone".to_owned(), &file.evaluation));
    let rows: Vec<_> = real.into_iter().chain([("These pairs alone".to_owned(), &results.evaluation)]).collect();
    results_table(&rows)
}

fn notes(measured: &Measured) -> Vec<String> {
    let Some(ResultFile { evaluation, config }) = &measured.pairs else {
        return vec!["Not evaluated yet: run `covmatch evaluate` on this folder.".to_owned()];
    };
    let mut notes = vec![
        format!(
            "Fresh models with pretrained encoders and random heads, trained on the pairs alone for {} epochs and tested \
             on the whole test split: recall in percent, mean ± standard deviation over {} runs.",
            config.epochs,
            evaluation.runs.len()
        ),
        "Rows are the last epoch unless they say otherwise. No epoch was chosen on the test split.".to_owned(),
    ];
    if measured.random.is_some() {
        notes.push("The real pairs are those that the distillation began with, not augmented.".to_owned());
    }
    notes
}

/// A figure: title, axis, scale, and the fields of `metrics.jsonl` that it shows by name.
type FigureForm = (&'static str, &'static str, Scale, &'static [(&'static str, &'static str)]);

/// The figures of all methods; one whose fields were not measured is left out.
const FIGURES: [FigureForm; 5] = [
    ("Cross-covariance loss", "L_cov", Scale::Log, &[("L_cov", "cov")]),
    ("Mean feature loss", "L_feat", Scale::Log, &[("image", "feat_v"), ("text", "feat_l")]),
    ("Online model", "InfoNCE", Scale::Linear, &[("InfoNCE", "info_nce")]),
    ("Distance to the expert", "relative", Scale::Linear, &[("image", "trajectory_v"), ("text", "trajectory_l")]),
    ("Learned rates of students", "rate", Scale::Linear, &[("image", "eta_v"), ("text", "eta_l")]),
];

fn figures(steps: &[Value]) -> Vec<Figure> {
    let curve = |(name, field): &(&str, &str)| Curve {
        name: (*name).to_owned(),
        points: steps.iter().filter_map(|step| Some((step["step"].as_f64()?, step[*field].as_f64()?))).collect(),
    };
    let figure = |(title, axis, scale, fields): &FigureForm| {
        let curves: Vec<Curve> = fields.iter().map(curve).collect();
        let measured = curves.iter().any(|curve| !curve.points.is_empty());
        measured.then(|| Figure::plot(title, "step", axis, &curves, *scale))
    };
    FIGURES.iter().filter_map(figure).collect()
}

/// Some pairs, evenly spaced, before and after.
fn pair_views(folder: &Path, experiment: &Experiment, set: &DistilledSet) -> anyhow::Result<Vec<PairView>> {
    let before = initial_pairs(experiment)?;
    let infos = pair_infos(&folder.join("metadata.jsonl"))?;
    let normalization = set.about.normalization();
    let (count, shown) = (infos.len(), infos.len().min(SHOWN));
    let view = |at: usize| {
        let index = at * count / shown;
        PairView {
            before: picture(&before.inputs.pixels, index, &normalization),
            after: picture(&set.pairs.pixels, index, &normalization),
            init_caption: infos[index].init_caption.clone(),
            nearest_caption: infos[index].nearest_caption.clone().unwrap_or_default(),
        }
    };
    Ok((0..shown).map(view).collect())
}

fn pair_infos(path: &Path) -> anyhow::Result<Vec<PairInfo>> {
    let text = std::fs::read_to_string(path)?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}
