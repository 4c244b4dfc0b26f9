//! EfficientNet-Lite: EfficientNet without squeeze-excite, with ReLU6 and a fixed stem and head.
//!
//! Paper: Tan and Le 2019, <https://arxiv.org/abs/1905.11946>; the Lite variants are in
//! <https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite>.
//! Upstream: timm's `tf_efficientnet_lite0`, `1` and `2` (TensorFlow's SAME padding, batch norm eps 1e-3), 1280 pooled
//! features.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use covmatch_kernels as kernels;
use covmatch_kernels::Padding;

use super::{SMALLEST, check_pixels};
use crate::encoders::kinks::{Kinks, Rectifier};
use crate::encoders::layers::{BatchNorm, Conv2d, ConvForm, channels_last, conv_bn, conv_bn_rectified};
use crate::encoders::{EncoderError, ImageEncoder};

/// The form of an EfficientNet-Lite.
#[derive(Clone, Copy, Debug)]
pub struct EfficientNetLiteConfig {
    /// Blocks of each stage.
    pub depths: [usize; 7],
    /// Channels of each stage.
    pub channels: [usize; 7],
}

impl EfficientNetLiteConfig {
    /// timm's `tf_efficientnet_lite0`.
    pub const LITE0: Self = Self { depths: [1, 2, 2, 3, 3, 4, 1], channels: [16, 24, 40, 80, 112, 192, 320] };
    /// timm's `tf_efficientnet_lite1`.
    pub const LITE1: Self = Self { depths: [1, 3, 3, 4, 4, 5, 1], channels: [16, 24, 40, 80, 112, 192, 320] };
    /// timm's `tf_efficientnet_lite2`.
    pub const LITE2: Self = Self { depths: [1, 3, 3, 4, 4, 5, 1], channels: [16, 24, 48, 88, 120, 208, 352] };
}

/// Kernel of the depthwise convolutions of each stage.
const KERNELS: [usize; 7] = [3, 3, 5, 3, 5, 5, 3];
/// Stride of the first block of each stage.
const STRIDES: [usize; 7] = [1, 2, 2, 2, 1, 2, 1];
const STEM: usize = 32;
const FEATURES: usize = 1280;
const EPS: f32 = 1e-3;

/// EfficientNet-Lite.
#[derive(Module, Debug)]
pub struct EfficientNetLite {
    conv_stem: Conv2d,
    bn1: BatchNorm,
    blocks: Vec<Vec<Block>>,
    conv_head: Conv2d,
    bn2: BatchNorm,
}

impl EfficientNetLite {
    /// The network with weights yet to be loaded.
    pub fn new(config: EfficientNetLiteConfig, device: &Device) -> Self {
        let EfficientNetLiteConfig { depths, channels } = config;
        let mut inputs = STEM;
        let mut stage = |stage: usize| -> Vec<Block> {
            let mut block = |block: usize| {
                let stride = if block == 0 { STRIDES[stage] } else { 1 };
                let place = Place { inputs, outputs: channels[stage], kernel: KERNELS[stage], stride };
                inputs = place.outputs;
                match stage {
                    0 => Block::DepthwiseSeparable(DepthwiseSeparable::new(place, device)),
                    _ => Block::InvertedResidual(InvertedResidual::new(place, device)),
                }
            };
            (0..depths[stage]).map(&mut block).collect()
        };
        Self {
            conv_stem: conv(ConvForm::new(3, STEM, 3).stride(2), device),
            bn1: BatchNorm::new(STEM, EPS, device),
            blocks: (0..7).map(&mut stage).collect(),
            conv_head: conv(ConvForm::new(channels[6], FEATURES, 1), device),
            bn2: BatchNorm::new(FEATURES, EPS, device),
        }
    }
}

impl ImageEncoder for EfficientNetLite {
    fn forward(&self, pixels: Tensor<4>, kinks: &mut Kinks) -> Result<Tensor<2>, EncoderError> {
        check_pixels("EfficientNet-Lite", &pixels, SMALLEST)?;
        let x = conv_bn_rectified(channels_last(pixels), &self.conv_stem, &self.bn1, Rectifier::Relu6, kinks); // [n, h/2, w/2, 32]
        let x = self.blocks.iter().flatten().fold(x, |x, block| block.forward(x, kinks)); // [n, h/32, w/32, channels]
        Ok(kernels::global_avg_pool(conv_bn_rectified(x, &self.conv_head, &self.bn2, Rectifier::Relu6, kinks)))
    }

    fn feature_dim(&self) -> usize {
        FEATURES
    }
}

/// A convolution with TensorFlow's SAME padding.
fn conv(form: ConvForm, device: &Device) -> Conv2d {
    Conv2d::without_bias(form.padding(Padding::Same), device)
}

/// Where a block stands in the network.
#[derive(Clone, Copy, Debug)]
struct Place {
    inputs: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
}

impl Place {
    fn has_shortcut(&self) -> bool {
        self.stride == 1 && self.inputs == self.outputs
    }

    fn depthwise(&self, channels: usize) -> ConvForm {
        ConvForm::new(channels, channels, self.kernel).stride(self.stride).groups(channels)
    }
}

#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // a network has dozens of blocks, not millions
enum Block {
    DepthwiseSeparable(DepthwiseSeparable),
    InvertedResidual(InvertedResidual),
}

impl Block {
    fn forward(&self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        match self {
            Block::DepthwiseSeparable(block) => block.forward(x, kinks),
            Block::InvertedResidual(block) => block.forward(x, kinks),
        }
    }
}

/// The first block: a depthwise and a 1x1 convolution.
#[derive(Module, Debug)]
struct DepthwiseSeparable {
    conv_dw: Conv2d,
    bn1: BatchNorm,
    conv_pw: Conv2d,
    bn2: BatchNorm,
}

impl DepthwiseSeparable {
    fn new(place: Place, device: &Device) -> Self {
        Self {
            conv_dw: conv(place.depthwise(place.inputs), device),
            bn1: BatchNorm::new(place.inputs, EPS, device),
            conv_pw: conv(ConvForm::new(place.inputs, place.outputs, 1), device),
            bn2: BatchNorm::new(place.outputs, EPS, device),
        }
    }

    fn forward(&self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        let x = conv_bn_rectified(x, &self.conv_dw, &self.bn1, Rectifier::Relu6, kinks);
        conv_bn(x, &self.conv_pw, &self.bn2)
    }
}

/// Widen 6 times, depthwise convolution, project.
#[derive(Module, Debug)]
struct InvertedResidual {
    conv_pw: Conv2d,
    bn1: BatchNorm,
    conv_dw: Conv2d,
    bn2: BatchNorm,
    conv_pwl: Conv2d,
    bn3: BatchNorm,
    shortcut: bool,
}

impl InvertedResidual {
    fn new(place: Place, device: &Device) -> Self {
        let middle = 6 * place.inputs;
        Self {
            conv_pw: conv(ConvForm::new(place.inputs, middle, 1), device),
            bn1: BatchNorm::new(middle, EPS, device),
            conv_dw: conv(place.depthwise(middle), device),
            bn2: BatchNorm::new(middle, EPS, device),
            conv_pwl: conv(ConvForm::new(middle, place.outputs, 1), device),
            bn3: BatchNorm::new(place.outputs, EPS, device),
            shortcut: place.has_shortcut(),
        }
    }

    fn forward(&self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        let y = conv_bn_rectified(x.clone(), &self.conv_pw, &self.bn1, Rectifier::Relu6, kinks);
        let y = conv_bn_rectified(y, &self.conv_dw, &self.bn2, Rectifier::Relu6, kinks);
        let y = conv_bn(y, &self.conv_pwl, &self.bn3);
        if self.shortcut { kernels::add(y, x) } else { y }
    }
}
