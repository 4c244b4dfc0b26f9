//! Real pairs chosen from the train split, in the same folder as a distilled set: the baselines that learn nothing.
//!
//! | name       | chooses                                                                      |
//! |------------|------------------------------------------------------------------------------|
//! | `random`   | entries of the train split, uniformly                                        |
//! | `herding`  | entries whose running mean stays close to the mean of all ([`herding()`])    |
//! | `k-center` | entries far from one another ([`k_center()`])                                |
//!
//! Herding and K-Center look at joint features of the pretrained encoders and take an image once. They draw nothing: the
//! same data and encoders give the same pairs. All pictures are under the test transform.

mod herding;
mod joint;
mod k_center;

pub use herding::herding;
pub use joint::{JointFeatures, Rows};
pub use k_center::k_center;

use std::fs;
use std::path::Path;
use std::str::FromStr;

use burn::tensor::{Device, Tensor};

use crate::config::{Config, RunInfo};
use crate::data::caption::{self, MAX_WORDS};
use crate::data::loader::Augment;
use crate::data::{DataError, Split};
use crate::distill::DistillError;
use crate::distill::finish::{about, write_set};
use crate::distilled::DistilledSet;
use crate::encoders::Mode;
use crate::encoders::text::encode_by_length;
use crate::experiment::Experiment;
use crate::files::{self, WriteError};
use crate::model::{Inputs, TextLevel};

/// How pairs are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Uniformly, without replacement, from all entries of the train split.
    Random,
    /// By herding.
    Herding,
    /// By the greedy K-Center algorithm.
    KCenter,
}

/// There is no such way to choose pairs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no selection '{0}'; known names: random, herding, k-center")]
pub struct UnknownSelection(pub String);

impl FromStr for Selection {
    type Err = UnknownSelection;

    fn from_str(name: &str) -> Result<Self, UnknownSelection> {
        let known = [Selection::Random, Selection::Herding, Selection::KCenter];
        known.into_iter().find(|known| known.name() == name).ok_or_else(|| UnknownSelection(name.to_owned()))
    }
}

impl Selection {
    /// The name in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            Selection::Random => "random",
            Selection::Herding => "herding",
            Selection::KCenter => "k-center",
        }
    }

    /// The captions of the chosen pairs, indices into `Dataset::captions`.
    pub fn choose(self, experiment: &Experiment) -> Result<Vec<u32>, DistillError> {
        let pairs = experiment.config.distill.pairs;
        let choose = match self {
            Selection::Random => return random(experiment),
            Selection::Herding => herding,
            Selection::KCenter => k_center,
        };
        let (features, captions) = train_features(experiment)?;
        let chosen = choose(&features, pairs);
        if chosen.len() < pairs {
            let (split, entries) = (Split::Train, chosen.len());
            return Err(DataError::TooFewEntries { split, entries, batch: pairs }.into());
        }
        Ok(chosen.into_iter().map(|entry| captions[entry]).collect())
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
    let captions = selection.choose(&experiment)?;
    let pairs = real_pairs(&experiment, &captions)?;
    fs::create_dir_all(out).map_err(|cause| WriteError::new(out, cause))?;
    files::write(&out.join("run.toml"), experiment.config.to_toml()?.as_bytes())?;
    let set = DistilledSet { pairs: pairs.clone(), about: about(&experiment, selection.name(), 0)?, learned: None };
    write_set(out, &experiment, &set, &captions)?;
    Ok(pairs)
}

/// Random entries: the same that a distillation of this seed starts from.
fn random(experiment: &Experiment) -> Result<Vec<u32>, DistillError> {
    let config = &experiment.config;
    let loader = experiment.train_loader(config.seed(), "synthetic.init", config.distill.pairs, Augment::None)?;
    Ok(loader.batch(0, crate::engine::threads())?.captions)
}

/// The pairs of `captions` under the test transform, captions embedded.
pub fn real_pairs(experiment: &Experiment, captions: &[u32]) -> Result<Inputs, DistillError> {
    let dataset = &experiment.dataset;
    let images = captions.iter().map(|&caption| dataset.captions[caption as usize].image).collect();
    let size = experiment.config.image.size;
    let shape = [captions.len(), 3, experiment.config.data.frames, size, size];
    let pixels = experiment.encode_images(images, |pixels| Ok(pixels.flatten(1, 4)))?; // [n, 3 t h w]
    let cleaned = captions.iter().map(|&at| caption::clean(&dataset.captions[at as usize].text, MAX_WORDS));
    let tokens = experiment.tokenizer().encode(&cleaned.collect::<Vec<_>>())?;
    let model = experiment.model(experiment.config.seed(), 0);
    let (text, mask) = model.embed(tokens, &mut Mode::Eval, &experiment.device)?;
    Ok(Inputs { pixels: pixels.reshape(shape), text, mask, level: TextLevel::Inputs })
}

/// Joint features of the train entries under the pretrained encoders, and the caption of each.
fn train_features(experiment: &Experiment) -> Result<(JointFeatures, Vec<u32>), DistillError> {
    let gallery = experiment.dataset.gallery(Split::Train);
    let (visual, text) = (&experiment.pretrained.visual, &experiment.pretrained.text);
    let rows = |features: Tensor<2>| {
        let width = features.dims()[1];
        Rows { values: features.into_data().iter::<f32>().collect(), width }
    };
    let image = experiment.encode_images(gallery.images, |pixels| visual.encode(pixels, &mut Mode::Eval))?;
    let captions = experiment
        .encode_captions(&gallery.captions, |embedded, mask| encode_by_length(text, embedded, mask, &mut Mode::Eval))?;
    Ok((JointFeatures::new(rows(image), rows(captions), gallery.owners), gallery.captions))
}
