//! Two-dimensional convolution of channels-last activations.
//!
//! On Flex the shape decides how a call is computed ([`kernels`]); [`attach`] ties the kernels to burn's autodiff.

mod attach;
mod depthwise;
#[cfg(target_arch = "x86_64")]
mod direct;
mod geometry;
mod kernels;
#[cfg(target_arch = "x86_64")]
mod packed;
mod patches;
#[cfg(target_arch = "x86_64")]
mod units;
#[cfg(target_arch = "x86_64")]
mod winograd;

use burn::tensor::{Tensor, activation, module, ops::ConvOptions};

use crate::backend::use_kernels;
use geometry::Geometry;

/// How the borders of the input are padded with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// This many rows and columns on every side.
    Explicit(usize),
    /// TensorFlow's SAME: an output of `ceil(size / stride)`, the odd row or column of padding below and right.
    Same,
}

impl Padding {
    /// Zeros (before, after) one dimension of `size` for a kernel of `k`.
    pub(crate) fn amounts(self, size: usize, k: usize, stride: usize) -> (usize, usize) {
        match self {
            Padding::Explicit(p) => (p, p),
            Padding::Same => {
                let total = ((size.div_ceil(stride) - 1) * stride + k).saturating_sub(size);
                (total / 2, total - total / 2)
            }
        }
    }
}

/// What is applied to the convolution's input before it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prologue {
    /// Nothing.
    #[default]
    None,
    /// `x * sigmoid(x)`. It is computed again in the backward pass, so only `x` is kept for it.
    Silu,
}

/// What is applied to the convolution's result before it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Epilogue {
    /// Nothing.
    #[default]
    None,
    /// `max(y, 0)`.
    Relu,
    /// `min(max(y, 0), 6)`.
    Relu6,
}

/// Options of [`conv2d`]. The kernel is square and so is the stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dOptions {
    /// Step between two output pixels.
    pub stride: usize,
    /// Zeros around the input.
    pub padding: Padding,
    /// Input and output channels are split into this many independent groups.
    pub groups: usize,
    /// Applied to the input.
    pub prologue: Prologue,
    /// Applied to the result.
    pub epilogue: Epilogue,
}

impl Default for Conv2dOptions {
    fn default() -> Self {
        Self { stride: 1, padding: Padding::Explicit(0), groups: 1, prologue: Prologue::None, epilogue: Epilogue::None }
    }
}

/// Convolution `[n, h, w, c_in]` to `[n, h', w', c_out]`; `weight` `[c_out, c_in / groups, k, k]`, `bias` `[c_out]`.
///
/// # Panics
/// If the batch is empty, the kernel is not square or does not fit the padded image, or the channels of `x`, `weight`
/// and `bias` do not fit each other.
pub fn conv2d(x: Tensor<4>, weight: Tensor<4>, bias: Option<Tensor<1>>, options: Conv2dOptions) -> Tensor<4> {
    let geometry = Geometry::new(x.dims(), weight.dims(), options);
    if let Some(bias) = &bias {
        let [len] = bias.dims();
        assert_eq!(len, geometry.co, "conv2d: {len} biases for {} output channels", geometry.co);
    }
    if use_kernels(&x) { attach::conv2d(x, weight, bias, options) } else { plain(x, weight, bias, options) }
}

/// The convolution in burn's own operations.
fn plain(x: Tensor<4>, weight: Tensor<4>, bias: Option<Tensor<1>>, options: Conv2dOptions) -> Tensor<4> {
    let ([_, h, w, _], k, s) = (x.dims(), weight.dims()[2], options.stride);
    let ((top, bottom), (left, right)) = (options.padding.amounts(h, k, s), options.padding.amounts(w, k, s));
    let x = match options.prologue {
        Prologue::None => x,
        Prologue::Silu => activation::silu(x),
    };
    let x = x.permute([0, 3, 1, 2]);
    let (x, pad) = if top == bottom && left == right {
        (x, [top, left])
    } else {
        (x.pad((left, right, top, bottom), 0.0), [0, 0])
    };
    let y = module::conv2d(x, weight, bias, ConvOptions::new([s, s], pad, [1, 1], options.groups));
    let y = match options.epilogue {
        Epilogue::None => y,
        Epilogue::Relu => y.clamp_min(0.0),
        Epilogue::Relu6 => y.clamp(0.0, 6.0),
    };
    y.permute([0, 2, 3, 1])
}
