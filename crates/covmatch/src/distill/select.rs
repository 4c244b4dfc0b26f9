//! Real pairs that a selection chooses, written into the folder of a run.

use std::fs;
use std::time::Instant;

use super::error::DistillError;
use crate::config::Maker;
use crate::engine::peak_memory;
use crate::experiment::Experiment;
use crate::files::WriteError;
use crate::methods::{EpochDone, Methods, selection};
use crate::model::Inputs;
use crate::run_folder::{Cost, Made, RunFolder, new_peak, write_set};

/// Writes the pairs that the method `name` chooses for `experiment` into `folder`, which holds no run until they are whole.
///
/// What an earlier process left of the same choice is written over.
pub fn select(
    methods: &Methods,
    name: &str,
    experiment: Experiment,
    folder: &RunFolder,
    progress: &mut dyn FnMut(EpochDone),
) -> Result<Inputs, DistillError> {
    let (method, selects) = methods.selecting(name)?;
    methods.check("the experiment", &experiment.config)?;
    folder.require_free()?;
    let (start, before) = (Instant::now(), peak_memory());
    let captions = (selects.choose)(&experiment, progress)?;
    let pairs = selection::real_pairs(&experiment, &captions)?;
    fs::create_dir_all(folder.path()).map_err(|cause| WriteError::new(folder.path(), cause))?;
    let maker = Maker::of(method.name, method.title, false, &experiment.device);
    let made = Made { pairs: pairs.clone(), captions: &captions, learned: None };
    write_set(folder, &experiment, &maker, 0, made)?;
    Cost { peak_memory: new_peak(before), ..Cost::new(0, start.elapsed().as_secs_f64()) }.write(folder)?;
    folder.write_config(experiment, maker)?; // last: until then the folder holds no run
    Ok(pairs)
}
