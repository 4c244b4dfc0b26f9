//! ResNet: residual blocks of two 3x3 convolutions with batch norms.
//!
//! Paper: He et al. 2016, <https://arxiv.org/abs/1512.03385>.
//! Upstream: torchvision's and timm's `resnet18`, which name their layers alike; 512 pooled features.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use covmatch_kernels as kernels;

use super::{SMALLEST, check_pixels, max_pool_3x3};
use crate::encoders::kinks::{Kinks, Rectifier};
use crate::encoders::layers::{BatchNorm, Conv2d, ConvForm, channels_last, conv_bn, conv_bn_rectified};
use crate::encoders::{EncoderError, ImageEncoder};

/// The form of a ResNet.
#[derive(Clone, Copy, Debug)]
pub struct ResNetConfig {
    /// Channels after the stem.
    pub stem: usize,
    /// Blocks of each stage.
    pub depths: [usize; 4],
    /// Channels of each stage; the last is the dimension of the features.
    pub channels: [usize; 4],
}

impl ResNetConfig {
    /// `resnet18`.
    pub const RESNET18: Self = Self { stem: 64, depths: [2; 4], channels: [64, 128, 256, 512] };
}

const EPS: f32 = 1e-5;

/// ResNet with basic blocks.
#[derive(Module, Debug)]
pub struct ResNet {
    conv1: Conv2d,
    bn1: BatchNorm,
    layer1: Vec<BasicBlock>,
    layer2: Vec<BasicBlock>,
    layer3: Vec<BasicBlock>,
    layer4: Vec<BasicBlock>,
    features: usize,
}

impl ResNet {
    /// The network with weights yet to be loaded.
    pub fn new(config: ResNetConfig, device: &Device) -> Self {
        let ResNetConfig { stem, depths, channels } = config;
        let layer = |stage: usize| {
            let before = if stage == 0 { stem } else { channels[stage - 1] };
            let block = |place: usize| match place {
                0 => BasicBlock::new(before, channels[stage], if stage == 0 { 1 } else { 2 }, device),
                _ => BasicBlock::new(channels[stage], channels[stage], 1, device),
            };
            (0..depths[stage]).map(block).collect()
        };
        Self {
            conv1: Conv2d::without_bias(ConvForm::new(3, stem, 7).stride(2), device),
            bn1: BatchNorm::new(stem, EPS, device),
            layer1: layer(0),
            layer2: layer(1),
            layer3: layer(2),
            layer4: layer(3),
            features: channels[3],
        }
    }
}

impl ImageEncoder for ResNet {
    fn forward(&self, pixels: Tensor<4>, kinks: &mut Kinks) -> Result<Tensor<2>, EncoderError> {
        check_pixels("ResNet", &pixels, SMALLEST)?;
        let x = conv_bn_rectified(channels_last(pixels), &self.conv1, &self.bn1, Rectifier::Relu, kinks); // [n, h/2, w/2, stem]
        let blocks = [&self.layer1, &self.layer2, &self.layer3, &self.layer4].into_iter().flatten();
        let x = blocks.fold(max_pool_3x3(x, kinks), |x, block| block.forward(x, kinks)); // [n, h/32, w/32, channels]
        Ok(kernels::global_avg_pool(x))
    }

    fn feature_dim(&self) -> usize {
        self.features
    }
}

/// `relu(norm(conv(relu(norm(conv(x))))) + shortcut(x))`
#[derive(Module, Debug)]
struct BasicBlock {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
    downsample: Option<Shortcut>,
}

/// A 1x1 convolution and its norm, where a block changes the shape.
#[derive(Module, Debug)]
struct Shortcut {
    _0: Conv2d,
    _1: BatchNorm,
}

impl BasicBlock {
    fn new(inputs: usize, outputs: usize, stride: usize, device: &Device) -> Self {
        let shortcut = || Shortcut {
            _0: Conv2d::without_bias(ConvForm::new(inputs, outputs, 1).stride(stride), device),
            _1: BatchNorm::new(outputs, EPS, device),
        };
        Self {
            conv1: Conv2d::without_bias(ConvForm::new(inputs, outputs, 3).stride(stride), device),
            bn1: BatchNorm::new(outputs, EPS, device),
            conv2: Conv2d::without_bias(ConvForm::new(outputs, outputs, 3), device),
            bn2: BatchNorm::new(outputs, EPS, device),
            downsample: (stride != 1 || inputs != outputs).then(shortcut),
        }
    }

    fn forward(&self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        let y = conv_bn_rectified(x.clone(), &self.conv1, &self.bn1, Rectifier::Relu, kinks);
        let y = conv_bn(y, &self.conv2, &self.bn2);
        let shortcut = match &self.downsample {
            Some(Shortcut { _0: conv, _1: norm }) => conv_bn(x, conv, norm),
            None => x,
        };
        kinks.relu(kernels::add(y, shortcut))
    }
}
