//! The state of CovMatch on the disk.
//!
//! ```text
//! CHECKPOINT/state.safetensors      pairs, their momentum, constants, step
//!            model.safetensors      the round's model and
//!            velocity.safetensors   its momentum, if a round has begun
//! ```
//! Between rounds there is no model to save: the next one starts from the pretrained weights.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::Device;

use super::learner::{CovMatch, begin_round};
use crate::encoders::weights::{self, KeyMap};
use crate::experiment::Experiment;
use crate::methods::{Learner, MethodError, Synthetic};
use crate::model::{Model, ModelOptimizer, Trainer};
use crate::optimize::Sgd;
use crate::tensor_file::{TensorFile, TensorFileError};

/// Writes the state of `learner` into `checkpoint`.
pub(super) fn save(learner: &CovMatch, checkpoint: &Path) -> Result<(), MethodError> {
    let mut file = TensorFile::default();
    learner.synthetic().put_into(&mut file);
    file.put_value("step", &learner.done());
    file.put_value("scale", &learner.scale());
    file.write(&checkpoint.join("state.safetensors"))?;
    if let Some(online) = learner.online() {
        weights::save(online.model(), checkpoint.join("model.safetensors"))?;
        velocities(online.optimizer()).write(&checkpoint.join("velocity.safetensors"))?;
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
    let optimizer = optimizer(&file, &experiment.device)?;
    Ok(Trainer::resumed(model, optimizer, experiment.config.head.tau, &experiment.device))
}

/// The four parts of an optimizer by the names of the model's fields.
const PARTS: [&str; 4] = ["visual", "text", "image_head", "text_head"];

fn velocities(optimizer: &ModelOptimizer) -> TensorFile {
    let mut file = TensorFile::default();
    let ModelOptimizer { visual, text, image_head, text_head } = optimizer;
    for (part, sgd) in PARTS.iter().zip([visual, text, image_head, text_head]) {
        for (key, velocity) in sgd.velocities() {
            file.put(&format!("{part}/{key}"), velocity.clone());
        }
    }
    file
}

fn optimizer(file: &TensorFile, device: &Device) -> Result<ModelOptimizer, TensorFileError> {
    let part = |part: &str| -> Result<Sgd, TensorFileError> {
        let mut velocities = BTreeMap::new();
        for name in file.names() {
            if let Some(key) = name.strip_prefix(part).and_then(|rest| rest.strip_prefix('/')) {
                velocities.insert(key.to_owned(), file.get(name, device)?);
            }
        }
        Ok(Sgd::from_velocities(velocities))
    };
    let [visual, text, image_head, text_head] = PARTS.map(part);
    Ok(ModelOptimizer { visual: visual?, text: text?, image_head: image_head?, text_head: text_head? })
}
