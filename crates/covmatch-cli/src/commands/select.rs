//! `covmatch select`: real pairs in the folder of a distilled set.

use std::path::Path;

use covmatch::config::Config;
use covmatch::engine::set_threads;
use covmatch::select::select;

use crate::args::SelectArgs;

/// Chooses the pairs and says where they are.
pub fn run(args: &SelectArgs) -> anyhow::Result<String> {
    set_threads(args.engine.threads)?;
    let device = args.engine.device.open()?;
    let name = args.config.file_stem().unwrap_or_default().to_string_lossy();
    let out = args.out.clone().unwrap_or_else(|| Path::new("runs").join(format!("{name}-{}", args.method.name())));
    let pairs = select(args.method, Config::read(&args.config, &args.set)?, &out, &device)?;
    let folder = out.display();
    Ok(format!("{} pairs: {folder}/distilled.safetensors\nnext: covmatch evaluate {folder}\n", pairs.len()))
}
