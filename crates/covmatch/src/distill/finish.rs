//! The end of a run: the distilled set, written out.

use std::fs;
use std::path::Path;

use burn::tensor::Tensor;

use super::distillation::{Distillation, StepReport};
use super::error::DistillError;
use super::run::RunDir;
use super::synthetic::Synthetic;
use crate::data::caption::{self, MAX_WORDS};
use crate::data::loader::CaptionLoader;
use crate::distilled::{self, About, DistilledSet, PairInfo};
use crate::encoders::{Mode, TextEncoder};
use crate::experiment::Experiment;
use crate::files;
use crate::losses::info_nce::normalize;
use crate::metrics::MetricsError;
use crate::model::Inputs;

/// Train captions among which the nearest is looked for.
const CANDIDATES: usize = 20_000;
/// Captions encoded at a time.
const BATCH: usize = 256;

/// Writes the set of a finished distillation to `folder`.
pub(super) fn finish(folder: &RunDir, distillation: &Distillation) -> Result<(), DistillError> {
    let (experiment, synthetic) = (distillation.experiment(), distillation.synthetic());
    let about = about(experiment, "covmatch", distillation.done())?;
    let set = DistilledSet { pairs: synthetic.inputs.clone(), about };
    write_set(folder.path(), experiment, &set, &synthetic.captions)
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
    let card = distilled::card(&set.about, &set.pairs, &experiment.config, None);
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
    let features = normalize(encoder.encode(pairs.text.clone(), pairs.mask.clone(), &mut Mode::Eval)?); // [N, d_l]
    let candidates = candidates(experiment);
    let loader = CaptionLoader::new(experiment.dataset.clone(), experiment.tokenizer(), candidates.clone(), BATCH);
    let mut best = vec![(f32::NEG_INFINITY, 0); pairs.len()];
    let model = experiment.model(experiment.config.seed(), 0);
    for step in 0..candidates.len().div_ceil(BATCH) {
        let batch = loader.batch(step as u64)?;
        let (text, mask) = model.embed(batch.tokens, &mut Mode::Eval, &experiment.device)?;
        let others = normalize(encoder.encode(text, mask, &mut Mode::Eval)?); // [BATCH, d_l]
        let similarity: Tensor<2> = features.clone().matmul(others.transpose());
        let similarity: Vec<f32> = similarity.into_data().iter::<f32>().collect();
        for (best, row) in best.iter_mut().zip(similarity.chunks(batch.captions.len())) {
            for (&score, &caption) in row.iter().zip(&batch.captions) {
                if score > best.0 {
                    *best = (score, caption);
                }
            }
        }
    }
    Ok(best.into_iter().map(|(_, caption)| caption).collect())
}

/// Train captions to compare with, the shortest first so that little padding is computed.
fn candidates(experiment: &Experiment) -> Vec<u32> {
    let entries = experiment.dataset.train_entries();
    let order = experiment.config.seed().stream("nearest", 0).shuffle(entries.len() as u32);
    let mut chosen: Vec<u32> = order.into_iter().take(CANDIDATES).map(|at| entries[at as usize]).collect();
    chosen.sort_by_key(|&caption| (experiment.dataset.captions[caption as usize].text.len(), caption));
    chosen
}

/// The steps on record in `metrics.jsonl`.
pub fn read_metrics(path: &Path) -> Result<Vec<StepReport>, DistillError> {
    let text =
        fs::read_to_string(path).map_err(|cause| MetricsError::Read { path: path.display().to_string(), cause })?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The pairs that a run began with.
pub fn initial_pairs(experiment: &Experiment) -> Result<Synthetic, DistillError> {
    Synthetic::init(experiment, &experiment.model(experiment.config.seed(), 0))
}
