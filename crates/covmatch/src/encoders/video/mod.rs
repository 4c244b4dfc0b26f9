//! Video encoders: frames `[n, 3, t, h, w]` to features `[n, d_v]`.
//!
//! [`AnyVideoEncoder`] picks one by the name that configurations and flags use.

pub mod r3d;

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::image::{ChannelOrder, Normalization, unknown};
use super::kinks::Kinks;
use super::{EncoderError, VideoEncoder, macs};
use r3d::{R3d, R3dConfig};

/// What is known of a video encoder by its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VideoEncoderInfo {
    /// The name.
    pub name: &'static str,
    /// Height and width of the frames it was trained on.
    pub input_size: usize,
    /// Number of frames of the clips it was trained on.
    pub frames: usize,
    /// Dimension of its pooled features, `d_v`.
    pub feature_dim: usize,
    /// How it wants its pixels.
    pub normalization: Normalization,
}

/// The statistics of Kinetics-400 that torchvision uses.
const KINETICS: Normalization =
    Normalization { order: ChannelOrder::Rgb, mean: [0.43216, 0.394666, 0.37645], std: [0.22803, 0.22145, 0.216989] };

const ENCODERS: [VideoEncoderInfo; 1] =
    [VideoEncoderInfo { name: "r3d_18", input_size: 112, frames: 16, feature_dim: 512, normalization: KINETICS }];

/// The names of all video encoders.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENCODERS.iter().map(|info| info.name)
}

/// What is known of the encoder `name`.
pub fn info(name: &str) -> Result<&'static VideoEncoderInfo, EncoderError> {
    ENCODERS.iter().find(|info| info.name == name).ok_or_else(|| unknown("video", name, names()))
}

/// Multiply-adds of one forward pass of the encoder `name` over one clip of `frames` frames of `size` x `size` pixels.
///
/// It is counted in a pass over zeros on `device`.
pub fn macs(name: &str, frames: usize, size: usize, device: &Device) -> Result<u64, EncoderError> {
    let encoder = AnyVideoEncoder::new(name, device)?;
    let (features, multiply_adds) = macs::count(|| encoder.encode(Tensor::zeros([1, 3, frames, size, size], device)));
    features.map(|_| multiply_adds)
}

/// Any of the video encoders. The variant is no part of a parameter's key.
#[derive(Module, Debug)]
pub enum AnyVideoEncoder {
    /// 3D ResNet.
    R3d(R3d),
}

impl AnyVideoEncoder {
    /// The encoder `name` with weights yet to be loaded, returning pooled features.
    pub fn new(name: &str, device: &Device) -> Result<Self, EncoderError> {
        match name {
            "r3d_18" => Ok(Self::R3d(R3d::new(R3dConfig::R3D_18, device))),
            _ => Err(unknown("video", name, names())),
        }
    }
}

impl VideoEncoder for AnyVideoEncoder {
    fn forward(&self, frames: Tensor<5>, kinks: &mut Kinks) -> Result<Tensor<2>, EncoderError> {
        match self {
            Self::R3d(encoder) => encoder.forward(frames, kinks),
        }
    }

    fn feature_dim(&self) -> usize {
        match self {
            Self::R3d(encoder) => encoder.feature_dim(),
        }
    }
}
