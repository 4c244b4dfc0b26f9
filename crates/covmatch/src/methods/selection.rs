//! Real pairs: what the methods that select share, and the pairs of chosen captions.
//!
//! All but Random take an image once. Herding and K-Center look at joint features: those of the pretrained encoders, so
//! that nothing is drawn and the same data and encoders give the same pairs; or, with `select.warmup_epochs`, those of a
//! model trained on the train split. All pictures are under the test transform.

use super::{EpochDone, JointFeatures, MethodError, Selects, Work, coreset};
use crate::data::caption::{self, MAX_WORDS};
use crate::data::{DataError, Split};
use crate::encoders::Mode;
use crate::experiment::Experiment;
use crate::model::{Inputs, TextLevel};

/// A selection by joint features of the train entries: `choose` gives so many of them, each image once.
pub(super) fn by_joint_features(
    experiment: &Experiment,
    progress: &mut dyn FnMut(EpochDone),
    choose: fn(&JointFeatures, usize) -> Vec<usize>,
) -> Result<Vec<u32>, MethodError> {
    let features = coreset::joint_features(experiment, progress)?;
    captions_of(experiment, &choose(&features, experiment.config.distill.pairs))
}

/// The captions of the train entries `chosen`; an error if they are fewer than were asked for.
pub(super) fn captions_of(experiment: &Experiment, chosen: &[usize]) -> Result<Vec<u32>, MethodError> {
    let (captions, pairs) = (experiment.dataset.train_entries(), experiment.config.distill.pairs);
    if chosen.len() < pairs {
        return Err(DataError::TooFewEntries { split: Split::Train, entries: chosen.len(), batch: pairs }.into());
    }
    Ok(chosen.iter().map(|&entry| captions[entry]).collect())
}

/// The work of a selection by joint features.
pub(super) fn coreset_work(choose: super::Choose) -> Work {
    Work::Selects(Selects { choose, epochs: |config| config.select.warmup_epochs, once_an_image: true })
}

/// The pairs of `captions` under the test transform, captions embedded.
pub fn real_pairs(experiment: &Experiment, captions: &[u32]) -> Result<Inputs, MethodError> {
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
