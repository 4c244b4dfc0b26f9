//! The folder of a run: what it holds, who made it, and where in its life it is.
//!
//! ```text
//! run.toml                the whole configuration, seed, fingerprint of the data, and what made it
//! checkpoints/            the two newest states of a learner
//! metrics.jsonl           a line a step             tensorboard/   the same for TensorBoard
//! distilled.safetensors   the pairs, see [`crate::distilled`]
//! images/  metadata.jsonl a view of each pair, and the captions near it
//! README.md               a dataset card: how to load the pairs, how they were made and evaluated
//! cost.json               what making them took; the pairs are whole when it is there
//! evaluation.json         what models that were trained on the pairs reached, by the folder's own protocol
//! evaluations/NAME.json   the same by another protocol, which the name tells
//! report.html             results, curves, pairs before and after
//! ```
//! A learner's folder begins with `run.toml`; one of chosen pairs ends with it. [`Content`] tells what any folder is, so
//! that a command can refuse one that is not its own and name the command that it belongs to.

mod card;
mod content;
mod cost;
mod error;
mod set;

pub use card::{Training, card};
pub use content::{Content, Pairs};
pub use cost::{Cost, new_peak};
pub use error::FolderError;
pub use set::{Made, write_set};

use std::fs;
use std::path::{Path, PathBuf};

use crate::config::{Config, Maker, RunRecord};
use crate::distilled;
use crate::experiment::Experiment;
use crate::files::{self, WriteError};

/// The files of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder(PathBuf);

impl RunFolder {
    /// The run in `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The configuration.
    pub fn config_file(&self) -> PathBuf {
        self.0.join("run.toml")
    }

    /// The states of a learner.
    pub fn checkpoints(&self) -> PathBuf {
        self.0.join("checkpoints")
    }

    /// A line a step.
    pub fn metrics(&self) -> PathBuf {
        self.0.join("metrics.jsonl")
    }

    /// Event files of TensorBoard.
    pub fn tensorboard(&self) -> PathBuf {
        self.0.join("tensorboard")
    }

    /// The tensors of the pairs.
    pub fn set(&self) -> PathBuf {
        self.0.join(distilled::FILE)
    }

    /// The captions of the pairs, a line each.
    pub fn captions(&self) -> PathBuf {
        self.0.join("metadata.jsonl")
    }

    /// The dataset card.
    pub fn card(&self) -> PathBuf {
        self.0.join("README.md")
    }

    /// The page.
    pub fn report(&self) -> PathBuf {
        self.0.join("report.html")
    }

    /// The configuration with each of `overrides` set; an error that says what the folder is if it has none.
    pub fn config(&self, overrides: &[String]) -> Result<Config, FolderError> {
        match self.config_file().is_file() {
            true => Ok(Config::read(&self.config_file(), overrides)?),
            false => Err(FolderError::not_pairs(&self.0)),
        }
    }

    /// What made the pairs: what `config` records, or the folder's own.
    pub fn maker(&self, config: &Config) -> Maker {
        let written = |config: &Config| config.run.as_ref().and_then(|run| run.maker.clone());
        let own = || written(&self.config(&[]).ok()?);
        written(config).or_else(own).unwrap_or_else(|| content::maker_before_it_was_written(self, config))
    }

    /// Whether the pairs are whole.
    pub fn is_made(&self) -> bool {
        // Version 0.1 wrote `cost.json` in comparisons alone; the card came last.
        Cost::read(self).is_some() || (self.set().is_file() && self.card().is_file())
    }

    /// Begins a run of `maker` on `experiment`: writes `run.toml`. An error if the folder holds a run already.
    pub fn begin(&self, experiment: Experiment, maker: Maker) -> Result<Experiment, FolderError> {
        self.require_free()?;
        fs::create_dir_all(&self.0).map_err(|cause| WriteError::new(&self.0, cause))?;
        self.write_config(experiment, maker)
    }

    /// Writes `run.toml` of a run of `maker` on `experiment`. Returns the experiment with what it records.
    pub fn write_config(&self, mut experiment: Experiment, maker: Maker) -> Result<Experiment, FolderError> {
        let record = RunRecord { maker: Some(maker), ..RunRecord::of_data(experiment.fingerprint()) };
        experiment.config.run = Some(record);
        files::write(&self.config_file(), experiment.config.to_toml()?.as_bytes())?;
        Ok(experiment)
    }

    /// An error unless the folder can take a new run.
    pub fn require_free(&self) -> Result<(), FolderError> {
        match Content::of(&self.0) {
            Content::Nothing => Ok(()),
            content => Err(FolderError::occupied(&self.0, &content)),
        }
    }

    /// An error unless the folder can take models that are trained on everything, or has such models.
    pub fn require_training(&self) -> Result<(), FolderError> {
        match Content::of(&self.0) {
            Content::Nothing | Content::FullTraining => Ok(()),
            content => Err(FolderError::occupied(&self.0, &content)),
        }
    }

    /// The configuration and what made the pairs, which are whole.
    pub fn require_pairs(&self, overrides: &[String]) -> Result<(Config, Maker), FolderError> {
        let config = self.config(overrides)?;
        let maker = self.maker(&config);
        if !self.set().is_file() {
            return Err(FolderError::unfinished(&self.0, &maker));
        }
        Ok((config, maker))
    }

    /// The configuration of a run that learns pairs.
    pub fn require_learner(&self) -> Result<(Config, Maker), FolderError> {
        if !self.config_file().is_file() {
            return Err(FolderError::not_pairs(&self.0));
        }
        let config = self.config(&[])?;
        let maker = self.maker(&config);
        match maker.learns {
            true => Ok((config, maker)),
            false => Err(FolderError::nothing_to_resume(&self.0, &maker)),
        }
    }
}
