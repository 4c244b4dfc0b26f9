//! R3D: a ResNet whose convolutions also run over time.
//!
//! Paper: Tran et al. 2018, <https://arxiv.org/abs/1711.11248>.
//! Upstream: torchvision's `r3d_18` without its classifier, 512 pooled features. Activations are `[n, c, t, h, w]`, as
//! burn's own three-dimensional convolution takes them.

use burn::module::{Module, Param};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, module};
use covmatch_kernels as kernels;

use crate::encoders::kinks::Kinks;
use crate::encoders::layers::{BatchNorm, zeros};
use crate::encoders::{EncoderError, VideoEncoder, macs};

/// The form of an R3D.
#[derive(Clone, Copy, Debug)]
pub struct R3dConfig {
    /// Blocks of each stage.
    pub depths: [usize; 4],
    /// Channels of each stage; the last is the dimension of the features.
    pub channels: [usize; 4],
}

impl R3dConfig {
    /// torchvision's `r3d_18`.
    pub const R3D_18: Self = Self { depths: [2; 4], channels: [64, 128, 256, 512] };
}

/// R3D with basic blocks.
#[derive(Module, Debug)]
pub struct R3d {
    stem: ConvBn,
    layer1: Vec<BasicBlock>,
    layer2: Vec<BasicBlock>,
    layer3: Vec<BasicBlock>,
    layer4: Vec<BasicBlock>,
    features: usize,
}

const EPS: f32 = 1e-5;
/// The smallest frame: stem and stages halve its size four times.
const SMALLEST: usize = 16;

impl R3d {
    /// The network with weights yet to be loaded.
    pub fn new(config: R3dConfig, device: &Device) -> Self {
        let R3dConfig { depths, channels } = config;
        let stem = Conv3dForm { kernel: [3, 7, 7], stride: [1, 2, 2], padding: [1, 3, 3] };
        let layer = |stage: usize| -> Vec<BasicBlock> {
            let (outputs, stride) = (channels[stage], if stage == 0 { 1 } else { 2 });
            let first = BasicBlock::new(channels[stage.saturating_sub(1)], outputs, stride, device);
            let others = (1..depths[stage]).map(|_| BasicBlock::new(outputs, outputs, 1, device));
            std::iter::once(first).chain(others).collect()
        };
        Self {
            stem: ConvBn::new(3, channels[0], stem, device),
            layer1: layer(0),
            layer2: layer(1),
            layer3: layer(2),
            layer4: layer(3),
            features: channels[3],
        }
    }
}

impl VideoEncoder for R3d {
    fn forward(&self, frames: Tensor<5>, kinks: &mut Kinks) -> Result<Tensor<2>, EncoderError> {
        check_frames(&frames)?;
        let x = kinks.relu(self.stem.forward(frames)); // [n, 64, t, h/2, w/2]
        let blocks = [&self.layer1, &self.layer2, &self.layer3, &self.layer4].into_iter().flatten();
        let x = blocks.fold(x, |x, block| block.forward(x, kinks)); // [n, features, t/8, h/16, w/16]
        let [n, c, t, h, w] = x.dims();
        Ok(x.reshape([n, c, t * h * w]).mean_dim(2).reshape([n, c]))
    }

    fn feature_dim(&self) -> usize {
        self.features
    }
}

/// Refuses frames that are not `[n, 3, t, h, w]` with `n, t >= 1` and `h, w` large enough.
fn check_frames(frames: &Tensor<5>) -> Result<(), EncoderError> {
    let got = frames.dims();
    match got {
        [0, ..] => Err(EncoderError::EmptyBatch),
        [_, 3, t, h, w] if t >= 1 && h >= SMALLEST && w >= SMALLEST => Ok(()),
        _ => Err(EncoderError::Shape {
            encoder: "R3D".to_owned(),
            expected: format!("frames [n, 3, t, h, w] with t of at least 1, h and w of at least {SMALLEST}"),
            got: got.to_vec(),
        }),
    }
}

/// Two 3x3x3 convolutions and a shortcut.
#[derive(Module, Debug)]
struct BasicBlock {
    conv1: ConvBn,
    conv2: ConvBn,
    downsample: Option<ConvBn>,
}

impl BasicBlock {
    fn new(inputs: usize, outputs: usize, stride: usize, device: &Device) -> Self {
        let conv3 = |stride| Conv3dForm { kernel: [3; 3], stride: [stride; 3], padding: [1; 3] };
        let conv1 = Conv3dForm { kernel: [1; 3], stride: [stride; 3], padding: [0; 3] };
        Self {
            conv1: ConvBn::new(inputs, outputs, conv3(stride), device),
            conv2: ConvBn::new(outputs, outputs, conv3(1), device),
            downsample: (stride != 1 || inputs != outputs).then(|| ConvBn::new(inputs, outputs, conv1, device)),
        }
    }

    fn forward(&self, x: Tensor<5>, kinks: &mut Kinks) -> Tensor<5> {
        let y = self.conv2.forward(kinks.relu(self.conv1.forward(x.clone())));
        let shortcut = match &self.downsample {
            Some(downsample) => downsample.forward(x),
            None => x,
        };
        kinks.relu(kernels::add(y, shortcut))
    }
}

/// Kernel, stride and padding over time, height and width.
#[derive(Clone, Copy, Debug)]
struct Conv3dForm {
    kernel: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
}

/// A convolution and its batch norm, computed as one convolution.
#[derive(Module, Debug)]
struct ConvBn {
    _0: Conv3d,
    _1: BatchNorm,
}

#[derive(Module, Debug)]
struct Conv3d {
    weight: Param<Tensor<5>>, // [out, in, kt, kh, kw]
    #[module(skip)]
    form: Conv3dForm,
}

impl ConvBn {
    fn new(inputs: usize, outputs: usize, form: Conv3dForm, device: &Device) -> Self {
        let [kt, kh, kw] = form.kernel;
        let conv = Conv3d { weight: zeros([outputs, inputs, kt, kh, kw], device), form };
        Self { _0: conv, _1: BatchNorm::new(outputs, EPS, device) }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let Conv3dForm { stride, padding, .. } = self._0.form;
        let (weight, bias) = self._1.fold(self._0.weight.val());
        let per_voxel = weight.shape().num_elements();
        let y = module::conv3d(x, weight, Some(bias), ConvOptions::new(stride, padding, [1; 3], 1));
        let [n, _, t, h, w] = y.dims();
        macs::record((n * t * h * w * per_voxel) as u64);
        y
    }
}
