//! The state of a distillation on the disk.
//!
//! ```text
//! RUN/checkpoints/step-000150/state.safetensors      pairs, their momentum, constants, step
//!                             model.safetensors      the round's model and
//!                             velocity.safetensors   its momentum, if a round has begun
//! ```
//! A checkpoint is a folder that appears whole, under its final name, by one rename. The two newest are kept. Between
//! rounds there is no model to save: the next one starts from the pretrained weights.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use serde_json::json;

use super::calibration::Scale;
use super::distillation::{Distillation, Online};
use super::error::DistillError;
use super::synthetic::{Synthetic, Velocity};
use crate::encoders::weights::{self, KeyMap};
use crate::experiment::Experiment;
use crate::files::WriteError;
use crate::model::{Inputs, Model, ModelOptimizer};
use crate::optimize::Sgd;
use crate::tensor_file::{TensorFile, TensorFileError};

/// Checkpoints that are kept.
const KEPT: usize = 2;

/// Saves `distillation` in `folder`. Returns the checkpoint's folder.
pub(super) fn save(folder: &Path, distillation: &Distillation) -> Result<PathBuf, DistillError> {
    let name = format!("step-{:08}", distillation.done());
    let (path, partial) = (folder.join(&name), folder.join(format!(".{name}.partial")));
    let io = |cause: io::Error| WriteError::new(&path, cause);
    let _ = fs::remove_dir_all(&partial); // what an earlier process left
    fs::create_dir_all(&partial).map_err(io)?;
    write(&partial, distillation)?;
    let _ = fs::remove_dir_all(&path);
    fs::rename(&partial, &path).map_err(io)?;
    sync(folder);
    remove_old(folder);
    Ok(path)
}

fn write(folder: &Path, distillation: &Distillation) -> Result<(), DistillError> {
    state(distillation).write(&folder.join("state.safetensors"))?;
    if let Some(Online { model, optimizer }) = distillation.online() {
        weights::save(model, folder.join("model.safetensors"))?;
        velocities(optimizer).write(&folder.join("velocity.safetensors"))?;
    }
    Ok(())
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

/// The distillation of `experiment` at the checkpoint `path`.
pub(super) fn load(path: &Path, experiment: &Experiment) -> Result<Distillation, DistillError> {
    let file = TensorFile::read(&path.join("state.safetensors"))?;
    let done = parse(&file, "step")?;
    let scale: Scale = parse(&file, "scale")?;
    let synthetic = synthetic(&file, &experiment.device)?;
    let model = path.join("model.safetensors");
    let online = model.is_file().then(|| online(path, experiment)).transpose()?;
    Distillation::at(experiment.clone(), scale, synthetic, done, online)
}

fn state(distillation: &Distillation) -> TensorFile {
    let mut file = TensorFile::default();
    let Synthetic { inputs, captions, velocity } = distillation.synthetic();
    file.put("pixels", inputs.pixels.clone());
    file.put("text", inputs.text.clone());
    file.put("mask", inputs.mask.clone());
    if let Some(Velocity { pixels, text }) = velocity {
        file.put("velocity.pixels", pixels.clone());
        file.put("velocity.text", text.clone());
    }
    file.metadata.insert("step".to_owned(), json!(distillation.done()).to_string());
    file.metadata.insert("scale".to_owned(), json!(distillation.scale()).to_string());
    file.metadata.insert("captions".to_owned(), json!(captions).to_string());
    file
}

fn synthetic(file: &TensorFile, device: &Device) -> Result<Synthetic, DistillError> {
    let inputs = Inputs {
        pixels: file.get("pixels", device)?,
        text: file.get("text", device)?,
        mask: file.get("mask", device)?,
    };
    let velocity = match file.contains("velocity.pixels") {
        true => {
            Some(Velocity { pixels: file.get("velocity.pixels", device)?, text: file.get("velocity.text", device)? })
        }
        false => None,
    };
    Ok(Synthetic { inputs, captions: parse(file, "captions")?, velocity })
}

fn online(path: &Path, experiment: &Experiment) -> Result<Online, DistillError> {
    let model = experiment.model(experiment.config.seed(), 0);
    let trains_text = experiment.config.online.train_text_encoder;
    let model = if trains_text { model } else { model.with_frozen_text() };
    let model: Model = weights::load(model, path.join("model.safetensors"), KeyMap::Exact)?;
    let file = TensorFile::read(&path.join("velocity.safetensors"))?;
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

/// The JSON value about `key`.
fn parse<T: serde::de::DeserializeOwned>(file: &TensorFile, key: &str) -> Result<T, TensorFileError> {
    let text = file.about(key)?;
    serde_json::from_str(text).map_err(|cause| file.content(format!("has '{key}' as {text}: {cause}")))
}
