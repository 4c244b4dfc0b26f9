//! Real pairs chosen from the train split, in the same folder as a distilled set: the baselines that learn nothing.
//!
//! | name         | chooses                                                                    |
//! |--------------|----------------------------------------------------------------------------|
//! | `random`     | entries of the train split, uniformly                                      |
//! | `herding`    | entries whose running mean stays close to the mean of all ([`herding()`])  |
//! | `k-center`   | entries far from one another ([`k_center()`])                              |
//! | `forgetting` | entries that a model in training forgets least often ([`Forgetting`])      |
//!
//! All but Random take an image once. Herding and K-Center look at joint features: those of the pretrained encoders, so
//! that nothing is drawn and the same data and encoders give the same pairs; or, with `select.warmup_epochs`, those of a
//! model trained on the train split. All pictures are under the test transform.

mod features;
mod forgetting;
mod herding;
mod joint;
mod k_center;
mod warm_up;

pub use forgetting::{Forgetting, hits};
pub use herding::herding;
pub use joint::{JointFeatures, Rows};
pub use k_center::k_center;

use std::fs;
use std::path::Path;
use std::str::FromStr;

use burn::tensor::{Device, Tensor};

use crate::config::{Config, RUN_FILE, SelectConfig};
use crate::data::caption::{self, MAX_WORDS};
use crate::data::loader::Augment;
use crate::data::{DataError, Split};
use crate::distill::DistillError;
use crate::distill::finish::{about, write_set};
use crate::distilled::DistilledSet;
use crate::encoders::Mode;
use crate::evaluate::Progress;
use crate::experiment::{Experiment, ExperimentError};
use crate::files::WriteError;
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
    /// By how seldom a model in training forgets them.
    Forgetting,
}

/// There is no such way to choose pairs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no selection '{0}'; known names: random, herding, k-center, forgetting")]
pub struct UnknownSelection(pub String);

impl FromStr for Selection {
    type Err = UnknownSelection;

    fn from_str(name: &str) -> Result<Self, UnknownSelection> {
        let known = [Selection::Random, Selection::Herding, Selection::KCenter, Selection::Forgetting];
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
            Selection::Forgetting => "forgetting",
        }
    }

    /// Epochs of the training that it looks at.
    pub fn epochs(self, config: &SelectConfig) -> usize {
        match self {
            Selection::Random => 0,
            Selection::Herding | Selection::KCenter => config.warmup_epochs,
            Selection::Forgetting => config.forgetting_epochs,
        }
    }

    /// The captions of the chosen pairs, indices into `Dataset::captions`; `progress` hears of the training's epochs.
    pub fn choose(self, experiment: &Experiment, progress: &mut dyn FnMut(Progress)) -> Result<Vec<u32>, DistillError> {
        let pairs = experiment.config.distill.pairs;
        let captions = experiment.dataset.train_entries();
        let chosen = match self {
            Selection::Random => return random(experiment),
            Selection::Herding => herding(&joint_features(experiment, progress)?, pairs),
            Selection::KCenter => k_center(&joint_features(experiment, progress)?, pairs),
            Selection::Forgetting => least_forgotten(experiment, &captions, progress)?,
        };
        if chosen.len() < pairs {
            let (split, entries) = (Split::Train, chosen.len());
            return Err(DataError::TooFewEntries { split, entries, batch: pairs }.into());
        }
        Ok(chosen.into_iter().map(|entry| captions[entry]).collect())
    }
}

/// Writes the pairs that `selection` chooses for `config` into the new folder `out`; until it is whole it holds no
/// run.
pub fn select(
    selection: Selection,
    config: Config,
    out: &Path,
    device: &Device,
    progress: &mut dyn FnMut(Progress),
) -> Result<Inputs, DistillError> {
    if out.join(RUN_FILE).exists() {
        return Err(ExperimentError::Occupied { path: out.display().to_string() }.into());
    }
    let experiment = Experiment::open(config, device)?;
    fs::create_dir_all(out).map_err(|cause| WriteError::new(out, cause))?;
    let pairs = write_selection(selection, &experiment, out, progress)?;
    experiment.begin_run(out)?; // last: until then the folder holds no run
    Ok(pairs)
}

/// Writes the pairs that `selection` chooses into the folder `out`, which belongs to the run of `experiment`.
pub fn write_selection(
    selection: Selection,
    experiment: &Experiment,
    out: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Inputs, DistillError> {
    let captions = selection.choose(experiment, progress)?;
    let pairs = real_pairs(experiment, &captions)?;
    let set = DistilledSet { pairs: pairs.clone(), about: about(experiment, selection.name(), 0)?, learned: None };
    write_set(out, experiment, &set, &captions)?;
    Ok(pairs)
}

/// Random entries: the same that a distillation of this seed starts from.
fn random(experiment: &Experiment) -> Result<Vec<u32>, DistillError> {
    let config = &experiment.config;
    let loader = experiment.train_loader(config.seed(), "synthetic.init", config.distill.pairs, Augment::None)?;
    Ok(loader.batch(0, crate::engine::threads())?.captions)
}

/// Joint features of the train entries, with or without a warm-up.
fn joint_features(experiment: &Experiment, progress: &mut dyn FnMut(Progress)) -> Result<JointFeatures, DistillError> {
    let features = match experiment.config.select.warmup_epochs {
        0 => features::pretrained_features(experiment)?,
        epochs => {
            let model = warm_up::warm_up(experiment, epochs, &mut |_, _| {}, progress)?;
            features::projected_features(experiment, &model)?
        }
    };
    Ok(features)
}

/// The train entries, of `captions`, that a model in training forgets least.
fn least_forgotten(
    experiment: &Experiment,
    captions: &[u32],
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<usize>, DistillError> {
    let config = &experiment.config;
    let mut memory = Forgetting::new(captions.len());
    let mut watch = |seen: &[u32], logits: Tensor<2>| {
        let logits: Vec<f32> = logits.into_data().iter::<f32>().collect();
        for (caption, hit) in seen.iter().zip(hits(&logits, seen.len())) {
            let entry = captions.binary_search(caption); // captions are in ascending order
            entry.into_iter().for_each(|entry| memory.see(entry, hit));
        }
    };
    warm_up::warm_up(experiment, config.select.forgetting_epochs, &mut watch, progress)?;
    let image = |&caption: &u32| experiment.dataset.captions[caption as usize].image;
    let image_of: Vec<u32> = captions.iter().map(image).collect();
    Ok(memory.choose(&image_of, config.distill.pairs))
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
