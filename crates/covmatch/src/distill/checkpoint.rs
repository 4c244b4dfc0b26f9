//! The checkpoints of a run: `RUN/checkpoints/step-00000150/`, with what the learner saves in it.
//!
//! A checkpoint is a folder that appears whole, under its final name, by one rename. The two newest are kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::DistillError;
use crate::files::WriteError;
use crate::methods::Learner;

/// Checkpoints that are kept.
const KEPT: usize = 2;

/// Saves the state of `learner` in `folder`. Returns the checkpoint's folder.
pub(super) fn save(folder: &Path, learner: &dyn Learner) -> Result<PathBuf, DistillError> {
    let name = format!("step-{:08}", learner.done());
    let (path, partial) = (folder.join(&name), folder.join(format!(".{name}.partial")));
    let io = |cause: io::Error| WriteError::new(&path, cause);
    let _ = fs::remove_dir_all(&partial); // what an earlier process left
    fs::create_dir_all(&partial).map_err(io)?;
    learner.save(&partial)?;
    let _ = fs::remove_dir_all(&path);
    fs::rename(&partial, &path).map_err(io)?;
    sync(folder);
    remove_old(folder);
    Ok(path)
}

/// Makes the rename of a checkpoint durable; a file system that cannot is left as it is.
fn sync(folder: &Path) {
    if let Ok(folder) = fs::File::open(folder) {
        let _ = folder.sync_all();
    }
}

fn remove_old(folder: &Path) {
    for old in list(folder).iter().skip(KEPT) {
        let _ = fs::remove_dir_all(old); // one checkpoint more does no harm
    }
}

/// The checkpoints in `folder`, the newest first.
pub(super) fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_checkpoint = |path: &PathBuf| {
        path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("step-"))
    };
    let mut found: Vec<PathBuf> = entries.filter(is_checkpoint).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}
