//! A split as retrieval sees it, encoded by a model: every image once, every caption, all of them compared.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::protocol::EvaluateError;
use super::retrieval::{Recalls, recalls};
use crate::data::loader::{Ahead, CaptionLoader, ImageLoader, Prefetch};
use crate::data::{Gallery, Split};
use crate::encoders::{Mode, TextEncoder};
use crate::experiment::Experiment;
use crate::losses::info_nce::normalize;
use crate::model::Model;

/// Images encoded at a time.
const IMAGES: usize = 64;
/// Captions encoded at a time.
const CAPTIONS: usize = 256;

/// Projected and normalised features of a split.
#[derive(Clone, Debug)]
pub struct EncodedGallery {
    /// `[images, z]`
    images: Tensor<2>,
    /// `[captions, z]`
    captions: Tensor<2>,
    /// The image of each caption.
    owners: Vec<u32>,
}

impl EncodedGallery {
    /// The split `split` of `experiment` under `model`; an error if it has no image.
    pub fn new(experiment: &Experiment, model: &Model, split: Split) -> Result<Self, EvaluateError> {
        let gallery = experiment.dataset.gallery(split);
        if gallery.images.is_empty() || gallery.captions.is_empty() {
            return Err(EvaluateError::EmptySplit { split });
        }
        let images = encode_images(experiment, model, &gallery)?;
        let captions = encode_captions(experiment, model, &gallery)?;
        Ok(Self { images, captions, owners: gallery.owners })
    }

    /// Recalls in both directions.
    pub fn recalls(&self) -> Recalls {
        let [images, _] = self.images.dims();
        let transposed = self.captions.clone().transpose(); // [z, captions]
        recalls(images, &self.owners, |rows: Range<usize>| {
            let block = self.images.clone().narrow(0, rows.start, rows.len()).matmul(transposed.clone());
            block.into_data().iter::<f32>().collect()
        })
    }
}

/// `z_v` of all images, in order, normalised.
fn encode_images(experiment: &Experiment, model: &Model, gallery: &Gallery) -> Result<Tensor<2>, EvaluateError> {
    let loader = ImageLoader::new(
        Arc::clone(&experiment.dataset),
        Arc::clone(&experiment.pictures),
        experiment.transform.clone(),
        gallery.images.clone(),
        IMAGES,
        experiment.config.data.frames,
        crate::data::source::OnBad::Fail,
    );
    let mut parts = Vec::new();
    for batch in Prefetch::new(Arc::new(loader), 0, Ahead::default()) {
        let batch = batch?;
        let pixels = Tensor::<5>::from_data(TensorData::new(batch.pixels, batch.shape), &experiment.device);
        let features = model.visual.encode(pixels, &mut Mode::Eval)?;
        parts.push(normalize(model.image_head.forward(features, &mut Mode::Eval)?));
    }
    Ok(Tensor::cat(parts, 0))
}

/// `z_l` of all captions, in order, normalised.
///
/// Captions of a similar length are encoded together, so that little padding is computed.
fn encode_captions(experiment: &Experiment, model: &Model, gallery: &Gallery) -> Result<Tensor<2>, EvaluateError> {
    let length = |&position: &usize| experiment.dataset.captions[gallery.captions[position] as usize].text.len();
    let mut order: Vec<usize> = (0..gallery.captions.len()).collect();
    order.sort_by_key(length);
    let captions = order.iter().map(|&position| gallery.captions[position]).collect();
    let loader = CaptionLoader::new(Arc::clone(&experiment.dataset), experiment.tokenizer(), captions, CAPTIONS);
    let mut parts = Vec::new();
    for batch in Prefetch::new(Arc::new(loader), 0, Ahead { threads: 1, batches: 2 }) {
        let (text, mask) = model.embed(batch?.tokens, &mut Mode::Eval, &experiment.device)?;
        let features = model.text.encode(text, mask, &mut Mode::Eval)?;
        parts.push(normalize(model.text_head.forward(features, &mut Mode::Eval)?));
    }
    let mut positions = vec![0i64; order.len()];
    for (encoded, position) in order.into_iter().enumerate() {
        positions[position] = encoded as i64;
    }
    let count = positions.len();
    let positions = Tensor::from_data(TensorData::new(positions, [count]), &experiment.device);
    Ok(Tensor::cat(parts, 0).select(0, positions))
}
