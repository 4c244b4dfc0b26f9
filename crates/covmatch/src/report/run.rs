//! The page of a run: its results, curves and pairs.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Curve, Figure, PairView, Report, ReportError, Scale};
use crate::config::{Config, Maker};
use crate::data::Split;
use crate::distill::read_metrics;
use crate::distilled::{DistilledSet, PairInfo, picture};
use crate::evaluate::{Evaluation, EvaluationFile, results_table};
use crate::experiment::Experiment;
use crate::methods::{Chart, Method, Methods, Synthetic};
use crate::run_folder::RunFolder;
use crate::tables::Table;

/// Pairs that the report shows.
const SHOWN: usize = 48;

/// Writes the report of the run in `folder`, on which `experiment` was opened. Returns its path.
pub fn write_run_report(
    methods: &Methods,
    folder: &RunFolder,
    experiment: &Experiment,
) -> Result<PathBuf, ReportError> {
    let config = &experiment.config;
    let maker = folder.maker(config);
    let method = methods.get(&maker.method).ok();
    let set = DistilledSet::load(folder.path(), &experiment.device)?;
    let steps = read_metrics(&folder.metrics())?;
    let measured = Measured::of(folder.path());
    let report = Report {
        title: format!("{} {} pairs", set.pairs.len(), if maker.learns { "synthetic" } else { "real" }),
        subtitle: subtitle(experiment, &maker),
        facts: facts(config, &maker, method, &steps),
        notes: measured.notes(),
        results: measured.table(),
        curves: figures(method, &steps),
        pairs: pair_views(folder, experiment, &set)?,
        config: config.to_toml()?,
        ..Report::default()
    };
    report.save(folder.report())?;
    Ok(folder.report())
}

fn subtitle(experiment: &Experiment, maker: &Maker) -> String {
    let (train, config) = (experiment.dataset.counts(Split::Train), &experiment.config);
    format!(
        "distilled from {} images with {} captions by {}, with {} and {}",
        train.images, train.captions, maker.title, config.image.encoder, config.text.encoder
    )
}

fn facts(config: &Config, maker: &Maker, method: Option<&Method>, steps: &[Value]) -> Vec<(String, String)> {
    let phases = steps.iter().filter_map(|step| step["seconds"].as_object());
    let seconds: f64 = phases.flat_map(|phases| phases.values()).filter_map(Value::as_f64).sum();
    let own = method.map(|method| (method.facts)(config)).unwrap_or_default();
    let general = [
        ("Pairs", config.distill.pairs.to_string()),
        ("Image size", format!("{0} × {0}", config.image.size)),
        ("Steps", format!("{} × {}", config.distill.rounds, config.distill.steps_per_round)),
        ("Time", duration(seconds)),
    ];
    let last = [("Seed", config.seed.to_string()), ("Machine", maker.machine.to_string())];
    let all = general.into_iter().chain(own).chain(last);
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Seconds in the unit that suits them.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.0} min {:02.0} s", (s / 60.0).floor(), (s % 60.0).floor()),
        s => format!("{:.0} h {:02.0} min", (s / 3600.0).floor(), (s % 3600.0 / 60.0).floor()),
    }
}

/// What was measured of the pairs of a folder.
struct Measured {
    /// By the folder's own protocol.
    own: Option<EvaluationFile>,
    /// Of as many real pairs, which the demo compares them with.
    random: Option<EvaluationFile>,
    /// By other protocols, with their names.
    others: Vec<(String, EvaluationFile)>,
}

impl Measured {
    fn of(path: &Path) -> Self {
        Self {
            own: EvaluationFile::read(path),
            random: EvaluationFile::read_of_random(path),
            others: EvaluationFile::read_others(path),
        }
    }

    /// The table of the pairs and, where they were evaluated too, of real pairs and by other protocols.
    fn table(&self) -> Option<Table> {
        let row = |label: &str, file: &Option<EvaluationFile>| {
            file.as_ref().map(|file| (label.to_owned(), file.evaluation.clone()))
        };
        let others = self.others.iter().map(|(name, file)| Some((format!("With {name}"), file.evaluation.clone())));
        let first = [row("As many real pairs alone", &self.random), row("These pairs alone", &self.own)];
        let rows: Vec<(String, Evaluation)> = first.into_iter().chain(others).flatten().collect();
        let rows: Vec<(String, &Evaluation)> = rows.iter().map(|(label, found)| (label.clone(), found)).collect();
        (!rows.is_empty()).then(|| results_table(&rows))
    }

    /// What a reader of the table must know, a sentence each.
    fn notes(&self) -> Vec<String> {
        let Some(EvaluationFile { evaluation, config, .. }) = &self.own else {
            return vec!["Not evaluated yet: run `covmatch evaluate` on this folder.".to_owned()];
        };
        let mut notes = vec![
            format!(
                "Fresh models with pretrained encoders and random heads, trained on the pairs alone for {} epochs and \
                 tested on the whole test split: recall in percent, mean ± standard deviation over {} runs.",
                config.evaluate.epochs,
                evaluation.runs.len()
            ),
            "Rows are the last epoch unless they say otherwise. No epoch was chosen on the test split.".to_owned(),
        ];
        if self.random.is_some() {
            notes.push("The real pairs are those that the distillation began with, not augmented.".to_owned());
        }
        if !self.others.is_empty() {
            notes.push("A row with settings in its name was not measured by this set's own protocol.".to_owned());
        }
        notes
    }
}

/// The charts of `method`; one whose values were not measured is left out.
fn figures(method: Option<&Method>, steps: &[Value]) -> Vec<Figure> {
    let charts = method.and_then(Method::learning).map_or(&[][..], |learns| learns.charts);
    charts.iter().filter_map(|chart| figure(chart, steps)).collect()
}

fn figure(chart: &Chart, steps: &[Value]) -> Option<Figure> {
    let curve = |(name, field): &(&str, &str)| Curve {
        name: (*name).to_owned(),
        points: steps.iter().filter_map(|step| Some((step["step"].as_f64()?, step[*field].as_f64()?))).collect(),
    };
    let curves: Vec<Curve> = chart.curves.iter().map(curve).collect();
    let measured = curves.iter().any(|curve| !curve.points.is_empty());
    let scale = if chart.logarithmic { Scale::Log } else { Scale::Linear };
    measured.then(|| Figure::plot(chart.title, "step", chart.axis, &curves, scale))
}

/// Some pairs, evenly spaced, before and after.
fn pair_views(folder: &RunFolder, experiment: &Experiment, set: &DistilledSet) -> Result<Vec<PairView>, ReportError> {
    let before = Synthetic::init(experiment, &experiment.model(experiment.config.seed(), 0))?;
    let infos = pair_infos(&folder.captions())?;
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

fn pair_infos(path: &Path) -> Result<Vec<PairInfo>, ReportError> {
    PairInfo::read_all(path).map_err(|cause| ReportError::Read { path: path.display().to_string(), cause })
}
