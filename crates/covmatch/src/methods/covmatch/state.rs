//! The state of CovMatch on the disk.
//!
//! ```text
//! CHECKPOINT/state.safetensors      pairs, their momentum, constants, step
//!            model.safetensors      the round's model and
//!            velocity.safetensors   its momentum, if a round has begun
//! ```
//! Between rounds there is no model to save: the next one starts from the pretrained weights.

use std::path::Path;

use super::learner::{CovMatch, begin_round};
use crate::encoders::weights::{self, KeyMap};
use crate::experiment::Experiment;
use crate::methods::{Learner, MethodError, Synthetic};
use crate::model::{Model, ModelOptimizer, Trainer};
use crate::tensor_file::TensorFile;

/// Writes the state of `learner` into `checkpoint`.
pub(super) fn save(learner: &CovMatch, checkpoint: &Path) -> Result<(), MethodError> {
    let mut file = TensorFile::default();
    learner.synthetic().put_into(&mut file);
    file.put_value("step", &learner.done());
    file.put_value("scale", &learner.scale());
    file.write(&checkpoint.join("state.safetensors"))?;
    if let Some(online) = learner.online() {
        weights::save(online.model(), checkpoint.join("model.safetensors"))?;
        online.optimizer().velocities().write(&checkpoint.join("velocity.safetensors"))?;
    }
    Ok(())
}

/// CovMatch on `experiment` at `checkpoint`.
pub(super) fn load(checkpoint: &Path, experiment: Experiment) -> Result<CovMatch, MethodError> {
    let file = TensorFile::read(&checkpoint.join("state.safetensors"))?;
    let synthetic = Synthetic::of(&file, &experiment.device)?;
    let model = checkpoint.join("model.safetensors");
    let online = model.is_file().then(|| online(checkpoint, &experiment)).transpose()?;
    CovMatch::at(experiment, file.value("scale")?, synthetic, file.value("step")?, online)
}

fn online(checkpoint: &Path, experiment: &Experiment) -> Result<Trainer, MethodError> {
    let model = begin_round(experiment, 0).into_model();
    let model: Model = weights::load(model, checkpoint.join("model.safetensors"), KeyMap::Exact)?;
    let file = TensorFile::read(&checkpoint.join("velocity.safetensors"))?;
    let optimizer = ModelOptimizer::of_velocities(&file, &experiment.device)?;
    Ok(Trainer::resumed(model, optimizer, experiment.config.head.tau, &experiment.device))
}
