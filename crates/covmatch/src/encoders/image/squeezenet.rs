//! SqueezeNet 1.1: a small network without any normalisation.
//!
//! Paper: Iandola et al. 2016, <https://arxiv.org/abs/1602.07360>.
//! Upstream: torchvision's `squeezenet1_1` without its classifier, 512 pooled features. The layers are a `Sequential`
//! there, hence fields named by numbers; the missing numbers are activations and pooling.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use covmatch_kernels as kernels;
use covmatch_kernels::Padding;

use super::{SMALLEST, check_pixels};
use crate::encoders::kinks::{Kinks, Rectifier};
use crate::encoders::layers::{Conv2d, ConvForm, channels_last};
use crate::encoders::{EncoderError, ImageEncoder};

/// SqueezeNet 1.1.
#[derive(Module, Debug)]
pub struct SqueezeNet {
    features: Stack,
}

impl SqueezeNet {
    /// The network with weights yet to be loaded.
    pub fn new(device: &Device) -> Self {
        Self { features: Stack::new(device) }
    }
}

impl ImageEncoder for SqueezeNet {
    fn forward(&self, pixels: Tensor<4>, kinks: &mut Kinks) -> Result<Tensor<2>, EncoderError> {
        check_pixels("SqueezeNet", &pixels, SMALLEST)?;
        Ok(kernels::global_avg_pool(self.features.forward(channels_last(pixels), kinks)))
    }

    fn feature_dim(&self) -> usize {
        512
    }
}

#[derive(Module, Debug)]
struct Stack {
    _0: Conv2d,
    _3: Fire,
    _4: Fire,
    _6: Fire,
    _7: Fire,
    _9: Fire,
    _10: Fire,
    _11: Fire,
    _12: Fire,
}

impl Stack {
    fn new(device: &Device) -> Self {
        Self {
            _0: Conv2d::new(ConvForm::new(3, 64, 3).stride(2).padding(Padding::Explicit(0)), device),
            _3: Fire::new(64, 16, 64, device),
            _4: Fire::new(128, 16, 64, device),
            _6: Fire::new(128, 32, 128, device),
            _7: Fire::new(256, 32, 128, device),
            _9: Fire::new(256, 48, 192, device),
            _10: Fire::new(384, 48, 192, device),
            _11: Fire::new(384, 64, 256, device),
            _12: Fire::new(512, 64, 256, device),
        }
    }

    /// `[n, h, w, 3]` to `[n, h/16, w/16, 512]`.
    fn forward(&self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        let x = self._0.forward_rectified(x, Rectifier::Relu, kinks);
        let x = run([&self._3, &self._4], kinks.max_pool2d(x, 3, 2), kinks);
        let x = run([&self._6, &self._7], kinks.max_pool2d(x, 3, 2), kinks);
        run([&self._9, &self._10, &self._11, &self._12], kinks.max_pool2d(x, 3, 2), kinks)
    }
}

/// `x` after all `layers`.
fn run<const N: usize>(layers: [&Fire; N], x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
    layers.into_iter().fold(x, |x, fire| fire.forward(x, kinks))
}

/// Squeeze the channels with a 1x1 convolution, then expand them with 1x1 and 3x3 convolutions side by side.
#[derive(Module, Debug)]
struct Fire {
    squeeze: Conv2d,
    expand1x1: Conv2d,
    expand3x3: Conv2d,
}

impl Fire {
    fn new(inputs: usize, squeezed: usize, expanded: usize, device: &Device) -> Self {
        let conv = |inputs, outputs, kernel| Conv2d::new(ConvForm::new(inputs, outputs, kernel), device);
        Self {
            squeeze: conv(inputs, squeezed, 1),
            expand1x1: conv(squeezed, expanded, 1),
            expand3x3: conv(squeezed, expanded, 3),
        }
    }

    fn forward(&self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        let mut rectified = |conv: &Conv2d, x| conv.forward_rectified(x, Rectifier::Relu, kinks);
        let x = rectified(&self.squeeze, x);
        Tensor::cat(vec![rectified(&self.expand1x1, x.clone()), rectified(&self.expand3x3, x)], 3)
    }
}
