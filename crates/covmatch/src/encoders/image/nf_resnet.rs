//! NF-ResNet: ResNet-50 with pre-activation blocks and no normalisation layers.
//!
//! Paper: Brock et al. 2021, <https://arxiv.org/abs/2101.08692>.
//! Upstream: timm's `nf_resnet50`, <https://huggingface.co/timm/nf_resnet50.ra2_in1k>, 2048 pooled features.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use covmatch_kernels as kernels;
use covmatch_kernels::Prologue;

use super::nf::{self, Activation, BlockForm, Gate, Head, NfBlock, Place, Stem};
use super::{Output, SMALLEST, check_pixels, max_pool_3x3};
use crate::encoders::kinks::Kinks;
use crate::encoders::layers::{ConvForm, ScaledStdConv2d, channels_last};
use crate::encoders::{EncoderError, ImageEncoder};

/// The form of an NF-ResNet.
#[derive(Clone, Copy, Debug)]
pub struct NfResNetConfig {
    /// Channels after the stem.
    pub stem: usize,
    /// Blocks of each stage.
    pub depths: [usize; 4],
    /// Channels of each stage; the last is the dimension of the features.
    pub channels: [usize; 4],
    /// Pooled features, or logits.
    pub output: Output,
}

impl NfResNetConfig {
    /// timm's `nf_resnet50`.
    pub const RESNET50: Self =
        Self { stem: 64, depths: [3, 4, 6, 3], channels: [256, 512, 1024, 2048], output: Output::Features };
}

/// NF-ResNet with ReLU and a bottleneck ratio of 1/4.
#[derive(Module, Debug)]
pub struct NfResNet {
    stem: Stem,
    stages: Vec<Vec<NfBlock>>,
    head: Option<Head>,
    features: usize,
}

const ACTIVATION: Activation = Activation::Relu;

impl NfResNet {
    /// The network with weights yet to be loaded.
    pub fn new(config: NfResNetConfig, device: &Device) -> Self {
        let NfResNetConfig { stem, depths, channels, output } = config;
        let form = |place: Place| BlockForm {
            activation: ACTIVATION,
            middle: place.outputs / 4,
            groups: 1,
            convs3x3: 1,
            gate: Gate::None,
        };
        let conv = ScaledStdConv2d::new(ConvForm::new(3, stem, 7).stride(2), ACTIVATION.gamma(), device);
        Self {
            stem: Stem { conv },
            stages: nf::stages(nf::places(stem, 1, depths, channels), form, device),
            head: (output == Output::Logits).then(|| Head::new(channels[3], device)),
            features: channels[3],
        }
    }
}

impl ImageEncoder for NfResNet {
    fn forward(&self, pixels: Tensor<4>, kinks: &mut Kinks) -> Result<Tensor<2>, EncoderError> {
        check_pixels("NF-ResNet", &pixels, SMALLEST)?;
        let x = self.stem.conv.forward(channels_last(pixels), Prologue::None); // [n, h/2, w/2, stem]
        let x = nf::forward_stages(&self.stages, max_pool_3x3(x, kinks), kinks); // [n, h/32, w/32, channels]
        let features = kernels::global_avg_pool(ACTIVATION.apply(x, kinks));
        Ok(match &self.head {
            Some(head) => head.fc.forward(features),
            None => features,
        })
    }

    fn feature_dim(&self) -> usize {
        if self.head.is_some() { Head::CLASSES } else { self.features }
    }
}
