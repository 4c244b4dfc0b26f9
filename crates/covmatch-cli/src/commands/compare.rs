//! `covmatch compare`: one table for all methods.

use std::path::Path;

use anyhow::Context;
use burn::tensor::Device;
use covmatch::compare::{Cell, Comparison, Plan, Stage, Watcher, Work, fill};
use covmatch::config::Config;
use covmatch::distill::{Observer, RunDir};
use covmatch::distilled;
use covmatch::evaluate::Progress;
use covmatch::shard::Shard;

use super::report::{REPORT, write_report};
use super::results::{Measured, ResultFile};
use crate::args::CompareArgs;
use crate::console::progress;
use crate::progress::{EpochBar, StepBar};

/// Fills the cells that are left, writes the table and prints it.
pub fn run(args: &CompareArgs) -> anyhow::Result<String> {
    let device = args.run.experiment.engine.open()?;
    let out = args.run.folder(&args.config, "");
    let plan = Plan::new(&Config::read(&args.config, &args.run.experiment.set)?)?;
    let mut bars = Bars { steps: StepBar::new()?, epochs: None };
    let shard = args.shard.unwrap_or(Shard::ALL);
    fill(&plan, shard, &out, &device, &mut bars)?;
    drop(bars);
    let comparison = Comparison::collect(&plan, &out);
    comparison.save(&out)?;
    write_reports(&plan, &comparison, &out, &device)?;
    match args.json {
        true => Ok(comparison.json()?),
        false => Ok(format!("{}\ntable:   {}/table.html\n", comparison.text(), out.display())),
    }
}

/// Writes the report of each set that was learned and evaluated, if it has none.
fn write_reports(plan: &Plan, comparison: &Comparison, out: &Path, device: &Device) -> anyhow::Result<()> {
    for (cell, entry) in plan.cells.iter().zip(&comparison.cells) {
        let (folder, Some(evaluation)) = (out.join(&cell.name), entry.evaluation.clone()) else { continue };
        let is_there = |name: &str| folder.join(name).is_file();
        let learned = RunDir::new(&folder).metrics().is_file() && is_there(distilled::FILE);
        if learned && !is_there(REPORT) {
            let pairs = Some(ResultFile { evaluation, config: cell.config.evaluate });
            write_report(&folder, &Measured { pairs, random: None }, device)
                .with_context(|| format!("the table is complete, the report of {} is not", cell.name))?;
        }
    }
    Ok(())
}

/// Shows what is being done with the cells.
struct Bars {
    steps: StepBar,
    epochs: Option<EpochBar>,
}

impl Watcher for Bars {
    fn stage(&mut self, cell: &Cell, stage: Stage) {
        self.steps.clear();
        self.epochs = None;
        let doing = match stage {
            Stage::Skipped => "is there",
            Stage::Experts => "needs experts: they are being trained, if they are not there ...",
            Stage::Making => "is being made ...",
            Stage::Resuming => "goes on being made ...",
            Stage::Evaluating => "is being evaluated ...",
        };
        progress(&format!("{} {doing}", cell.name));
        self.epochs = epochs(cell, stage).map(|(runs, epochs)| EpochBar::new(runs, epochs));
    }

    fn steps(&mut self) -> &mut dyn Observer {
        &mut self.steps
    }

    fn epoch(&mut self, event: Progress) {
        if let Some(bar) = &mut self.epochs {
            bar.show(event);
        }
    }
}

/// Runs and epochs of the training in a stage of `cell`, if it has one.
fn epochs(cell: &Cell, stage: Stage) -> Option<(usize, usize)> {
    let config = &cell.config;
    match (stage, cell.work) {
        (Stage::Evaluating, Work::Everything) => Some((config.train.runs, config.train.epochs)),
        (Stage::Evaluating, _) => Some((config.evaluate.runs, config.evaluate.epochs)),
        (Stage::Making | Stage::Resuming, Work::Select(selection)) => Some((1, selection.epochs(&config.select))),
        _ => None,
    }
}
