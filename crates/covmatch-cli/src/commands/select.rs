//! `covmatch select`: real pairs in the folder of a distilled set.

use covmatch::distill::select;
use covmatch::experiment::Experiment;
use covmatch::methods::Methods;
use covmatch::run_folder::RunFolder;

use crate::args::SelectArgs;
use crate::experiment;
use crate::progress::EpochBar;

/// Chooses the pairs and says where they are.
pub fn run(args: &SelectArgs) -> anyhow::Result<String> {
    let device = args.run.experiment.engine.open()?;
    let methods = Methods::built_in();
    let (method, selects) = methods.selecting(&args.method)?;
    let folder = RunFolder::new(args.run.folder(&args.config, &format!("-{}", method.name)));
    let config = experiment::read(&args.config, &args.run.experiment.set)?;
    folder.require_free()?;
    let mut bar = EpochBar::new(1, (selects.epochs)(&config));
    let experiment = Experiment::open(config, &device)?;
    let pairs = select(&methods, method.name, experiment, &folder, &mut |done| bar.selecting(done))?;
    drop(bar);
    let shown = folder.path().display();
    Ok(format!("{} pairs: {shown}/distilled.safetensors\nnext: covmatch evaluate {shown}\n", pairs.len()))
}
