//! `covmatch distill`: learn the pairs, or go on learning them.

use std::path::Path;

use anyhow::Context;
use covmatch::distill::{self, Outcome};
use covmatch::engine::peak_memory;
use covmatch::experiment::{Experiment, Opener};
use covmatch::methods::{Method, Methods};
use covmatch::report::write_run_report;
use covmatch::run_folder::RunFolder;
use covmatch::tables::aligned;

use crate::args::DistillArgs;
use crate::console::duration;
use crate::experiment;
use crate::progress::StepBar;

/// Runs the distillation and says what it left.
pub fn run(args: &DistillArgs) -> anyhow::Result<String> {
    let device = args.run.experiment.engine.open()?;
    let (methods, mut opener) = (Methods::built_in(), Opener::new(&device));
    let mut bar = StepBar::new()?;
    let outcome = match (&args.resume, &args.config) {
        (Some(folder), _) => {
            let folder = RunFolder::new(folder);
            let (config, _) = folder.require_learner()?;
            distill::resume(&methods, opener.open(config)?, &folder, &mut bar)?
        }
        (None, Some(config)) => {
            let folder = RunFolder::new(args.run.folder(config, ""));
            let config = experiment::read(config, &args.run.experiment.set)?;
            folder.require_free()?;
            distill::run(&methods, opener.open(config)?, &folder, &mut bar)?
        }
        (None, None) => anyhow::bail!("name a configuration, or a run to go on with: --resume DIR"),
    };
    drop(bar);
    let experiment = opener.open(outcome.folder.config(&[])?)?;
    let report = write_run_report(&methods, &outcome.folder, &experiment);
    let report = report.context("the set is complete, its report is not")?;
    Ok(summary(&outcome, method_of(&methods, &experiment), &report))
}

fn method_of<'a>(methods: &'a Methods, experiment: &Experiment) -> Option<&'a Method> {
    methods.get(&experiment.config.distill.method).ok()
}

fn summary(outcome: &Outcome, method: Option<&Method>, report: &Path) -> String {
    let total: f64 = outcome.seconds.values().sum();
    let mut rows = vec![
        vec!["steps".to_owned(), outcome.steps.to_string(), String::new()],
        vec!["time of all steps".to_owned(), duration(total), String::new()],
    ];
    for (phase, seconds) in &outcome.seconds {
        let share = format!("{:>5.1} %", 100.0 * seconds / total.max(1e-9));
        rows.push(vec![format!("  {}", phase_title(method, phase)), duration(*seconds), share]);
    }
    if let Some(peak) = peak_memory() {
        rows.push(vec!["peak memory".to_owned(), format!("{:.0} MB", peak as f64 / 1e6), String::new()]);
    }
    let folder = outcome.folder.path().display();
    format!(
        "{}\nset:     {folder}/distilled.safetensors\nreport:  {}\nnext:    covmatch evaluate {folder}\n",
        aligned(&rows, 1),
        report.display()
    )
}

/// What a phase of a step is, by its name in `metrics.jsonl`.
fn phase_title<'a>(method: Option<&Method>, phase: &'a str) -> &'a str {
    let phases = method.and_then(Method::learning).map_or(&[][..], |learns| learns.phases);
    phases.iter().find(|known| known.name == phase).map_or(phase, |known| known.title)
}
