//! What a configuration names, opened: the dataset, its pictures, the pretrained encoders.

mod encode;

use std::sync::Arc;

use burn::tensor::Device;

use crate::config::{Config, DataConfig, TextConfig};
use crate::data::cache::{Cached, Fingerprint};
use crate::data::decode::Limits;
use crate::data::library::Library;
use crate::data::loader::{Ahead, Augment, Batch, DatasetPictures, Pictures, Prefetch, TrainLoader, TrainOptions};
use crate::data::tokens::Tokenizer;
use crate::data::transform::Transform;
use crate::data::{DataError, Dataset, scenes, source};
use crate::engine::{Seed, fnv1a64};
use crate::model::{EncoderSpec, Model, ModelError, Pretrained};

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

/// Opens experiments one after the other: what the next has in common with the last stays open.
pub struct Opener {
    device: Device,
    data: Option<OpenData>,
    pretrained: Option<(Encoders, Pretrained)>,
}

/// A dataset with its pictures, and the section that names it.
struct OpenData {
    config: DataConfig,
    dataset: Arc<Dataset>,
    pictures: SharedPictures,
}

/// What names pretrained encoders.
type Encoders = (EncoderSpec, TextConfig);

impl Opener {
    /// Opens experiments on `device`.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), data: None, pretrained: None }
    }

    /// The dataset of `config`.
    pub fn dataset(&mut self, config: &DataConfig) -> Result<Arc<Dataset>, DataError> {
        Ok(self.data(config)?.0)
    }

    /// Opens what `config` names.
    pub fn open(&mut self, config: Config) -> Result<Experiment, ExperimentError> {
        let (dataset, pictures) = self.data(&config.data)?;
        let pretrained = self.pretrained(&config)?;
        let transform = Transform::new(config.image.size, &config.image.normalization()?);
        Ok(Experiment { config, dataset, pictures, pretrained, transform, device: self.device.clone() })
    }

    fn data(&mut self, config: &DataConfig) -> Result<(Arc<Dataset>, SharedPictures), DataError> {
        if let Some(open) = self.data.as_ref().filter(|open| open.config == *config) {
            return Ok((Arc::clone(&open.dataset), Arc::clone(&open.pictures)));
        }
        let (dataset, pictures) = open_data(config)?;
        let open = OpenData { config: config.clone(), dataset: Arc::clone(&dataset), pictures: Arc::clone(&pictures) };
        self.data = Some(open);
        Ok((dataset, pictures))
    }

    fn pretrained(&mut self, config: &Config) -> Result<Pretrained, ModelError> {
        let wanted = (config.image.spec(), config.text.clone());
        if let Some((_, pretrained)) = self.pretrained.as_ref().filter(|(encoders, _)| *encoders == wanted) {
            return Ok(pretrained.clone());
        }
        let (tokenizer, pooling) = (config.text.tokenizer.as_deref(), config.text.pooling.into());
        let pretrained = Pretrained::load(&wanted.0, &config.text.spec(), pooling, tokenizer, &self.device)?;
        self.pretrained = Some((wanted, pretrained.clone()));
        Ok(pretrained)
    }
}

impl Experiment {
    /// Opens what `config` names.
    pub fn open(config: Config, device: &Device) -> Result<Self, ExperimentError> {
        Opener::new(device).open(config)
    }

    /// A number that changes with the names, splits and captions of the dataset.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.dataset)
    }

    /// The batches of an epoch of training for `purpose`, made ahead, augmented as the data says.
    pub fn epoch(
        &self,
        seed: Seed,
        purpose: &str,
        batch: usize,
        epoch: usize,
    ) -> Result<impl Iterator<Item = Result<Batch, DataError>> + use<>, DataError> {
        let loader = self.train_loader(seed, purpose, batch, self.config.data.augmentation())?;
        let per_epoch = loader.batches_per_epoch();
        let batches = Prefetch::new(Arc::new(loader), epoch as u64 * per_epoch, Ahead::default());
        Ok(batches.take(per_epoch as usize))
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

/// A number that changes with the names, splits and captions of `dataset`.
pub(crate) fn fingerprint(dataset: &Dataset) -> String {
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
fn open_data(config: &DataConfig) -> Result<(Arc<Dataset>, SharedPictures), DataError> {
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
