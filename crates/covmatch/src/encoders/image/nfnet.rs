//! NFNet: a residual network without normalisation layers.
//!
//! Paper: Brock et al. 2021, <https://arxiv.org/abs/2102.06171>.
//! Upstream: timm's `nfnet_l0`, <https://huggingface.co/timm/nfnet_l0.ra2_in1k>, 2304 pooled features. `nfnet_scenes` is
//! the same network made small, with weights of our own.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use covmatch_kernels as kernels;
use covmatch_kernels::Prologue;

use super::nf::{self, Activation, BlockForm, Gate, NfBlock, Place};
use super::{SMALLEST, check_pixels};
use crate::encoders::kinks::Kinks;
use crate::encoders::layers::{ConvForm, ScaledStdConv2d, channels_last};
use crate::encoders::{EncoderError, ImageEncoder};

/// The form of an NFNet.
#[derive(Clone, Copy, Debug)]
pub struct NfNetConfig {
    /// Channels after the stem.
    pub stem: usize,
    /// Blocks of each stage.
    pub depths: [usize; 4],
    /// Channels of each stage.
    pub channels: [usize; 4],
    /// Channels of each group of the 3x3 convolutions.
    pub group_size: usize,
    /// Dimension of the features.
    pub features: usize,
}

impl NfNetConfig {
    /// timm's light `nfnet_l0`.
    pub const L0: Self =
        Self { stem: 128, depths: [1, 2, 6, 3], channels: [256, 512, 1536, 1536], group_size: 64, features: 2304 };
    /// A small one of our own, for pictures of 64 x 64 pixels: the image encoder of the demo.
    pub const SCENES: Self =
        Self { stem: 64, depths: [1, 1, 2, 1], channels: [64, 128, 256, 256], group_size: 16, features: 256 };
}

/// NFNet with SiLU, a bottleneck ratio of 1/4 and squeeze-excite after each block.
#[derive(Module, Debug)]
pub struct NfNet {
    stem: QuadStem,
    stages: Vec<Vec<NfBlock>>,
    final_conv: ScaledStdConv2d,
    features: usize,
}

const ACTIVATION: Activation = Activation::Silu;

impl NfNet {
    /// The network with weights yet to be loaded.
    pub fn new(config: NfNetConfig, device: &Device) -> Self {
        let NfNetConfig { stem, depths, channels, group_size, features } = config;
        let form = |place: Place| BlockForm {
            activation: ACTIVATION,
            middle: place.outputs / 4,
            groups: place.outputs / 4 / group_size,
            convs3x3: 2,
            gate: Gate::Last(place.outputs / 4),
        };
        Self {
            stem: QuadStem::new(stem, device),
            stages: nf::stages(nf::places(stem, 1, depths, channels), form, device),
            final_conv: ScaledStdConv2d::new(ConvForm::new(channels[3], features, 1), ACTIVATION.gamma(), device),
            features,
        }
    }
}

impl ImageEncoder for NfNet {
    fn forward(&self, pixels: Tensor<4>, kinks: &mut Kinks) -> Result<Tensor<2>, EncoderError> {
        check_pixels("NFNet", &pixels, SMALLEST)?;
        let x = self.stem.forward(channels_last(pixels), kinks); // [n, h/4, w/4, stem]
        let x = nf::forward_stages(&self.stages, x, kinks); // [n, h/32, w/32, channels]
        let x = ACTIVATION.after(&self.final_conv, x, Prologue::None, kinks);
        Ok(kernels::global_avg_pool(ACTIVATION.late(x)))
    }

    fn feature_dim(&self) -> usize {
        self.features
    }
}

/// Four 3x3 convolutions, the first and the last with stride 2.
#[derive(Module, Debug)]
struct QuadStem {
    conv1: ScaledStdConv2d,
    conv2: ScaledStdConv2d,
    conv3: ScaledStdConv2d,
    conv4: ScaledStdConv2d,
}

impl QuadStem {
    fn new(outputs: usize, device: &Device) -> Self {
        let conv = |inputs, outputs, stride| {
            ScaledStdConv2d::new(ConvForm::new(inputs, outputs, 3).stride(stride), ACTIVATION.gamma(), device)
        };
        Self {
            conv1: conv(3, outputs / 8, 2),
            conv2: conv(outputs / 8, outputs / 4, 1),
            conv3: conv(outputs / 4, outputs / 2, 1),
            conv4: conv(outputs / 2, outputs, 2),
        }
    }

    fn forward(&self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        let x = ACTIVATION.after(&self.conv1, x, Prologue::None, kinks);
        let inner = |x, conv| ACTIVATION.after(conv, x, ACTIVATION.prologue(), kinks);
        let x = [&self.conv2, &self.conv3].into_iter().fold(x, inner);
        self.conv4.forward(x, ACTIVATION.prologue())
    }
}
