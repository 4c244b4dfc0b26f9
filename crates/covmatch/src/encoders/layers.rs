//! The layers that encoders are made of.
//!
//! Activations are channels-last, `[n, h, w, c]`; weights have PyTorch's layout and names. Parameters are zero (scales
//! of norms: one) until weights are loaded, and take no memory before that.

use burn::module::{Module, Param, ParamId};
use burn::tensor::{Device, Shape, Tensor};
use covmatch_kernels as kernels;
use covmatch_kernels::{Conv2dOptions, Padding, Prologue};

use crate::encoders::kinks::{Kinks, Rectifier};
use crate::encoders::macs;

/// A trainable parameter, zero until loaded.
pub(crate) fn zeros<const D: usize>(shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
    lazy(shape, device, |shape, device| Tensor::zeros(shape, device), true)
}

/// A trainable parameter, one until loaded.
pub(crate) fn ones<const D: usize>(shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
    lazy(shape, device, |shape, device| Tensor::ones(shape, device), true)
}

fn lazy<const D: usize>(
    shape: [usize; D],
    device: &Device,
    value: fn([usize; D], &Device) -> Tensor<D>,
    trained: bool,
) -> Param<Tensor<D>> {
    let init = move |device: &Device, require_grad: bool| value(shape, device).set_require_grad(require_grad);
    Param::uninitialized(ParamId::new(), init, device.clone(), trained, Shape::from(shape))
}

/// The form of a convolution: channels, kernel and options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConvForm {
    inputs: usize,
    outputs: usize,
    kernel: usize,
    options: Conv2dOptions,
}

impl ConvForm {
    /// A convolution with a square `kernel`, stride 1 and `kernel / 2` zeros around the input.
    pub(crate) fn new(inputs: usize, outputs: usize, kernel: usize) -> Self {
        let options = Conv2dOptions { padding: Padding::Explicit(kernel / 2), ..Default::default() };
        Self { inputs, outputs, kernel, options }
    }

    /// The same with another stride.
    pub(crate) fn stride(mut self, stride: usize) -> Self {
        self.options.stride = stride;
        self
    }

    /// The same with other padding.
    pub(crate) fn padding(mut self, padding: Padding) -> Self {
        self.options.padding = padding;
        self
    }

    /// The same in `groups` independent groups of channels.
    pub(crate) fn groups(mut self, groups: usize) -> Self {
        self.options.groups = groups;
        self
    }

    fn weight_shape(&self) -> [usize; 4] {
        [self.outputs, self.inputs / self.options.groups, self.kernel, self.kernel]
    }
}

/// A convolution.
#[derive(Module, Debug)]
pub(crate) struct Conv2d {
    weight: Param<Tensor<4>>, // [out, in / groups, k, k]
    bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    options: Conv2dOptions,
}

impl Conv2d {
    /// With a bias.
    pub(crate) fn new(form: ConvForm, device: &Device) -> Self {
        Self { bias: Some(zeros([form.outputs], device)), ..Self::without_bias(form, device) }
    }

    /// Without a bias, as before a batch norm.
    pub(crate) fn without_bias(form: ConvForm, device: &Device) -> Self {
        Self { weight: zeros(form.weight_shape(), device), bias: None, options: form.options }
    }

    /// `[n, h, w, in]` to `[n, h', w', out]`, then `rectifier`.
    pub(crate) fn forward_rectified(&self, x: Tensor<4>, rectifier: Rectifier, kinks: &mut Kinks) -> Tensor<4> {
        let bias = self.bias.as_ref().map(Param::val);
        conv2d_rectified(x, self.weight.val(), bias, self.options, rectifier, kinks)
    }

    /// A 1x1 convolution applied to vectors: `[n, in]` to `[n, out]`.
    fn forward_vectors(&self, x: Tensor<2>) -> Tensor<2> {
        let [outputs, inputs, _, _] = self.weight.dims();
        linear(x, self.weight.val().reshape([outputs, inputs]), self.bias.as_ref().map(Param::val))
    }
}

/// A convolution whose weight is standardised on every use: zero mean and unit variance per output channel, times
/// `gain * gamma / sqrt(fan_in)` (Brock et al. 2021, <https://arxiv.org/abs/2101.08692>).
#[derive(Module, Debug)]
pub(crate) struct ScaledStdConv2d {
    weight: Param<Tensor<4>>, // [out, in / groups, k, k]
    bias: Param<Tensor<1>>,
    gain: Param<Tensor<4>>, // [out, 1, 1, 1]
    gamma: f32,
    #[module(skip)]
    options: Conv2dOptions,
}

impl ScaledStdConv2d {
    const EPS: f32 = 1e-5;

    pub(crate) fn new(form: ConvForm, gamma: f32, device: &Device) -> Self {
        Self {
            weight: zeros(form.weight_shape(), device),
            bias: zeros([form.outputs], device),
            gain: ones([form.outputs, 1, 1, 1], device),
            gamma,
            options: form.options,
        }
    }

    fn standardized(&self) -> Tensor<4> {
        kernels::standardize(self.weight.val(), self.gain.val(), self.gamma, Self::EPS)
    }

    /// `prologue`, then the convolution of `[n, h, w, in]` to `[n, h', w', out]`.
    pub(crate) fn forward(&self, x: Tensor<4>, prologue: Prologue) -> Tensor<4> {
        conv2d(x, self.standardized(), Some(self.bias.val()), Conv2dOptions { prologue, ..self.options })
    }

    /// The same, then `rectifier`.
    pub(crate) fn forward_rectified(
        &self,
        x: Tensor<4>,
        prologue: Prologue,
        rectifier: Rectifier,
        kinks: &mut Kinks,
    ) -> Tensor<4> {
        let options = Conv2dOptions { prologue, ..self.options };
        conv2d_rectified(x, self.standardized(), Some(self.bias.val()), options, rectifier, kinks)
    }

    /// `prologue`, then `scale` times the convolution; the factor goes into weight and bias, which are smaller than the
    /// activations.
    pub(crate) fn forward_scaled(&self, x: Tensor<4>, prologue: Prologue, scale: f32) -> Tensor<4> {
        let weight = kernels::standardize(self.weight.val(), self.gain.val(), self.gamma * scale, Self::EPS);
        conv2d(x, weight, Some(self.bias.val().mul_scalar(scale)), Conv2dOptions { prologue, ..self.options })
    }
}

/// Batch norm with frozen statistics and trainable scale and shift: the same in training and evaluation.
///
/// `y = weight * (x - running_mean) / sqrt(running_var + eps) + bias` per channel. It is never computed on activations
/// but folded into the convolution before it, see [`BatchNorm::fold`].
#[derive(Module, Debug)]
pub(crate) struct BatchNorm {
    weight: Param<Tensor<1>>,
    bias: Param<Tensor<1>>,
    running_mean: Param<Tensor<1>>, // never trained
    running_var: Param<Tensor<1>>,  // never trained
    eps: f32,
}

impl BatchNorm {
    pub(crate) fn new(channels: usize, eps: f32, device: &Device) -> Self {
        Self {
            weight: ones([channels], device),
            bias: zeros([channels], device),
            running_mean: lazy([channels], device, |shape, device| Tensor::zeros(shape, device), false),
            running_var: lazy([channels], device, |shape, device| Tensor::ones(shape, device), false),
            eps,
        }
    }

    /// The weight and bias of the one convolution that equals a convolution with `weight` and then this norm:
    /// `weight * s` per output channel and `bias - running_mean * s`, where `s = self.weight / sqrt(running_var + eps)`.
    pub(crate) fn fold<const D: usize>(&self, weight: Tensor<D>) -> (Tensor<D>, Tensor<1>) {
        let shape = weight.shape();
        let (outputs, fan_in) = (shape[0], shape.num_elements() / shape[0]);
        let scale = self.weight.val() / self.running_var.val().detach().add_scalar(self.eps).sqrt(); // [out]
        let bias = self.bias.val() - self.running_mean.val().detach() * scale.clone();
        let folded = weight.reshape([outputs, fan_in]) * scale.reshape([outputs, 1]);
        (folded.reshape(shape), bias)
    }
}

/// A convolution without bias and its batch norm, in one pass over the activations.
pub(crate) fn conv_bn(x: Tensor<4>, conv: &Conv2d, norm: &BatchNorm) -> Tensor<4> {
    let (weight, bias) = norm.fold(conv.weight.val());
    conv2d(x, weight, Some(bias), conv.options)
}

/// The same and `rectifier`, in one pass too.
pub(crate) fn conv_bn_rectified(
    x: Tensor<4>,
    conv: &Conv2d,
    norm: &BatchNorm,
    rectifier: Rectifier,
    kinks: &mut Kinks,
) -> Tensor<4> {
    let (weight, bias) = norm.fold(conv.weight.val());
    conv2d_rectified(x, weight, Some(bias), conv.options, rectifier, kinks)
}

/// Squeeze and excitation (Hu et al. 2018, <https://arxiv.org/abs/1709.01507>): a gate in (0, 1) for each channel of
/// each image, computed from the channels' means.
#[derive(Module, Debug)]
pub(crate) struct SqueezeExcite {
    fc1: Conv2d,
    fc2: Conv2d,
}

impl SqueezeExcite {
    pub(crate) fn new(channels: usize, reduced: usize, device: &Device) -> Self {
        Self {
            fc1: Conv2d::new(ConvForm::new(channels, reduced, 1), device),
            fc2: Conv2d::new(ConvForm::new(reduced, channels, 1), device),
        }
    }

    /// The gates `[n, c]` of `x` `[n, h, w, c]`.
    pub(crate) fn gate(&self, x: Tensor<4>, kinks: &mut Kinks) -> Tensor<2> {
        let squeezed = kinks.relu(self.fc1.forward_vectors(kernels::global_avg_pool(x)));
        kernels::sigmoid(self.fc2.forward_vectors(squeezed))
    }
}

/// A fully connected layer.
#[derive(Module, Debug)]
pub(crate) struct Linear {
    weight: Param<Tensor<2>>, // [out, in]
    bias: Param<Tensor<1>>,
}

impl Linear {
    pub(crate) fn new(inputs: usize, outputs: usize, device: &Device) -> Self {
        Self { weight: zeros([outputs, inputs], device), bias: zeros([outputs], device) }
    }

    /// With the given `weight` `[out, in]` and `bias` `[out]`.
    pub(crate) fn from_values(weight: Tensor<2>, bias: Tensor<1>) -> Self {
        Self { weight: Param::from_tensor(weight), bias: Param::from_tensor(bias) }
    }

    /// `[.., in]` to `[.., out]`.
    pub(crate) fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        linear(x, self.weight.val(), Some(self.bias.val()))
    }

    /// `[.., in]` to `parts` tensors `[.., out / parts]`, the equal slices of the output.
    ///
    /// The weight is sliced instead of the activations, which are larger.
    pub(crate) fn forward_split<const D: usize, const PARTS: usize>(&self, x: Tensor<D>) -> [Tensor<D>; PARTS] {
        let size = self.weight.dims()[0] / PARTS;
        let (weight, bias) = (self.weight.val(), self.bias.val());
        std::array::from_fn(|part| {
            let weight = weight.clone().narrow(0, part * size, size);
            let bias = bias.clone().narrow(0, part * size, size);
            linear(x.clone(), weight, Some(bias))
        })
    }
}

/// Layer norm over the last dimension.
#[derive(Module, Debug)]
pub(crate) struct LayerNorm {
    weight: Param<Tensor<1>>,
    bias: Param<Tensor<1>>,
    eps: f32,
}

impl LayerNorm {
    pub(crate) fn new(width: usize, eps: f32, device: &Device) -> Self {
        Self { weight: ones([width], device), bias: zeros([width], device), eps }
    }

    pub(crate) fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        kernels::layer_norm(x, self.weight.val(), self.bias.val(), self.eps)
    }

    /// The norm of `x + residual`.
    pub(crate) fn forward_sum<const D: usize>(&self, x: Tensor<D>, residual: Tensor<D>) -> Tensor<D> {
        kernels::add_layer_norm(x, residual, self.weight.val(), self.bias.val(), self.eps)
    }
}

/// A convolution that reports its multiply-adds.
fn conv2d(x: Tensor<4>, weight: Tensor<4>, bias: Option<Tensor<1>>, options: Conv2dOptions) -> Tensor<4> {
    let per_pixel = weight.shape().num_elements();
    let y = kernels::conv2d(x, weight, bias, options);
    let [n, h, w, _] = y.dims();
    macs::record((n * h * w * per_pixel) as u64);
    y
}

/// The same, then `rectifier`, as `kinks` says.
fn conv2d_rectified(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    options: Conv2dOptions,
    rectifier: Rectifier,
    kinks: &mut Kinks,
) -> Tensor<4> {
    kinks.rectified(rectifier, |epilogue| conv2d(x, weight, bias, Conv2dOptions { epilogue, ..options }))
}

/// A linear layer that reports its multiply-adds.
pub(crate) fn linear<const D: usize>(x: Tensor<D>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<D> {
    let rows = x.shape().num_elements() / weight.dims()[1];
    macs::record((rows * weight.shape().num_elements()) as u64);
    kernels::linear(x, weight, bias)
}

/// `[n, 3, h, w]` to `[n, h, w, 3]`.
pub(crate) fn channels_last(pixels: Tensor<4>) -> Tensor<4> {
    pixels.permute([0, 2, 3, 1])
}
