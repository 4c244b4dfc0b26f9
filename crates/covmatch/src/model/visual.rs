//! An encoder of pictures or of clips, behind one input shape `[n, 3, t, h, w]`.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::data::transform::Normalization;
use crate::encoders::image::{self, AnyImageEncoder};
use crate::encoders::kinks::{Kinks, Pattern};
use crate::encoders::video::{self, AnyVideoEncoder};
use crate::encoders::{EncoderError, ImageEncoder, VideoEncoder};

/// An image encoder, which takes one frame, or a video encoder.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // a program holds a few encoders
pub enum AnyVisualEncoder {
    /// Pictures.
    Image(AnyImageEncoder),
    /// Clips.
    Video(AnyVideoEncoder),
}

/// What is known of a visual encoder by its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VisualInfo {
    /// Height and width of what it was trained on.
    pub input_size: usize,
    /// Dimension of its features, `d_v`.
    pub feature_dim: usize,
    /// How it wants its pixels.
    pub normalization: Normalization,
    /// Whether it takes clips.
    pub is_video: bool,
}

impl VisualInfo {
    /// What is known of the encoder `name`.
    pub fn of(name: &str) -> Result<Self, EncoderError> {
        if let Ok(info) = video::info(name) {
            let (input_size, feature_dim) = (info.input_size, info.feature_dim);
            return Ok(Self { input_size, feature_dim, normalization: info.normalization, is_video: true });
        }
        let known = || image::names().chain(video::names()).collect::<Vec<_>>().join(", ");
        let info = image::info(name).map_err(|_| EncoderError::Unknown {
            kind: "image or video",
            name: name.to_owned(),
            known: known(),
        })?;
        let (input_size, feature_dim) = (info.input_size, info.feature_dim);
        Ok(Self { input_size, feature_dim, normalization: info.normalization, is_video: false })
    }
}

impl AnyVisualEncoder {
    /// The encoder `name` with weights yet to be loaded.
    pub fn new(name: &str, device: &Device) -> Result<Self, EncoderError> {
        Ok(match VisualInfo::of(name)?.is_video {
            true => Self::Video(AnyVideoEncoder::new(name, device)?),
            false => Self::Image(AnyImageEncoder::new(name, device)?),
        })
    }

    /// `pixels` `[n, 3, t, h, w]` to features `[n, d_v]`.
    pub fn encode(&self, pixels: Tensor<5>) -> Result<Tensor<2>, EncoderError> {
        self.forward(pixels, &mut Kinks::Free)
    }

    /// The pieces that the units are on for `pixels`, which are not in the graph of autodiff.
    pub fn pattern(&self, pixels: Tensor<5>) -> Result<Pattern, EncoderError> {
        let mut pattern = Pattern::default();
        self.forward(pixels, &mut Kinks::Note(&mut pattern))?;
        Ok(pattern)
    }

    /// [`Self::encode`] of `pixels`, which are in the graph of autodiff, with the units on the pieces of `pattern`.
    pub fn encode_on(&self, pattern: &Pattern, pixels: Tensor<5>) -> Result<Tensor<2>, EncoderError> {
        self.forward(pixels, &mut pattern.held())
    }

    fn forward(&self, pixels: Tensor<5>, kinks: &mut Kinks) -> Result<Tensor<2>, EncoderError> {
        match self {
            Self::Video(encoder) => encoder.forward(pixels, kinks),
            Self::Image(encoder) => {
                let [n, channels, frames, height, width] = pixels.dims();
                if frames != 1 {
                    return Err(EncoderError::Shape {
                        encoder: "an image encoder".to_owned(),
                        expected: "pictures of one frame, [n, 3, 1, h, w]; clips need a video encoder".to_owned(),
                        got: pixels.dims().to_vec(),
                    });
                }
                encoder.forward(pixels.reshape([n, channels, height, width]), kinks)
            }
        }
    }

    /// `d_v`.
    pub fn feature_dim(&self) -> usize {
        match self {
            Self::Image(encoder) => encoder.feature_dim(),
            Self::Video(encoder) => encoder.feature_dim(),
        }
    }
}
