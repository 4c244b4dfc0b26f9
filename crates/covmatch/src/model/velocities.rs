//! The momentum of a model in training, as a file of tensors.

use std::collections::BTreeMap;

use burn::tensor::Device;

use super::ModelOptimizer;
use crate::optimize::Sgd;
use crate::tensor_file::{TensorFile, TensorFileError};

/// The four parts of an optimizer by the names of the model's fields.
const PARTS: [&str; 4] = ["visual", "text", "image_head", "text_head"];

impl ModelOptimizer {
    /// The velocities by part and by the parameters' keys.
    pub fn velocities(&self) -> TensorFile {
        let mut file = TensorFile::default();
        let Self { visual, text, image_head, text_head } = self;
        for (part, sgd) in PARTS.iter().zip([visual, text, image_head, text_head]) {
            for (key, velocity) in sgd.velocities() {
                file.put(&format!("{part}/{key}"), velocity.clone());
            }
        }
        file
    }

    /// The optimizer whose [`velocities`](Self::velocities) `file` holds.
    pub fn of_velocities(file: &TensorFile, device: &Device) -> Result<Self, TensorFileError> {
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
        Ok(Self { visual: visual?, text: text?, image_head: image_head?, text_head: text_head? })
    }
}
