//! Real pairs chosen from the train split, in the same folder as a distilled set: the baselines that learn nothing.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use burn::tensor::Device;

use crate::config::{Config, RunInfo};
use crate::data::loader::Augment;
use crate::distill::DistillError;
use crate::distill::finish::{about, write_set};
use crate::distilled::DistilledSet;
use crate::encoders::Mode;
use crate::experiment::Experiment;
use crate::files::{self, WriteError};
use crate::model::Inputs;

/// How pairs are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Uniformly, without replacement, from all entries of the train split.
    Random,
}

/// There is no such way to choose pairs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no selection '{0}'; known names: random")]
pub struct UnknownSelection(pub String);

impl FromStr for Selection {
    type Err = UnknownSelection;

    fn from_str(name: &str) -> Result<Self, UnknownSelection> {
        match name {
            "random" => Ok(Selection::Random),
            _ => Err(UnknownSelection(name.to_owned())),
        }
    }
}

impl Selection {
    /// The name in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            Selection::Random => "random",
        }
    }
}

/// Writes the pairs that `selection` chooses for `config` into the new folder `out`.
pub fn select(selection: Selection, config: Config, out: &Path, device: &Device) -> Result<Inputs, DistillError> {
    if out.join("run.toml").exists() {
        return Err(DistillError::Occupied { path: out.display().to_string() });
    }
    let mut experiment = Experiment::open(config, device)?;
    experiment.config.run = Some(RunInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        data_fingerprint: experiment.data_fingerprint(),
    });
    let (pairs, captions) = random(&experiment)?;
    fs::create_dir_all(out).map_err(|cause| WriteError::new(out, cause))?;
    files::write(&out.join("run.toml"), experiment.config.to_toml()?.as_bytes())?;
    let set = DistilledSet { pairs: pairs.clone(), about: about(&experiment, selection.name(), 0)? };
    write_set(out, &experiment, &set, &captions)?;
    Ok(pairs)
}

/// Random entries under the test transform: the same entries that a distillation of this seed starts from.
pub fn random(experiment: &Experiment) -> Result<(Inputs, Vec<u32>), DistillError> {
    let config = &experiment.config;
    let loader = experiment.train_loader(config.seed(), "synthetic.init", config.distill.pairs, Augment::None)?;
    let batch = loader.batch(0, crate::engine::threads())?;
    let captions = batch.captions.clone();
    let model = experiment.model(config.seed(), 0);
    Ok((model.inputs(batch, &mut Mode::Eval, &experiment.device)?, captions))
}
