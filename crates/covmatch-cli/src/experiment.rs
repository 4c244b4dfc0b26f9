//! Experiments as commands name them: a file, overrides, and the methods of this program.

use std::path::Path;

use covmatch::config::{Config, old_names};
use covmatch::methods::Methods;

use crate::console::progress;

/// The experiment of the file at `path` with each of `overrides` set. Names of an earlier version are told of.
pub fn read(path: &Path, overrides: &[String]) -> anyhow::Result<Config> {
    let config = Methods::built_in().read(path, overrides)?;
    let text = std::fs::read_to_string(path).unwrap_or_default();
    for notice in old_names(&text, overrides) {
        progress(&format!("warning: {}: {notice}", path.display()));
    }
    Ok(config)
}
