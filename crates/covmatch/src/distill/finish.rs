//! The end of a run: the distilled set, written out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use burn::tensor::Tensor;
use serde_json::Value;

use super::error::DistillError;
use super::method::Method;
use super::run::RunDir;
use super::synthetic::Synthetic;
use crate::data::caption::{self, MAX_WORDS};
use crate::distilled::{self, About, DistilledSet, PairInfo};
use crate::encoders::{Mode, TextEncoder};
use crate::experiment::Experiment;
use crate::files;
use crate::losses::info_nce::normalize;
use crate::metrics::MetricsError;
use crate::model::{Inputs, TextLevel};

/// Train captions among which the nearest is looked for.
const CANDIDATES: usize = 20_000;

/// Writes the set of a finished run to `folder`.
pub(super) fn finish<M: Method>(folder: &RunDir, method: &M) -> Result<(), DistillError> {
    write_set(folder.path(), method.experiment(), &method.set()?, method.captions())
}

/// What a set of `experiment` was made with.
pub(crate) fn about(experiment: &Experiment, method: &str, step: u64) -> Result<About, DistillError> {
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

/// Writes the tensors, pictures, captions and card of `set`, whose pairs began with `captions`.
pub(crate) fn write_set(
    folder: &Path,
    experiment: &Experiment,
    set: &DistilledSet,
    captions: &[u32],
) -> Result<(), DistillError> {
    set.save(folder)?;
    distilled::save_pictures(folder, &set.pairs.pixels, &set.about.normalization())?;
    let infos = pair_infos(experiment, &set.pairs, captions)?;
    let mut lines = String::new();
    for info in &infos {
        lines.push_str(&serde_json::to_string(info).map_err(|cause| files::WriteError::new(folder, cause.into()))?);
        lines.push('\n');
    }
    files::write(&folder.join("metadata.jsonl"), lines.as_bytes())?;
    let card = distilled::card(set, &experiment.config, None);
    files::write(&folder.join("README.md"), card.as_bytes())?;
    Ok(())
}

fn pair_infos(experiment: &Experiment, pairs: &Inputs, captions: &[u32]) -> Result<Vec<PairInfo>, DistillError> {
    let nearest = nearest_captions(experiment, pairs)?;
    let dataset = &experiment.dataset;
    let info = |(index, (&caption, nearest)): (usize, (&u32, u32))| {
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
    Ok(captions.iter().zip(nearest).enumerate().map(info).collect())
}

/// For each pair the train caption, of at most [`CANDIDATES`], with the most similar feature under the pretrained text
/// encoder (cosine).
fn nearest_captions(experiment: &Experiment, pairs: &Inputs) -> Result<Vec<u32>, DistillError> {
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

/// The steps on record in `metrics.jsonl`, a JSON object each.
pub fn read_metrics(path: &Path) -> Result<Vec<Value>, DistillError> {
    let text =
        fs::read_to_string(path).map_err(|cause| MetricsError::Read { path: path.display().to_string(), cause })?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The seconds of all steps on record, by phase.
pub(super) fn phase_seconds(path: &Path) -> Result<BTreeMap<String, f64>, DistillError> {
    let mut sums = BTreeMap::new();
    for step in read_metrics(path)? {
        for (phase, seconds) in step["seconds"].as_object().into_iter().flatten() {
            *sums.entry(phase.clone()).or_insert(0.0) += seconds.as_f64().unwrap_or_default();
        }
    }
    Ok(sums)
}

/// The pairs that a run began with.
pub fn initial_pairs(experiment: &Experiment) -> Result<Synthetic, DistillError> {
    Synthetic::init(experiment, &experiment.model(experiment.config.seed(), 0))
}
