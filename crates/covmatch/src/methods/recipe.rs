//! What the models of a folder were trained with, as a file: a folder holds those of one recipe.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::MethodError;
use crate::config::Config;
use crate::experiment::Experiment;
use crate::files::{self, WriteError};

/// The part of a recipe that every model has: data, encoders and heads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ModelRecipe {
    seed: u64,
    data_fingerprint: String,
    image_encoder: String,
    image_size: usize,
    text_encoder: String,
    pooling: String,
    head_image: bool,
    head_width: usize,
    head_depth: usize,
    head_dropout: f32,
    tau: f32,
    augment: bool,
}

impl ModelRecipe {
    /// That of the models of `experiment`.
    pub(super) fn of(experiment: &Experiment) -> Self {
        let Config { seed, data, image, text, head, .. } = &experiment.config;
        Self {
            seed: *seed,
            data_fingerprint: experiment.fingerprint(),
            image_encoder: image.encoder.clone(),
            image_size: image.size,
            text_encoder: text.encoder.clone(),
            pooling: text.pooling.name().to_owned(),
            head_image: head.image,
            head_width: head.width,
            head_depth: head.depth,
            head_dropout: head.dropout,
            tau: head.tau,
            augment: data.augment,
        }
    }
}

/// Why the models of a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The folder holds models of another recipe.
    #[error(
        "{folder} holds {models} that were trained with {field} = {there}, and this experiment has {wanted}: choose \
         another {setting}, or the same setting"
    )]
    Other {
        /// The folder.
        folder: String,
        /// What is in it, such as experts.
        models: &'static str,
        /// The field of the configuration that names the folder.
        setting: &'static str,
        /// The first setting that differs.
        field: String,
        /// Its value in the folder.
        there: String,
        /// Its value in the experiment.
        wanted: String,
    },
    /// The record of a folder cannot be read.
    #[error("cannot read {path}: {cause}; remove the folder and train the {models} again")]
    Record {
        /// The file.
        path: String,
        /// What is in the folder.
        models: &'static str,
        /// What is wrong.
        cause: String,
    },
}

/// Writes `recipe` to `FOLDER/MODELS.toml`, folder and all, or finds it there; an error if another one is there. The field
/// `setting` of the configuration names the folder.
pub(super) fn keep<R: Serialize>(
    folder: &Path,
    models: &'static str,
    setting: &'static str,
    recipe: &R,
) -> Result<(), MethodError> {
    let path = folder.join(format!("{models}.toml"));
    let record = |cause: String| -> MethodError {
        RecipeError::Record { path: path.display().to_string(), models, cause }.into()
    };
    let wanted = toml::to_string(recipe).map_err(|cause| record(cause.to_string()))?;
    if !path.is_file() {
        fs::create_dir_all(folder).map_err(|cause| WriteError::new(folder, cause))?;
        return Ok(files::write(&path, wanted.as_bytes())?);
    }
    let there = fs::read_to_string(&path).map_err(|cause| record(cause.to_string()))?;
    let table = |text: &str| text.parse::<toml::Table>().map_err(|cause| record(cause.to_string()));
    // Both through text, as numbers are rounded when they are written.
    let (wanted, there) = (table(&wanted)?, table(&there)?);
    let none = toml::Value::String("nothing".to_owned());
    let values = wanted.iter().map(|(field, wanted)| (field, wanted, there.get(field).unwrap_or(&none)));
    match values.into_iter().find(|(_, wanted, there)| wanted != there) {
        None => Ok(()),
        Some((field, wanted, there)) => Err(RecipeError::Other {
            folder: folder.display().to_string(),
            models,
            setting,
            field: field.clone(),
            there: there.to_string(),
            wanted: wanted.to_string(),
        }
        .into()),
    }
}
