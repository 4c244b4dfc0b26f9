//! NF-RegNet: RegNet with EfficientNet-like blocks and no normalisation layers.
//!
//! Paper: Brock et al. 2021, <https://arxiv.org/abs/2101.08692>, table 5 and appendix.
//! Upstream: timm's `nf_regnet_b1`, <https://huggingface.co/timm/nf_regnet_b1.ra2_in1k>, 960 pooled features.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use covmatch_kernels as kernels;
use covmatch_kernels::Prologue;

use super::nf::{self, Activation, BlockForm, Gate, Head, NfBlock, Place, Stem};
use super::{Output, SMALLEST, check_pixels};
use crate::encoders::kinks::Kinks;
use crate::encoders::layers::{ConvForm, ScaledStdConv2d, channels_last};
use crate::encoders::{EncoderError, ImageEncoder};

/// The form of an NF-RegNet.
#[derive(Clone, Copy, Debug)]
pub struct NfRegNetConfig {
    /// Channels after the stem.
    pub stem: usize,
    /// Blocks of each stage.
    pub depths: [usize; 4],
    /// Channels of each stage.
    pub channels: [usize; 4],
    /// Dimension of the features.
    pub features: usize,
    /// Pooled features, or logits.
    pub output: Output,
}

impl NfRegNetConfig {
    /// timm's `nf_regnet_b1`: 3/4 of the paper's channels, rounded to multiples of 8.
    pub const B1: Self =
        Self { stem: 40, depths: [2, 4, 7, 7], channels: [40, 80, 160, 328], features: 960, output: Output::Features };
}

/// NF-RegNet with SiLU, groups of 8 channels and squeeze-excite inside each block.
#[derive(Module, Debug)]
pub struct NfRegNet {
    stem: Stem,
    stages: Vec<Vec<NfBlock>>,
    final_conv: ScaledStdConv2d,
    head: Option<Head>,
    features: usize,
}

const ACTIVATION: Activation = Activation::Silu;
const GROUP_SIZE: usize = 8;

impl NfRegNet {
    /// The network with weights yet to be loaded.
    pub fn new(config: NfRegNetConfig, device: &Device) -> Self {
        let NfRegNetConfig { stem, depths, channels, features, output } = config;
        let gamma = ACTIVATION.gamma();
        let conv = ScaledStdConv2d::new(ConvForm::new(3, stem, 3).stride(2), gamma, device);
        Self {
            stem: Stem { conv },
            stages: nf::stages(nf::places(stem, 2, depths, channels), block_form, device),
            final_conv: ScaledStdConv2d::new(ConvForm::new(channels[3], features, 1), gamma, device),
            head: (output == Output::Logits).then(|| Head::new(features, device)),
            features,
        }
    }
}

/// Blocks widen 2.25 times from their input, except for the first, which does not.
fn block_form(place: Place) -> BlockForm {
    let middle = if place.first { place.inputs } else { multiple_of_8(place.inputs as f64 * 2.25) };
    BlockForm {
        activation: ACTIVATION,
        middle,
        groups: middle / GROUP_SIZE,
        convs3x3: 1,
        gate: Gate::Middle(multiple_of_8(middle as f64 * 0.5)),
    }
}

/// The nearest multiple of 8, halves up.
fn multiple_of_8(x: f64) -> usize {
    (x + 4.0) as usize / 8 * 8
}

impl ImageEncoder for NfRegNet {
    fn forward(&self, pixels: Tensor<4>, kinks: &mut Kinks) -> Result<Tensor<2>, EncoderError> {
        check_pixels("NF-RegNet", &pixels, SMALLEST)?;
        let x = self.stem.conv.forward(channels_last(pixels), Prologue::None); // [n, h/2, w/2, stem]
        let x = nf::forward_stages(&self.stages, x, kinks); // [n, h/32, w/32, channels]
        let x = ACTIVATION.after(&self.final_conv, x, Prologue::None, kinks);
        let features = kernels::global_avg_pool(ACTIVATION.late(x));
        Ok(match &self.head {
            Some(head) => head.fc.forward(features),
            None => features,
        })
    }

    fn feature_dim(&self) -> usize {
        if self.head.is_some() { Head::CLASSES } else { self.features }
    }
}
