//! `covmatch select`: real pairs in the folder of a distilled set.

use covmatch::config::Config;
use covmatch::select::select;

use crate::args::SelectArgs;
use crate::progress::EpochBar;

/// Chooses the pairs and says where they are.
pub fn run(args: &SelectArgs) -> anyhow::Result<String> {
    let device = args.run.experiment.engine.open()?;
    let out = args.run.folder(&args.config, &format!("-{}", args.method.name()));
    let config = Config::read(&args.config, &args.run.experiment.set)?;
    let mut bar = EpochBar::new(1, args.method.epochs(&config.select));
    let pairs = select(args.method, config, &out, &device, &mut |event| bar.show(event))?;
    drop(bar);
    let folder = out.display();
    Ok(format!("{} pairs: {folder}/distilled.safetensors\nnext: covmatch evaluate {folder}\n", pairs.len()))
}
