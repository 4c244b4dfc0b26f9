//! MobileNetV2: inverted residuals with linear bottlenecks.
//!
//! Paper: Sandler et al. 2018, <https://arxiv.org/abs/1801.04381>.
//! Upstream: torchvision's `mobilenet_v2` (the architecture that timm calls `mobilenetv2_100`), 1280 pooled features.
//! The layers of a block are a `Sequential` there, hence tuples here: a key's number is a place in the tuple.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use covmatch_kernels as kernels;

use super::{SMALLEST, check_pixels};
use crate::encoders::kinks::{Kinks, Rectifier};
use crate::encoders::layers::{BatchNorm, Conv2d, ConvForm, channels_last, conv_bn, conv_bn_rectified};
use crate::encoders::{EncoderError, ImageEncoder};

/// Blocks of equal form that follow one another.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// How many times a block widens its input.
    pub expansion: usize,
    /// Channels out.
    pub channels: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Stride of the first block.
    pub stride: usize,
}

/// The form of a MobileNetV2.
#[derive(Clone, Copy, Debug)]
pub struct MobileNetV2Config {
    /// Channels after the stem.
    pub stem: usize,
    /// The stages, table 2 of the paper.
    pub stages: [Stage; 7],
    /// Dimension of the features.
    pub features: usize,
}

impl MobileNetV2Config {
    /// Width 1.0.
    pub const WIDTH_1: Self = Self {
        stem: 32,
        stages: [
            Stage { expansion: 1, channels: 16, depth: 1, stride: 1 },
            Stage { expansion: 6, channels: 24, depth: 2, stride: 2 },
            Stage { expansion: 6, channels: 32, depth: 3, stride: 2 },
            Stage { expansion: 6, channels: 64, depth: 4, stride: 2 },
            Stage { expansion: 6, channels: 96, depth: 3, stride: 1 },
            Stage { expansion: 6, channels: 160, depth: 3, stride: 2 },
            Stage { expansion: 6, channels: 320, depth: 1, stride: 1 },
        ],
        features: 1280,
    };
}

/// MobileNetV2.
#[derive(Module, Debug)]
pub struct MobileNetV2 {
    features: Vec<Feature>,
    feature_dim: usize,
}

const EPS: f32 = 1e-5;

impl MobileNetV2 {
    /// The network with weights yet to be loaded.
    pub fn new(config: MobileNetV2Config, device: &Device) -> Self {
        let MobileNetV2Config { stem, stages, features: feature_dim } = config;
        let mut features = vec![Feature::ConvBn(ConvBn::new(ConvForm::new(3, stem, 3).stride(2), stem, device))];
        let mut inputs = stem;
        for stage in stages {
            for block in 0..stage.depth {
                let stride = if block == 0 { stage.stride } else { 1 };
                let block = InvertedResidual::new(inputs, stage.expansion, stage.channels, stride, device);
                features.push(Feature::InvertedResidual(block));
                inputs = stage.channels;
            }
        }
        features.push(Feature::ConvBn(ConvBn::new(ConvForm::new(inputs, feature_dim, 1), feature_dim, device)));
        Self { features, feature_dim }
    }
}

impl ImageEncoder for MobileNetV2 {
    fn forward(&self, pixels: Tensor<4>, kinks: &mut Kinks) -> Result<Tensor<2>, EncoderError> {
        check_pixels("MobileNetV2", &pixels, SMALLEST)?;
        let x = self.features.iter().fold(channels_last(pixels), |x, feature| feature.forward(x, kinks));
        Ok(kernels::global_avg_pool(x))
    }

    fn feature_dim(&self) -> usize {
        self.feature_dim
    }
}

#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // a network has dozens of blocks, not millions
enum Feature {
    ConvBn(ConvBn),
    InvertedResidual(InvertedResidual),
}

impl Feature {
    fn forward(&self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        match self {
            Feature::ConvBn(layer) => layer.forward(x, kinks),
            Feature::InvertedResidual(block) => block.forward(x, kinks),
        }
    }
}

/// Convolution, batch norm, ReLU6.
#[derive(Module, Debug)]
struct ConvBn {
    _0: Conv2d,
    _1: BatchNorm,
}

impl ConvBn {
    fn new(form: ConvForm, outputs: usize, device: &Device) -> Self {
        Self { _0: Conv2d::without_bias(form, device), _1: BatchNorm::new(outputs, EPS, device) }
    }

    fn forward(&self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        conv_bn_rectified(x, &self._0, &self._1, Rectifier::Relu6, kinks)
    }
}

/// Widen, depthwise 3x3, project without activation; added to the input where the shapes agree.
#[derive(Module, Debug)]
struct InvertedResidual {
    conv: Layers,
    shortcut: bool,
}

#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // as above
enum Layers {
    /// Depthwise, project, norm.
    Plain((ConvBn, Conv2d, BatchNorm)),
    /// Widen, depthwise, project, norm.
    Widened((ConvBn, ConvBn, Conv2d, BatchNorm)),
}

impl InvertedResidual {
    fn new(inputs: usize, expansion: usize, outputs: usize, stride: usize, device: &Device) -> Self {
        let middle = expansion * inputs;
        let depthwise = ConvBn::new(ConvForm::new(middle, middle, 3).stride(stride).groups(middle), middle, device);
        let project = Conv2d::without_bias(ConvForm::new(middle, outputs, 1), device);
        let norm = BatchNorm::new(outputs, EPS, device);
        let conv = if expansion == 1 {
            Layers::Plain((depthwise, project, norm))
        } else {
            let widen = ConvBn::new(ConvForm::new(inputs, middle, 1), middle, device);
            Layers::Widened((widen, depthwise, project, norm))
        };
        Self { conv, shortcut: stride == 1 && inputs == outputs }
    }

    fn forward(&self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        let y = match &self.conv {
            Layers::Plain((depthwise, project, norm)) => conv_bn(depthwise.forward(x.clone(), kinks), project, norm),
            Layers::Widened((widen, depthwise, project, norm)) => {
                let widened = widen.forward(x.clone(), kinks);
                conv_bn(depthwise.forward(widened, kinks), project, norm)
            }
        };
        if self.shortcut { kernels::add(y, x) } else { y }
    }
}
