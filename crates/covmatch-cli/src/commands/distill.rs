//! `covmatch distill`: learn the pairs, or go on learning them.

use std::path::Path;

use anyhow::Context;
use covmatch::config::Config;
use covmatch::distill::{self, Outcome};
use covmatch::engine::peak_memory;

use super::report::write_report;
use super::results::Measured;
use crate::args::DistillArgs;
use crate::console::{duration, table};
use crate::progress::StepBar;

/// Runs the distillation and says what it left.
pub fn run(args: &DistillArgs) -> anyhow::Result<String> {
    let device = args.run.experiment.engine.open()?;
    let mut bar = StepBar::new()?;
    let outcome = match (&args.resume, &args.config) {
        (Some(folder), _) => distill::resume(folder, &device, &mut bar)?,
        (None, Some(config)) => {
            let out = args.run.folder(config, "");
            distill::run(Config::read(config, &args.run.experiment.set)?, &out, &device, &mut bar)?
        }
        (None, None) => anyhow::bail!("name a configuration, or a run to go on with: --resume DIR"),
    };
    drop(bar);
    let folder = outcome.folder.path();
    let report = Measured::load(folder).and_then(|measured| write_report(folder, &measured, &device));
    let report = report.context("the set is complete, its report is not")?;
    Ok(summary(&outcome, &report))
}

fn summary(outcome: &Outcome, report: &Path) -> String {
    let total: f64 = outcome.seconds.values().sum();
    let mut rows = vec![
        vec!["steps".to_owned(), outcome.steps.to_string(), String::new()],
        vec!["time of all steps".to_owned(), duration(total), String::new()],
    ];
    for (phase, seconds) in &outcome.seconds {
        let share = format!("{:>5.1} %", 100.0 * seconds / total.max(1e-9));
        rows.push(vec![format!("  {}", phase_title(phase)), duration(*seconds), share]);
    }
    if let Some(peak) = peak_memory() {
        rows.push(vec!["peak memory".to_owned(), format!("{:.0} MB", peak as f64 / 1e6), String::new()]);
    }
    let folder = outcome.folder.path().display();
    format!(
        "{}\nset:     {folder}/distilled.safetensors\nreport:  {}\nnext:    covmatch evaluate {folder}\n",
        table(&rows, &[1, 2]),
        report.display()
    )
}

/// What a phase of a step is, by its name in `metrics.jsonl`.
fn phase_title(phase: &str) -> &str {
    match phase {
        "real" => "real batch, forward",
        "synthetic" => "synthetic pairs, forward and back",
        "online" => "online training",
        "data" => "waiting for data",
        "expert" => "reading experts",
        "student" => "students and derivatives",
        other => other,
    }
}
