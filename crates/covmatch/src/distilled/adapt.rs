//! A set as another experiment takes it: other colours, another resolution, another encoder.

use burn::tensor::{Device, Tensor, TensorData};
use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::F32;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};

use super::DistilledSet;
use crate::data::transform::Normalization;
use crate::encoders::EncoderError;
use crate::experiment::Experiment;
use crate::model::Inputs;

/// Why a set does not fit an experiment.
#[derive(Debug, thiserror::Error)]
pub enum AdaptError {
    /// The captions are embedded in another width.
    #[error(
        "the set's captions are embedded in {set} dimensions by {made_with}, and {encoder} takes {wanted}: evaluate \
         with a text encoder of the same width"
    )]
    TextWidth {
        /// Width of the set.
        set: usize,
        /// Text encoder of the set.
        made_with: String,
        /// Text encoder that was asked for.
        encoder: String,
        /// Its width.
        wanted: usize,
    },
    /// The pictures have another number of frames.
    #[error("the set's pictures have {set} frames and the experiment takes {wanted}: set data.frames={set}")]
    Frames {
        /// Frames of the set.
        set: usize,
        /// Frames of the experiment.
        wanted: usize,
    },
    /// The encoder does not exist.
    #[error(transparent)]
    Encoder(#[from] EncoderError),
    /// The pictures cannot be resized.
    #[error("cannot resize the set's pictures to {size} pixels: {cause}")]
    Resize {
        /// Side in pixels.
        size: usize,
        /// What the resizer says.
        cause: String,
    },
}

impl DistilledSet {
    /// The pairs as `experiment` takes them: pixels in its colours and of its size.
    pub fn pairs_for(&self, experiment: &Experiment) -> Result<Inputs, AdaptError> {
        let config = &experiment.config;
        let ([_, _, frames, _, width], [_, _, d_l]) = (self.pairs.pixels.dims(), self.pairs.text.dims());
        if d_l != experiment.pretrained.text_width() {
            return Err(AdaptError::TextWidth {
                set: d_l,
                made_with: self.about.text_encoder.clone(),
                encoder: config.text.encoder.clone(),
                wanted: experiment.pretrained.text_width(),
            });
        }
        if frames != config.data.frames {
            return Err(AdaptError::Frames { set: frames, wanted: config.data.frames });
        }
        let (from, to) = (self.about.normalization(), config.image.normalization()?);
        let mut pixels = self.pairs.pixels.clone();
        if from != to {
            pixels = recoloured(pixels, &from, &to);
        }
        if width != config.image.size {
            pixels = resized(pixels, config.image.size)?;
        }
        Ok(Inputs { pixels, ..self.pairs.clone() })
    }
}

/// `pixels` `[n, 3, t, h, w]` in the colours of `to` instead of `from`.
fn recoloured(pixels: Tensor<5>, from: &Normalization, to: &Normalization) -> Tensor<5> {
    let device = pixels.device();
    let pixels = if from.order == to.order { pixels } else { pixels.flip([1]) };
    // After the flip a channel of `to` is the mirrored channel of `from`.
    let channel = |c: usize| if from.order == to.order { c } else { 2 - c };
    let scale: [f32; 3] = std::array::from_fn(|c| from.std[channel(c)] / to.std[c]);
    let shift: [f32; 3] = std::array::from_fn(|c| (from.mean[channel(c)] - to.mean[c]) / to.std[c]);
    let row = |values: [f32; 3]| Tensor::<1>::from_floats(values, &device).reshape([1, 3, 1, 1, 1]);
    pixels * row(scale) + row(shift)
}

/// `pixels` `[n, 3, t, h, w]` at `size` x `size`, bicubic.
fn resized(pixels: Tensor<5>, size: usize) -> Result<Tensor<5>, AdaptError> {
    let [n, channels, frames, height, width] = pixels.dims();
    let device: Device = pixels.device();
    let values: Vec<f32> = pixels.into_data().iter::<f32>().collect();
    let failed = |cause: String| AdaptError::Resize { size, cause };
    let mut resizer = Resizer::new();
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom));
    let mut out = Vec::with_capacity(n * channels * frames * size * size);
    for plane in values.chunks(height * width) {
        let plane: Vec<F32> = plane.iter().map(|&x| F32::new(x)).collect();
        let source = TypedImageRef::new(width as u32, height as u32, &plane).map_err(|e| failed(e.to_string()))?;
        let mut target = TypedImage::<F32>::new(size as u32, size as u32);
        resizer.resize_typed(&source, &mut target, &options).map_err(|e| failed(e.to_string()))?;
        out.extend(target.pixels().iter().map(|pixel| pixel.0));
    }
    Ok(Tensor::from_data(TensorData::new(out, [n, channels, frames, size, size]), &device))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::data::transform::ChannelOrder;

    fn vector(pixels: Tensor<5>) -> Vec<f32> {
        pixels.into_data().iter::<f32>().collect()
    }

    #[test]
    fn colours_stay_the_same_under_another_normalization() {
        let colours = [0.2f32, 0.5, 0.9]; // red, green, blue
        let normalized = |to: &Normalization| {
            let channel = |c: usize| if to.order == ChannelOrder::Rgb { c } else { 2 - c };
            let values: [f32; 3] = std::array::from_fn(|c| (colours[channel(c)] - to.mean[c]) / to.std[c]);
            Tensor::<1>::from_floats(values, &Device::flex()).reshape([1, 3, 1, 1, 1])
        };
        for (from, to) in [
            (Normalization::CLIP, Normalization::IMAGENET),
            (Normalization::CLIP, Normalization::CAFFE),
            (Normalization::CAFFE, Normalization::HALF),
        ] {
            let (got, expected) = (vector(recoloured(normalized(&from), &from, &to)), vector(normalized(&to)));
            for (got, expected) in got.iter().zip(&expected) {
                assert!((got - expected).abs() < 1e-3 * (1.0 + expected.abs()), "{got} {expected}");
            }
        }
    }

    #[test]
    fn a_plain_picture_stays_plain_at_another_size() {
        let pixels = Tensor::<5>::full([2, 3, 1, 6, 6], -1.5, &Device::flex());
        for size in [4, 6, 9] {
            let resized = resized(pixels.clone(), size).unwrap();
            assert_eq!(resized.dims(), [2, 3, 1, size, size]);
            assert!(vector(resized).iter().all(|x| (x + 1.5).abs() < 1e-5));
        }
    }
}
