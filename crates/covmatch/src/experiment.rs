//! What a configuration names, opened: the dataset, its pictures, the pretrained encoders.

mod encode;

use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;

use crate::config::{Config, ConfigError, DataConfig, RUN_FILE, RunInfo};
use crate::data::cache::{Cached, Fingerprint};
use crate::data::decode::Limits;
use crate::data::library::Library;
use crate::data::loader::{Augment, DatasetPictures, Pictures, TrainLoader, TrainOptions};
use crate::data::tokens::Tokenizer;
use crate::data::transform::Transform;
use crate::data::{DataError, Dataset, scenes, source};
use crate::engine::{Seed, fnv1a64};
use crate::files::{self, WriteError};
use crate::model::{Model, ModelError, Pretrained};

/// Pictures of any origin, shared between loaders.
pub type SharedPictures = Arc<dyn Pictures>;

/// Why an experiment cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The encoders cannot be loaded.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The configuration cannot be written out.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The folder of a run cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A folder already holds a run.
    #[error("{path} already holds a run: resume it with `covmatch distill --resume {path}`, or choose another --out")]
    Occupied {
        /// The folder.
        path: String,
    },
}

impl From<crate::encoders::EncoderError> for ExperimentError {
    fn from(error: crate::encoders::EncoderError) -> Self {
        ExperimentError::Model(error.into())
    }
}

/// An opened experiment.
#[derive(Clone)]
pub struct Experiment {
    /// What it was opened from.
    pub config: Config,
    /// All pairs.
    pub dataset: Arc<Dataset>,
    /// Their pictures.
    pub pictures: SharedPictures,
    /// Encoders with their pretrained weights, and the tokenizer.
    pub pretrained: Pretrained,
    /// From pictures to the image encoder's input.
    pub transform: Transform,
    /// Where everything is computed.
    pub device: Device,
}

impl Experiment {
    /// Opens what `config` names.
    pub fn open(config: Config, device: &Device) -> Result<Self, ExperimentError> {
        let (dataset, pictures) = open_data(&config.data)?;
        let pretrained = Pretrained::load(
            &config.image.spec(),
            &config.text.spec(),
            config.text.pooling.into(),
            config.text.tokenizer.as_deref(),
            device,
        )?;
        let transform = Transform::new(config.image.size, &config.image.normalization()?);
        Ok(Self { config, dataset, pictures, pretrained, transform, device: device.clone() })
    }

    /// Opens what `config` names for a run in the new folder `out`.
    pub fn open_run(config: Config, out: &Path, device: &Device) -> Result<Self, ExperimentError> {
        if out.join(RUN_FILE).exists() {
            return Err(ExperimentError::Occupied { path: out.display().to_string() });
        }
        Self::open(config, device)?.begin_run(out)
    }

    /// The same experiment as a run in `out`: the folder is made and `run.toml` written.
    pub fn begin_run(mut self, out: &Path) -> Result<Self, ExperimentError> {
        self.config.run = Some(RunInfo::of(&self.dataset));
        std::fs::create_dir_all(out).map_err(|cause| WriteError::new(out, cause))?;
        files::write(&out.join(RUN_FILE), self.config.to_toml()?.as_bytes())?;
        Ok(self)
    }

    /// The tokenizer of the text encoder.
    pub fn tokenizer(&self) -> Arc<Tokenizer> {
        Arc::clone(&self.pretrained.tokenizer)
    }

    /// Training batches of `batch` pairs for `purpose`, from `seed`.
    pub fn train_loader(
        &self,
        seed: Seed,
        purpose: &str,
        batch: usize,
        augment: Augment,
    ) -> Result<TrainLoader<SharedPictures>, DataError> {
        let options = TrainOptions {
            seed,
            purpose: purpose.to_owned(),
            batch,
            frames: self.config.data.frames,
            augment,
            on_bad: self.config.data.on_bad,
        };
        let (dataset, pictures) = (Arc::clone(&self.dataset), Arc::clone(&self.pictures));
        TrainLoader::new(dataset, pictures, self.tokenizer(), self.transform.clone(), options)
    }

    /// A model with heads number `draw` of `seed`.
    pub fn model(&self, seed: Seed, draw: u64) -> Model {
        Model::new(&self.pretrained, self.config.head.form(), seed, draw)
    }
}

impl RunInfo {
    /// What a run of this version on `dataset` writes down.
    pub fn of(dataset: &Dataset) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), data_fingerprint: fingerprint(dataset) }
    }
}

/// A number that changes with the names, splits and captions of `dataset`.
fn fingerprint(dataset: &Dataset) -> String {
    let mut bytes = Vec::new();
    for image in &dataset.images {
        bytes.extend_from_slice(format!("{}\0{}\0", image.name, image.split).as_bytes());
    }
    for caption in &dataset.captions {
        bytes.extend_from_slice(format!("{}\0{}\0", caption.image, caption.text).as_bytes());
    }
    format!("{:016x}", fnv1a64(&bytes))
}

/// The dataset of `config` and what reads its pictures.
pub(crate) fn open_data(config: &DataConfig) -> Result<(Arc<Dataset>, SharedPictures), DataError> {
    let limits = Limits::default();
    let (dataset, library) = match config.scenes {
        Some(scenes) => {
            let dataset = if config.frames > 1 { scenes::clips(&scenes) } else { scenes::dataset(&scenes) };
            (dataset, Library::new(limits).with_scenes(scenes))
        }
        None => (source::open(&config.source())?, Library::new(limits)),
    };
    let dataset = Arc::new(dataset);
    let pictures = DatasetPictures::new(Arc::clone(&dataset), library);
    let Some(folder) = &config.cache else { return Ok((dataset, Arc::new(pictures))) };
    let settings = format!("max_pixels={} frames={} scenes={:?}", limits.max_pixels, config.frames, config.scenes);
    let fingerprint = Fingerprint::new(&dataset.images, &settings)?;
    let limit = (config.cache_gb * 1e9) as u64;
    let cached = Cached::open(pictures, dataset.images.len(), folder, fingerprint, limit)?;
    Ok((dataset, Arc::new(cached)))
}
