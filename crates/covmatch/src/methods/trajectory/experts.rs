//! Expert trajectories: the weights of models in training on all data, kept after every epoch.
//!
//! ```text
//! FOLDER/experts.toml                           what they were trained with
//! FOLDER/expert-0003/epoch-00.safetensors       trained weights by name, before the first epoch
//!                    epoch-01.safetensors       after it, ...
//! ```
//! An expert is plain SGD without momentum, so its weights are its whole state: a training that is interrupted goes on
//! from the last file. Expert `k` is a function of the seed and of `k`; many machines may fill one folder, each its share.

use std::fs;
use std::path::{Path, PathBuf};

use burn::module::Module;
use serde::{Deserialize, Serialize};

use super::point::{Point, model_at, named, point_in, trained_keys};
use crate::config::ExpertsConfig;
use crate::engine::Seed;
use crate::experiment::Experiment;
use crate::files::WriteError;
use crate::methods::MethodError;
use crate::methods::recipe::{self, ModelRecipe};
use crate::model::{Example, Model, PartRates, Trainer};
use crate::shard::Shard;
use crate::tensor_file::TensorFile;

/// What experts were trained with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Recipe {
    #[serde(flatten)]
    model: ModelRecipe,
    epochs: usize,
    batch: usize,
    lr_image: f32,
    lr_text: f32,
    train_text_encoder: bool,
}

impl Recipe {
    fn of(experiment: &Experiment) -> Self {
        let &ExpertsConfig { epochs, batch, lr_image, lr_text, train_text_encoder, .. } = &experiment.config.experts;
        Self { model: ModelRecipe::of(experiment), epochs, batch, lr_image, lr_text, train_text_encoder }
    }
}

/// Why experts cannot be trained or used.
#[derive(Debug, thiserror::Error)]
pub enum ExpertsError {
    /// There are no experts.
    #[error("{folder} has no whole expert: train some with `covmatch experts CONFIG`")]
    None {
        /// The folder.
        folder: String,
    },
    /// The disk is too small.
    #[error(
        "the experts need {need:.1} GB and the disk of {folder} has {free:.1} GB free: choose another experts.folder, \
         fewer experts.count or experts.epochs"
    )]
    NoRoom {
        /// The folder.
        folder: String,
        /// What they need, in 10^9 bytes.
        need: f64,
        /// What is free, in 10^9 bytes.
        free: f64,
    },
    /// An expert diverged.
    #[error("the loss of expert {expert} is not finite in epoch {epoch}: try smaller experts.lr_image and lr_text")]
    NotFinite {
        /// The expert.
        expert: usize,
        /// The epoch.
        epoch: usize,
    },
}

/// What training of experts needs, before it starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Experts that are not whole yet.
    pub experts: usize,
    /// Their epochs that are still to be trained.
    pub epochs: u64,
    /// Bytes of a kept epoch.
    pub epoch_bytes: u64,
    /// Bytes that are still to be written.
    pub bytes: u64,
}

/// An epoch of an expert is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertProgress {
    /// The expert.
    pub expert: usize,
    /// Epochs that are done.
    pub epochs: usize,
    /// Mean loss of the epoch.
    pub loss: f32,
}

/// The experts of an experiment.
pub struct Experts {
    experiment: Experiment,
    /// A model like an expert's: which weights are trained, and the values of the others.
    model: Model,
}

impl Experts {
    /// Those of `experiment`. Makes the folder if it is not there; an error if it holds others.
    pub fn open(experiment: Experiment) -> Result<Self, MethodError> {
        recipe::keep(&experiment.config.experts.folder, "experts", "experts.folder", &Recipe::of(&experiment))?;
        let model = frame(&experiment, experiment.config.seed(), 0);
        Ok(Self { experiment, model })
    }

    fn config(&self) -> &ExpertsConfig {
        &self.experiment.config.experts
    }

    /// What the share `shard` still needs.
    pub fn estimate(&self, shard: Shard) -> Estimate {
        let weights: usize = trained_keys(&self.model).iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
        let missing = |expert: &usize| !self.file(*expert, self.config().epochs).is_file();
        let of_expert =
            |expert: usize| (0..=self.config().epochs).filter(|&at| !self.file(expert, at).is_file()).count();
        let all: Vec<usize> = (0..self.config().count).collect();
        let share: Vec<usize> = shard.part(&all).copied().filter(missing).collect();
        let epoch_bytes = 4 * weights as u64;
        let files: usize = share.iter().map(|&expert| of_expert(expert)).sum();
        let epochs = share.iter().map(|&expert| of_expert(expert).min(self.config().epochs) as u64).sum();
        Estimate { experts: share.len(), epochs, epoch_bytes, bytes: epoch_bytes * files as u64 }
    }

    /// Trains the experts of the share `shard` that are not whole.
    pub fn train(&self, shard: Shard, progress: &mut dyn FnMut(ExpertProgress)) -> Result<(), MethodError> {
        self.check_room(self.estimate(shard).bytes)?;
        let all: Vec<usize> = (0..self.config().count).collect();
        for &expert in shard.part(&all) {
            self.train_one(expert, progress)?;
        }
        Ok(())
    }

    /// The experts that are whole.
    pub fn whole(&self) -> Result<Vec<usize>, ExpertsError> {
        let whole: Vec<usize> =
            (0..self.config().count).filter(|&expert| self.file(expert, self.config().epochs).is_file()).collect();
        match whole.is_empty() {
            true => Err(ExpertsError::None { folder: self.config().folder.display().to_string() }),
            false => Ok(whole),
        }
    }

    /// The weights of `expert` after `epochs` epochs.
    pub fn point(&self, expert: usize, epochs: usize) -> Result<Point, MethodError> {
        let file = TensorFile::read(&self.file(expert, epochs))?;
        Ok(point_in(&file, &self.model)?)
    }

    /// Seconds that all whole experts took to train, and the bytes of all files.
    pub fn cost(&self) -> Result<(f64, u64), MethodError> {
        let (mut seconds, mut bytes) = (0.0, 0);
        for expert in self.whole()? {
            for epochs in 0..=self.config().epochs {
                let path = self.file(expert, epochs);
                bytes += fs::metadata(&path).map_or(0, |about| about.len());
                seconds += TensorFile::read(&path)?.value::<f64>("seconds")?;
            }
        }
        Ok((seconds, bytes))
    }

    fn folder(&self, expert: usize) -> PathBuf {
        self.config().folder.join(format!("expert-{expert:04}"))
    }

    fn file(&self, expert: usize, epochs: usize) -> PathBuf {
        self.folder(expert).join(format!("epoch-{epochs:02}.safetensors"))
    }

    /// Epochs of `expert` that are on the disk; none if not even its beginning is.
    fn done(&self, expert: usize) -> Option<usize> {
        (0..=self.config().epochs).take_while(|&epochs| self.file(expert, epochs).is_file()).last()
    }

    fn train_one(&self, expert: usize, progress: &mut dyn FnMut(ExpertProgress)) -> Result<(), MethodError> {
        let seed = Seed(self.experiment.config.seed().stream("expert", expert as u64).next_u64());
        let folder = self.folder(expert);
        fs::create_dir_all(&folder).map_err(|cause| WriteError::new(&folder, cause))?;
        let mut model = frame(&self.experiment, seed, 0);
        let done = match self.done(expert) {
            Some(epochs) => {
                model = model_at(&model, &self.point(expert, epochs)?).valid();
                epochs
            }
            None => {
                self.keep(&model, expert, 0, 0.0)?;
                0
            }
        };
        for epoch in done..self.config().epochs {
            let start = std::time::Instant::now();
            let (next, loss) = self.epoch(model, seed, expert, epoch)?;
            model = next;
            self.keep(&model, expert, epoch + 1, start.elapsed().as_secs_f64())?;
            progress(ExpertProgress { expert, epochs: epoch + 1, loss });
        }
        Ok(())
    }

    fn keep(&self, model: &Model, expert: usize, epochs: usize, seconds: f64) -> Result<(), MethodError> {
        let mut file = named(model);
        file.put_value("seconds", &seconds);
        Ok(file.write(&self.file(expert, epochs))?)
    }

    /// `model` after epoch number `epoch`, and the mean loss of its steps.
    fn epoch(&self, model: Model, seed: Seed, expert: usize, epoch: usize) -> Result<(Model, f32), MethodError> {
        let (config, experiment) = (self.config(), &self.experiment);
        let rates = PartRates::of_branches(config.rates(), 0.0, 0.0);
        let batches = experiment.epoch(seed, "expert.order", config.batch, epoch)?;
        let examples = batches.map(|batch| Ok::<_, MethodError>(Example::Batch(batch?)));
        let trainer = Trainer::new(model, experiment.config.head.tau, &experiment.device);
        let mut dropout = seed.stream("expert.dropout", epoch as u64);
        let (trainer, loss) = trainer.epoch(examples, rates, &mut dropout, &mut |_| {})?;
        if !loss.is_finite() {
            return Err(ExpertsError::NotFinite { expert, epoch }.into());
        }
        Ok((trainer.into_model(), loss))
    }

    fn check_room(&self, need: u64) -> Result<(), ExpertsError> {
        match free_bytes(&self.config().folder) {
            Some(free) if free < need => Err(ExpertsError::NoRoom {
                folder: self.config().folder.display().to_string(),
                need: need as f64 / 1e9,
                free: free as f64 / 1e9,
            }),
            _ => Ok(()),
        }
    }
}

/// A model as experts and students are: heads number `draw` of `seed`, the text encoder trained or not.
pub(super) fn frame(experiment: &Experiment, seed: Seed, draw: u64) -> Model {
    let model = experiment.model(seed, draw);
    if experiment.config.experts.train_text_encoder { model } else { model.with_frozen_text() }
}

/// Bytes that are free for this user on the disk of `folder`; none where the system does not say.
fn free_bytes(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let about = rustix::fs::statvfs(folder).ok()?;
        Some(about.f_bavail * about.f_frsize)
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}
