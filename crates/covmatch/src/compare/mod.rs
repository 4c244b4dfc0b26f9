//! One table for all methods: a set for every method and number of pairs, each evaluated alike.
//!
//! ```text
//! OUT/<method>-<N>/                  the set, as `covmatch select` or `covmatch distill` makes it
//! OUT/<method>-<N>/cost.json         what making it took; written when the set is whole
//! OUT/<method>-<N>/runs.json         the models of its evaluation that are trained and tested, until all are
//! OUT/<method>-<N>/evaluation.json   its evaluation and the configuration; written last
//! OUT/full/evaluation.json           training on the whole train split
//! OUT/table.{md,csv,json,html}       what is there, in one table
//! ```
//! Cells do not depend on one another: any of them may be filled by any process, and what is killed goes on where it
//! was.
//! [`plan`] says which cells there are, [`cell`] fills one, [`table`] collects them.

pub mod cell;
mod differ;
mod error;
mod formats;
pub mod plan;
pub mod table;

pub use cell::{Cost, Stage, Watcher};
pub use error::CompareError;
pub use plan::{Cell, Plan, Work};
pub use table::Comparison;

use std::path::Path;

use burn::tensor::Device;

use crate::config::RunInfo;
use crate::experiment::open_data;
use crate::shard::Shard;

/// Fills the cells of `plan` that belong to `shard` and are not filled yet, in folders of `out`.
///
/// All cells that are there, of other shards too, must have been made with the same configuration and data.
pub fn fill(
    plan: &Plan,
    shard: Shard,
    out: &Path,
    device: &Device,
    watcher: &mut dyn Watcher,
) -> Result<(), CompareError> {
    let (dataset, _) = open_data(&plan.config.data)?;
    plan.check(&dataset)?;
    let info = RunInfo::of(&dataset);
    for cell in &plan.cells {
        cell.state(out, &info)?;
    }
    for cell in shard.part(&plan.cells) {
        if watcher.steps().stop() {
            return Err(CompareError::Interrupted { cell: cell.name.clone() });
        }
        cell.fill(out, &info, device, watcher)?;
    }
    Ok(())
}
