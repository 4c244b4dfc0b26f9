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

use super::distillation::{Distillation, Online};
use super::error::DistillError;
use super::method::Method;
use super::synthetic::Synthetic;
use crate::encoders::weights::{self, KeyMap};
use crate::experiment::Experiment;
use crate::model::{Model, ModelOptimizer};
use crate::optimize::Sgd;
use crate::tensor_file::{TensorFile, TensorFileError};

/// Writes the state of `distillation` into `checkpoint`.
pub(super) fn save(distillation: &Distillation, checkpoint: &Path) -> Result<(), DistillError> {
    let mut file = TensorFile::default();
    distillation.synthetic().put_into(&mut file);
    file.put_value("step", &distillation.done());
    file.put_value("scale", &distillation.scale());
    file.write(&checkpoint.join("state.safetensors"))?;
    if let Some(Online { model, optimizer }) = distillation.online() {
        weights::save(model, checkpoint.join("model.safetensors"))?;
        velocities(optimizer).write(&checkpoint.join("velocity.safetensors"))?;
    }
    Ok(())
}

/// The distillation of `experiment` at `checkpoint`.
pub(super) fn load(checkpoint: &Path, experiment: &Experiment) -> Result<Distillation, DistillError> {
    let file = TensorFile::read(&checkpoint.join("state.safetensors"))?;
    let synthetic = Synthetic::of(&file, &experiment.device)?;
    let model = checkpoint.join("model.safetensors");
    let online = model.is_file().then(|| online(checkpoint, experiment)).transpose()?;
    Distillation::at(experiment.clone(), file.value("scale")?, synthetic, file.value("step")?, online)
}

fn online(checkpoint: &Path, experiment: &Experiment) -> Result<Online, DistillError> {
    let Online { model, .. } = Online::of_round(experiment, 0);
    let model: Model = weights::load(model, checkpoint.join("model.safetensors"), KeyMap::Exact)?;
    let file = TensorFile::read(&checkpoint.join("velocity.safetensors"))?;
    Ok(Online { model, optimizer: optimizer(&file, &experiment.device)? })
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
