//! What the normaliser-free networks share: the pre-activation residual block and the bookkeeping of its variance.
//!
//! Papers: Brock et al. 2021, <https://arxiv.org/abs/2101.08692> and <https://arxiv.org/abs/2102.06171>.
//! Upstream: timm's `nfnet.py`, <https://github.com/huggingface/pytorch-image-models>.
//!
//! ```text
//! x_next = shortcut(x) + alpha * f(act(x) * beta),   beta = 1 / sqrt(Var(x)),   Var grows by alpha^2 a block
//! ```
//! The networks have no normalisation layer: standardised weights, `beta` and the activations' `gamma` keep the variance
//! of activations near one. `beta` multiplies nothing at run time: it is part of the weights of the convolutions that
//! read `act(x)`.
//!
//! An activation is computed where it costs least. ReLU is part of the convolution that writes `x`: only `act(x)` is ever
//! stored. SiLU is part of the convolution that reads it: its gradient needs `x`, from which `act(x)` is computed again.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use covmatch_kernels as kernels;
use covmatch_kernels::Prologue;

use crate::encoders::kinks::{Kinks, Rectifier};
use crate::encoders::layers::{ConvForm, Linear, ScaledStdConv2d, SqueezeExcite};

/// Weight of the residual branch.
const ALPHA: f32 = 0.2;
/// Makes up for the mean 1/2 of a squeeze-excite gate.
const GATE_GAIN: f32 = 2.0;

/// An activation and its `gamma`: the factor that brings its output back to unit variance for normal inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `x * sigmoid(x)`.
    Silu,
}

impl Activation {
    pub(crate) fn gamma(self) -> f32 {
        match self {
            Activation::Relu => 1.713_958_9,
            Activation::Silu => 1.788_129_3,
        }
    }

    /// The activation of what no convolution writes or reads.
    pub(crate) fn apply(self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        self.late(self.early(x, kinks))
    }

    /// `prologue` and `conv` of `x`, with the part of the activation that the convolution which writes its input computes.
    pub(crate) fn after(
        self,
        conv: &ScaledStdConv2d,
        x: Tensor<4>,
        prologue: Prologue,
        kinks: &mut Kinks,
    ) -> Tensor<4> {
        match self {
            Activation::Relu => conv.forward_rectified(x, prologue, Rectifier::Relu, kinks),
            Activation::Silu => conv.forward(x, prologue),
        }
    }

    /// The rest of it, computed by the convolution that reads its output.
    pub(crate) fn prologue(self) -> Prologue {
        match self {
            Activation::Relu => Prologue::None,
            Activation::Silu => Prologue::Silu,
        }
    }

    /// The part of [`Self::after`] for what no convolution wrote.
    fn early(self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        match self {
            Activation::Relu => kinks.relu(x),
            Activation::Silu => x,
        }
    }

    /// [`Self::prologue`] of what no convolution reads.
    pub(crate) fn late(self, x: Tensor<4>) -> Tensor<4> {
        match self {
            Activation::Relu => x,
            Activation::Silu => kernels::silu(x, 1.0),
        }
    }
}

/// Where a block stands in the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Channels in.
    pub(crate) inputs: usize,
    /// Channels out.
    pub(crate) outputs: usize,
    /// 2 in the first block of a stage that halves the resolution.
    pub(crate) stride: usize,
    /// `1 / sqrt(Var(x))` of the block's input.
    pub(crate) beta: f32,
    /// Whether it is the very first block.
    pub(crate) first: bool,
}

/// The places of all blocks, stage by stage.
///
/// Variance is one after the stem, and again after the first block of each stage, whose shortcut is a convolution of
/// `beta act(x)`; every block adds `alpha^2`.
pub(crate) fn places(stem: usize, first_stride: usize, depths: [usize; 4], channels: [usize; 4]) -> Vec<Vec<Place>> {
    let (mut inputs, mut variance) = (stem, 1.0_f64);
    let mut stages = Vec::new();
    for (stage, (depth, outputs)) in depths.into_iter().zip(channels).enumerate() {
        let mut places = Vec::new();
        for block in 0..depth {
            let stride = match (stage, block) {
                (0, 0) => first_stride,
                (_, 0) => 2,
                _ => 1,
            };
            let beta = variance.sqrt().recip() as f32;
            places.push(Place { inputs, outputs, stride, beta, first: stage == 0 && block == 0 });
            if block == 0 {
                variance = 1.0;
            }
            variance += f64::from(ALPHA) * f64::from(ALPHA);
            inputs = outputs;
        }
        stages.push(places);
    }
    stages
}

/// Where a block has its squeeze-excite gate, and the gate's reduced width.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gate {
    /// Nowhere (NF-ResNet).
    None,
    /// Before the last convolution (NF-RegNet).
    Middle(usize),
    /// After the last convolution (NFNet).
    Last(usize),
}

/// The form of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockForm {
    /// Activation before every convolution.
    pub(crate) activation: Activation,
    /// Channels between the 1x1 convolutions.
    pub(crate) middle: usize,
    /// Groups of the 3x3 convolutions.
    pub(crate) groups: usize,
    /// Number of 3x3 convolutions, 1 or 2.
    pub(crate) convs3x3: usize,
    /// Squeeze and excitation.
    pub(crate) gate: Gate,
}

/// A pre-activation bottleneck block.
#[derive(Module, Debug)]
pub(crate) struct NfBlock {
    downsample: Option<Downsample>,
    conv1: ScaledStdConv2d,
    conv2: ScaledStdConv2d,
    conv2b: Option<ScaledStdConv2d>,
    attn: Option<SqueezeExcite>,
    conv3: ScaledStdConv2d,
    attn_last: Option<SqueezeExcite>,
    #[module(skip)]
    activation: Activation,
}

impl NfBlock {
    pub(crate) fn new(place: Place, form: BlockForm, device: &Device) -> Self {
        let Place { inputs, outputs, stride, beta, .. } = place;
        let BlockForm { activation, middle, groups, convs3x3, gate } = form;
        let gamma = activation.gamma();
        let conv3x3 = ConvForm::new(middle, middle, 3).groups(groups);
        let (attn, attn_last) = match gate {
            Gate::None => (None, None),
            Gate::Middle(reduced) => (Some(SqueezeExcite::new(middle, reduced, device)), None),
            Gate::Last(reduced) => (None, Some(SqueezeExcite::new(outputs, reduced, device))),
        };
        Self {
            downsample: (inputs != outputs || stride != 1)
                .then(|| Downsample::new(inputs, outputs, stride, gamma * beta, device)),
            conv1: ScaledStdConv2d::new(ConvForm::new(inputs, middle, 1), gamma * beta, device),
            conv2: ScaledStdConv2d::new(conv3x3.stride(stride), gamma, device),
            conv2b: (convs3x3 == 2).then(|| ScaledStdConv2d::new(conv3x3, gamma, device)),
            attn,
            conv3: ScaledStdConv2d::new(ConvForm::new(middle, outputs, 1), gamma, device),
            attn_last,
            activation,
        }
    }

    /// `[n, h, w, inputs]` to `[n, h', w', outputs]`.
    pub(crate) fn forward(&self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        let act = self.activation;
        let early = act.early(x.clone(), kinks);
        let shortcut = match &self.downsample {
            Some(downsample) => downsample.forward(act, early.clone()),
            None => x,
        };
        let branch = act.after(&self.conv1, early, act.prologue(), kinks);
        let branch = self.branch(branch, kinks);
        match &self.attn_last {
            None => kernels::add(self.conv3.forward_scaled(branch, act.prologue(), ALPHA), shortcut),
            Some(attn) => {
                let branch = self.conv3.forward(branch, act.prologue());
                let gate = attn.gate(branch.clone(), kinks);
                kernels::gated_residual(branch, gate, shortcut, ALPHA * GATE_GAIN)
            }
        }
    }

    /// The 3x3 convolutions and what lies between them and the last 1x1 convolution.
    fn branch(&self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
        let act = self.activation;
        let (x, last) = match &self.conv2b {
            None => (x, &self.conv2),
            Some(conv2b) => (act.after(&self.conv2, x, act.prologue(), kinks), conv2b),
        };
        match &self.attn {
            None => act.after(last, x, act.prologue(), kinks),
            Some(attn) => {
                let x = last.forward(x, act.prologue());
                let gate = attn.gate(x.clone(), kinks).mul_scalar(GATE_GAIN); // [n, c]
                let [n, c] = gate.dims();
                act.early(x * gate.reshape([n, 1, 1, c]), kinks)
            }
        }
    }
}

/// A shortcut that changes the shape: average pooling and a 1x1 convolution.
#[derive(Module, Debug)]
pub(crate) struct Downsample {
    conv: ScaledStdConv2d,
    stride: usize,
}

impl Downsample {
    fn new(inputs: usize, outputs: usize, stride: usize, gamma: f32, device: &Device) -> Self {
        Self { conv: ScaledStdConv2d::new(ConvForm::new(inputs, outputs, 1), gamma, device), stride }
    }

    /// `early` is the block's input after [`Activation::early`].
    fn forward(&self, act: Activation, early: Tensor<4>) -> Tensor<4> {
        if self.stride == 1 {
            return self.conv.forward(early, act.prologue());
        }
        let pooled = kernels::avg_pool2d(act.late(early), self.stride);
        self.conv.forward(pooled, Prologue::None)
    }
}

/// A stem of one convolution.
#[derive(Module, Debug)]
pub(crate) struct Stem {
    pub(crate) conv: ScaledStdConv2d,
}

/// ImageNet's 1000 logits, which some baselines use in the place of features.
#[derive(Module, Debug)]
pub(crate) struct Head {
    pub(crate) fc: Linear,
}

impl Head {
    /// Number of logits.
    pub(crate) const CLASSES: usize = 1000;

    pub(crate) fn new(features: usize, device: &Device) -> Self {
        Self { fc: Linear::new(features, Self::CLASSES, device) }
    }
}

/// Builds every block with the form that `form` gives for its place.
pub(crate) fn stages(places: Vec<Vec<Place>>, form: impl Fn(Place) -> BlockForm, device: &Device) -> Vec<Vec<NfBlock>> {
    let build = |place: Place| NfBlock::new(place, form(place), device);
    places.into_iter().map(|stage| stage.into_iter().map(build).collect()).collect()
}

/// Runs all blocks.
pub(crate) fn forward_stages(stages: &[Vec<NfBlock>], x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
    stages.iter().flatten().fold(x, |x, block| block.forward(x, kinks))
}
