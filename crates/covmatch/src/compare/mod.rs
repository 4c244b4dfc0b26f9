//! One table for all methods: a set for every method and number of pairs, each evaluated alike.
//!
//! ```text
//! OUT/<method>-<N>/                  a run, as `covmatch select` or `covmatch distill` makes it, and its evaluation
//! OUT/full/evaluation.json           training on the whole train split
//! OUT/table.{md,csv,json,html}       what is there, in one table
//! ```
//! Cells do not depend on one another: any of them may be filled by any process, and what is killed goes on where it
//! was.
//! [`plan`] says which cells there are, [`cell`] fills one, [`table`] collects them.

pub mod cell;
mod error;
mod formats;
pub mod plan;
pub mod table;

pub use cell::{Stage, Watcher};
pub use error::CompareError;
pub use plan::{Cell, Plan};
pub use table::Comparison;

use std::path::Path;

use burn::tensor::Device;

use crate::config::RunRecord;
use crate::experiment::{Opener, fingerprint};
use crate::methods::Methods;
use crate::run_folder::{Content, FolderError};
use crate::shard::Shard;

/// Fills the cells of `plan` that belong to `shard` and are not filled yet, in folders of `out`.
///
/// All cells that are there, of other shards too, must have been made with the same configuration and data.
pub fn fill(
    methods: &Methods,
    plan: &Plan,
    shard: Shard,
    out: &Path,
    device: &Device,
    watcher: &mut dyn Watcher,
) -> Result<(), CompareError> {
    require_comparison(out)?;
    let mut opener = Opener::new(device);
    let dataset = opener.dataset(&plan.config.data)?;
    plan.check(&dataset)?;
    let record = RunRecord::of_data(fingerprint(&dataset));
    for cell in &plan.cells {
        cell.state(out, &record)?;
    }
    let mut bench = cell::Bench { methods, out, record, opener };
    for cell in shard.part(&plan.cells) {
        if watcher.steps().stop() {
            return Err(CompareError::Interrupted { cell: cell.name.clone() });
        }
        cell.fill(&mut bench, watcher)?;
    }
    Ok(())
}

/// An error if `out` is the folder of something else.
fn require_comparison(out: &Path) -> Result<(), CompareError> {
    match Content::of(out) {
        Content::Nothing | Content::Comparison => Ok(()),
        other => Err(FolderError::occupied(out, &other).into()),
    }
}
