//! The pairs of a run, written out: tensors, pictures, captions and card.

use burn::tensor::Tensor;

use super::RunFolder;
use super::card::{Training, card};
use crate::config::Maker;
use crate::data::caption::{self, MAX_WORDS};
use crate::distilled::{self, About, DistilledSet, Learned, PairInfo};
use crate::encoders::{Mode, TextEncoder};
use crate::experiment::Experiment;
use crate::files;
use crate::losses::info_nce::normalize;
use crate::methods::MethodError;
use crate::model::{Inputs, TextLevel};

/// Train captions among which the nearest is looked for.
const CANDIDATES: usize = 20_000;

/// Writes `pairs` of `experiment`, which began with `captions` and are `step` steps old, with what was `learned` beside
/// them, into the folder of `maker`'s run.
pub fn write_set(
    folder: &RunFolder,
    experiment: &Experiment,
    maker: &Maker,
    step: u64,
    made: Made<'_>,
) -> Result<(), MethodError> {
    let Made { pairs, captions, learned } = made;
    let set = DistilledSet { pairs, about: about(experiment, &maker.method, step)?, learned };
    set.save(folder.path())?;
    distilled::save_pictures(folder.path(), &set.pairs.pixels, &set.about.normalization())?;
    let mut lines = String::new();
    let nearest = match maker.learns {
        true => nearest_captions(experiment, &set.pairs)?,
        false => captions.to_vec(), // a real pair has its own caption
    };
    for info in &pair_infos(experiment, captions, &nearest) {
        let path = folder.captions();
        lines.push_str(&serde_json::to_string(info).map_err(|cause| files::WriteError::new(&path, cause.into()))?);
        lines.push('\n');
    }
    files::write(&folder.captions(), lines.as_bytes())?;
    let training = Training::of(&experiment.config, set.learned.as_ref());
    Ok(files::write(&folder.card(), card(&set, maker, &training, None).as_bytes())?)
}

/// Pairs that a method made.
pub struct Made<'a> {
    /// The pairs.
    pub pairs: Inputs,
    /// The captions of the train split that they began with, indices into `Dataset::captions`.
    pub captions: &'a [u32],
    /// What was learned beside them.
    pub learned: Option<Learned>,
}

/// What a set of `experiment` was made with.
fn about(experiment: &Experiment, method: &str, step: u64) -> Result<About, MethodError> {
    let config = &experiment.config;
    let normalization = config.image.normalization()?;
    Ok(About {
        method: method.to_owned(),
        image_encoder: config.image.encoder.clone(),
        text_encoder: config.text.encoder.clone(),
        pooling: config.text.pooling.name().to_owned(),
        channels: About::channels_name(normalization.order).to_owned(),
        mean: normalization.mean,
        std: normalization.std,
        step,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// What is known of each pair: the caption it began with, and the one that is `nearest` to it now.
fn pair_infos(experiment: &Experiment, captions: &[u32], nearest: &[u32]) -> Vec<PairInfo> {
    let dataset = &experiment.dataset;
    let info = |(index, (&caption, &nearest)): (usize, (&u32, &u32))| {
        let (began, text) = (&dataset.captions[caption as usize], |index: u32| {
            caption::clean(&dataset.captions[index as usize].text, MAX_WORDS)
        });
        PairInfo {
            file_name: distilled::file_name(index),
            init_image: dataset.images[began.image as usize].name.clone(),
            init_caption: text(caption),
            nearest_caption: Some(text(nearest)),
        }
    };
    captions.iter().zip(nearest).enumerate().map(info).collect()
}

/// For each pair the train caption, of at most [`CANDIDATES`], with the most similar feature under the pretrained text
/// encoder (cosine).
fn nearest_captions(experiment: &Experiment, pairs: &Inputs) -> Result<Vec<u32>, MethodError> {
    let encoder = &experiment.pretrained.text;
    let encode = |text: Tensor<3>, mask: Tensor<2>| Ok(normalize(encoder.encode(text, mask, &mut Mode::Eval)?));
    let features = match pairs.level {
        TextLevel::Inputs => encode(pairs.text.clone(), pairs.mask.clone())?,
        TextLevel::Features => normalize(pairs.text.clone().squeeze_dim(1)),
    }; // [N, d_l]
    let candidates = candidates(experiment);
    let others = experiment.encode_captions(&candidates, encode)?; // [candidates, d_l]
    let similarity: Vec<f32> = features.matmul(others.transpose()).into_data().iter::<f32>().collect();
    let nearest = |row: &[f32]| {
        let best = row.iter().enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map_or(0, |(at, _)| candidates[at])
    };
    Ok(similarity.chunks(candidates.len().max(1)).map(nearest).collect())
}

/// Train captions to compare with.
fn candidates(experiment: &Experiment) -> Vec<u32> {
    let entries = experiment.dataset.train_entries();
    let order = experiment.config.seed().stream("nearest", 0).shuffle(entries.len() as u32);
    let mut chosen: Vec<u32> = order.into_iter().take(CANDIDATES).map(|at| entries[at as usize]).collect();
    chosen.sort_unstable();
    chosen
}
