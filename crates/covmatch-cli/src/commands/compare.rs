//! `covmatch compare`: one table for all methods.

use std::path::Path;

use anyhow::Context;
use burn::tensor::Device;
use covmatch::compare::{Cell, Comparison, Plan, Stage, Watcher, fill};
use covmatch::distill::Observer;
use covmatch::evaluate::Progress;
use covmatch::experiment::Opener;
use covmatch::methods::{EpochDone, Method, Methods};
use covmatch::report::write_run_report;
use covmatch::shard::Shard;

use crate::args::CompareArgs;
use crate::console::progress;
use crate::experiment;
use crate::progress::{EpochBar, StepBar};

/// Fills the cells that are left, writes the table and prints it.
pub fn run(args: &CompareArgs) -> anyhow::Result<String> {
    let device = args.run.experiment.engine.open()?;
    let (methods, out) = (Methods::built_in(), args.run.folder(&args.config, ""));
    let plan = Plan::new(&methods, &experiment::read(&args.config, &args.run.experiment.set)?)?;
    let mut bars = Bars { steps: StepBar::new()?, epochs: None };
    let shard = args.shard.unwrap_or(Shard::ALL);
    fill(&methods, &plan, shard, &out, &device, &mut bars)?;
    drop(bars);
    let comparison = Comparison::collect(&plan, &out);
    comparison.save(&out)?;
    write_reports(&methods, &plan, &out, &device)?;
    match args.json {
        true => Ok(comparison.json()?),
        false => Ok(format!("{}\ntable:   {}/table.html\n", comparison.text(), out.display())),
    }
}

/// Writes the report of each set that was learned, if it has none.
fn write_reports(methods: &Methods, plan: &Plan, out: &Path, device: &Device) -> anyhow::Result<()> {
    let mut opener = Opener::new(device);
    for cell in &plan.cells {
        let folder = cell.folder(out);
        let learned = folder.metrics().is_file() && folder.set().is_file();
        if learned && !folder.report().is_file() {
            let experiment = opener.open(folder.config(&[])?)?;
            write_run_report(methods, &folder, &experiment)
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

    fn selecting(&mut self, event: EpochDone) {
        if let Some(bar) = &mut self.epochs {
            bar.selecting(event);
        }
    }
}

/// Runs and epochs of the training in a stage of `cell`, if it has one.
fn epochs(cell: &Cell, stage: Stage) -> Option<(usize, usize)> {
    let config = &cell.config;
    match (stage, &cell.method) {
        (Stage::Evaluating, None) => Some((config.train.runs, config.train.epochs)),
        (Stage::Evaluating, Some(_)) => Some((config.evaluate.runs, config.evaluate.epochs)),
        (Stage::Making | Stage::Resuming, method) => {
            let selects = method.as_ref().and_then(Method::selecting)?;
            Some((1, (selects.epochs)(config)))
        }
        _ => None,
    }
}
