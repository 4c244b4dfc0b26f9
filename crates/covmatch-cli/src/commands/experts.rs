//! `covmatch experts`: the trajectories that MTT-VL and LoRS follow.

use covmatch::experiment::Experiment;
use covmatch::methods::trajectory::experts::{Estimate, Experts};
use covmatch::shard::Shard;

use crate::args::ExpertsArgs;
use crate::console::progress;
use crate::experiment;
use crate::progress::Bar;

/// Trains the experts that are missing and says where they are.
pub fn run(args: &ExpertsArgs) -> anyhow::Result<String> {
    let device = args.experiment.engine.open()?;
    let experiment = Experiment::open(experiment::read(&args.config, &args.experiment.set)?, &device)?;
    let experts = Experts::open(experiment.clone())?;
    let shard = args.shard.unwrap_or(Shard::ALL);
    let config = &experiment.config.experts;
    let Estimate { experts: missing, epochs: total, epoch_bytes, bytes } = experts.estimate(shard);
    progress(&format!(
        "{missing} experts to train, {} epochs each; {:.1} MB an epoch, {:.2} GB in all, in {}",
        config.epochs,
        epoch_bytes as f64 / 1e6,
        bytes as f64 / 1e9,
        config.folder.display()
    ));
    let (mut bar, mut done) = (Bar::new(total), 0);
    experts.train(shard, &mut |event| {
        done += 1;
        let message = format!("expert {}  epoch {}  loss {:.3}", event.expert, event.epochs, event.loss);
        bar.show(done, total, &message);
    })?;
    drop(bar);
    let whole = experts.whole()?.len();
    Ok(format!(
        "{whole} of {} experts: {}\nnext: covmatch distill {} --set distill.method=lors\n",
        config.count,
        config.folder.display(),
        args.config.display()
    ))
}
