//! Many images or captions through an encoder, in batches, in order.

use std::sync::Arc;

use burn::tensor::{Int, Tensor, TensorData};

use super::{Experiment, ExperimentError};
use crate::data::loader::{Ahead, CaptionLoader, ImageLoader, ImageOptions, Prefetch};
use crate::data::source::OnBad;
use crate::encoders::{EncoderError, Mode, TextEncoder};

/// Images encoded at a time.
const IMAGES: usize = 64;
/// Captions encoded at a time.
const CAPTIONS: usize = 256;

impl Experiment {
    /// What `encode` makes of the pixels `[n, 3, t, h, w]` of `images` under the test transform, `[images, d]`.
    pub fn encode_images(
        &self,
        images: Vec<u32>,
        encode: impl Fn(Tensor<5>) -> Result<Tensor<2>, EncoderError>,
    ) -> Result<Tensor<2>, ExperimentError> {
        let options = ImageOptions { images, batch: IMAGES, frames: self.config.data.frames, on_bad: OnBad::Fail };
        let (dataset, pictures) = (Arc::clone(&self.dataset), Arc::clone(&self.pictures));
        let loader = ImageLoader::new(dataset, pictures, self.transform.clone(), options);
        let mut parts = Vec::new();
        for batch in Prefetch::new(Arc::new(loader), 0, Ahead::default()) {
            let batch = batch?;
            parts.push(encode(Tensor::from_data(TensorData::new(batch.pixels, batch.shape), &self.device))?);
        }
        Ok(Tensor::cat(parts, 0))
    }

    /// What `encode` makes of `captions`, embedded `[n, l, d_l]` and with their mask `[n, l]`; `[captions, d]`.
    ///
    /// Captions of a similar length are encoded together, so that little padding is computed.
    pub fn encode_captions(
        &self,
        captions: &[u32],
        encode: impl Fn(Tensor<3>, Tensor<2>) -> Result<Tensor<2>, EncoderError>,
    ) -> Result<Tensor<2>, ExperimentError> {
        let length = |&position: &usize| self.dataset.captions[captions[position] as usize].text.len();
        let mut order: Vec<usize> = (0..captions.len()).collect();
        order.sort_by_key(length);
        let sorted = order.iter().map(|&position| captions[position]).collect();
        let loader = CaptionLoader::new(Arc::clone(&self.dataset), self.tokenizer(), sorted, CAPTIONS);
        let mut parts = Vec::new();
        for batch in Prefetch::new(Arc::new(loader), 0, Ahead { threads: 1, batches: 2 }) {
            let tokens = batch?.tokens;
            let shape = [tokens.rows, tokens.length];
            let ids = Tensor::<2, Int>::from_data(TensorData::new(tokens.ids, shape), &self.device);
            let mask = Tensor::from_data(TensorData::new(tokens.mask, shape), &self.device);
            parts.push(encode(self.pretrained.text.embed(ids, &mut Mode::Eval)?, mask)?);
        }
        let mut places = vec![0i64; order.len()];
        for (place, position) in order.into_iter().enumerate() {
            places[position] = place as i64;
        }
        let count = places.len();
        let places = Tensor::from_data(TensorData::new(places, [count]), &self.device);
        Ok(Tensor::cat(parts, 0).select(0, places))
    }
}
