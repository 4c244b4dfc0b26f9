//! A split as retrieval sees it, encoded by a model: every image once, every caption, all of them compared.

use std::ops::Range;

use burn::tensor::Tensor;

use super::error::EvaluateError;
use crate::data::Split;
use crate::encoders::{Mode, TextEncoder};
use crate::experiment::Experiment;
use crate::losses::info_nce::normalize;
use crate::model::Model;
use crate::retrieval::{Recalls, recalls};

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
        let eval = || Mode::Eval;
        let images = experiment.encode_images(gallery.images, |pixels| {
            let features = model.visual.encode(pixels)?;
            Ok(normalize(model.project_image(features, &mut eval())?))
        })?;
        let captions = experiment.encode_captions(&gallery.captions, |text, mask| {
            let features = model.text.encode(text, mask, &mut eval())?;
            Ok(normalize(model.text_head.forward(features, &mut eval())?))
        })?;
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
