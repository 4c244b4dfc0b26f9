//! Elementwise activations.
//!
//! With incoming gradient `d` and `s = sigmoid(x)`:
//!
//! | | value | gradient | kept for it |
//! |---|---|---|---|
//! | `silu` | `scale x s` | `d scale s (1 + x (1 - s))` | `x` |
//! | `gelu` | `x Phi(x)` | `d (Phi(x) + x phi(x))` | `x` |
//! | `relu` | `max(x, 0)` | `d [y > 0]` | `y` |
//! | `relu6` | `min(max(x, 0), 6)` | `d [0 < y < 6]` | `y` |
//! | `sigmoid` | `s` | `d y (1 - y)` | `y` |
//!
//! Values overwrite `x` and gradients overwrite `d` when nothing else refers to them. NaN stays NaN.

use std::f32::consts::{FRAC_1_SQRT_2, SQRT_2};

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::retro_forward::RetroForward;
use burn::backend::autodiff::checkpoint::state::BackwardStates;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::autodiff::{Autodiff, NodeId};
use burn::backend::{Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::{Tensor, activation};

use crate::autodiff::backward;
use crate::backend::{FlexTensor, contiguous, use_kernels, values};
use crate::elementwise::{Source, map, map2, transform};
use crate::math::{self, clamp};
use crate::simd::vectorized;

/// `scale * x * sigmoid(x)`, the scaled SiLU of normaliser-free networks.
///
/// # Panics
/// If `x` is empty.
pub fn silu<const D: usize>(x: Tensor<D>, scale: f32) -> Tensor<D> {
    Activation::Silu { scale }.of(x)
}

/// `x * Phi(x)` with the exact normal distribution function (erf), as BERT uses it.
///
/// # Panics
/// If `x` is empty.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Activation::Gelu.of(x)
}

/// `max(x, 0)`.
///
/// # Panics
/// If `x` is empty.
pub fn relu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Activation::Relu.of(x)
}

/// `min(max(x, 0), 6)`.
///
/// # Panics
/// If `x` is empty.
pub fn relu6<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Activation::Relu6.of(x)
}

/// `1 / (1 + exp(-x))`.
///
/// # Panics
/// If `x` is empty.
pub fn sigmoid<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Activation::Sigmoid.of(x)
}

/// An elementwise function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Activation {
    Silu { scale: f32 },
    Gelu,
    Relu,
    Relu6,
    Sigmoid,
}

impl Activation {
    fn name(self) -> &'static str {
        match self {
            Activation::Silu { .. } => "silu",
            Activation::Gelu => "gelu",
            Activation::Relu => "relu",
            Activation::Relu6 => "relu6",
            Activation::Sigmoid => "sigmoid",
        }
    }

    fn of<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        assert!(x.shape().num_elements() > 0, "{}: empty input {:?}", self.name(), x.dims());
        if use_kernels(&x) {
            Tensor::from_dispatch(<Dispatch as ActivationOps>::activate(x.into_dispatch(), self))
        } else {
            self.plain(x)
        }
    }

    /// The function in burn's own operations.
    fn plain<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Activation::Silu { scale } => activation::silu(x).mul_scalar(scale),
            // Not burn's `gelu`, whose gradient is that of the tanh approximation.
            Activation::Gelu => x.clone() * x.div_scalar(SQRT_2).erf().add_scalar(1.0).mul_scalar(0.5),
            Activation::Relu => activation::relu(x),
            Activation::Relu6 => activation::relu(x).clamp_max(6.0),
            Activation::Sigmoid => activation::sigmoid(x),
        }
    }

    /// Whether the gradient is computed from the result, which the next operation mostly keeps anyway.
    fn gradient_needs_output(self) -> bool {
        matches!(self, Activation::Relu | Activation::Relu6 | Activation::Sigmoid)
    }

    /// Writes the function's values to `y`.
    fn values(self, x: Source, y: &mut [f32]) {
        match self {
            Activation::Silu { scale } => silu_values(x, y, scale),
            Activation::Gelu => gelu_values(x, y),
            Activation::Relu => clamp_values(x, y, f32::INFINITY),
            Activation::Relu6 => clamp_values(x, y, 6.0),
            Activation::Sigmoid => sigmoid_values(x, y),
        }
    }

    /// `d` times the derivative; `saved` is the input or, if [`Self::gradient_needs_output`], the result.
    pub(crate) fn backward(self, d: FlexTensor, saved: FlexTensor) -> FlexTensor {
        let saved = contiguous(saved);
        let saved = values(&saved);
        transform(d, |start, d, dx| self.gradient(d, &saved[start..start + dx.len()], dx))
    }

    /// Writes `d` times the derivative; `saved` is the input or, if [`Self::gradient_needs_output`], the result.
    fn gradient(self, d: Source, saved: &[f32], dx: &mut [f32]) {
        match self {
            Activation::Silu { scale } => silu_gradient(d, saved, dx, scale),
            Activation::Gelu => gelu_gradient(d, saved, dx),
            Activation::Relu => clamp_gradient(d, saved, dx, f32::INFINITY),
            Activation::Relu6 => clamp_gradient(d, saved, dx, 6.0),
            Activation::Sigmoid => sigmoid_gradient(d, saved, dx),
        }
    }
}

vectorized! {
    fn silu_values(x: Source, y: &mut [f32], scale: f32) {
        map(x, y, |x| scale * x * math::sigmoid::<FMA>(x));
    }
}

vectorized! {
    fn silu_gradient(d: Source, x: &[f32], dx: &mut [f32], scale: f32) {
        map2(d, x, dx, |d, x| {
            let s = math::sigmoid::<FMA>(x);
            d * scale * s * math::mul_add::<FMA>(x, 1.0 - s, 1.0)
        });
    }
}

vectorized! {
    fn gelu_values(x: Source, y: &mut [f32]) {
        map(x, y, |x| {
            let a = clamp(x.abs(), 0.0, math::NORMAL_LIMIT);
            let (_, tail) = math::normal_tail::<FMA>(a);
            // x Phi(x) = max(x, 0) - |x| Phi(-|x|): no cancellation on either side.
            let positive = if x < 0.0 { 0.0 } else { x };
            math::mul_add::<FMA>(-a, tail, positive)
        });
    }
}

vectorized! {
    fn gelu_gradient(d: Source, x: &[f32], dx: &mut [f32]) {
        const FRAC_1_SQRT_TAU: f32 = FRAC_1_SQRT_2 * 0.564_189_6; // 1 / sqrt(2 pi)
        map2(d, x, dx, |d, x| {
            let x = clamp(x, -math::NORMAL_LIMIT, math::NORMAL_LIMIT);
            let (density, tail) = math::normal_tail::<FMA>(x.abs());
            let cumulative = if x < 0.0 { tail } else { 1.0 - tail };
            d * math::mul_add::<FMA>(x * FRAC_1_SQRT_TAU, density, cumulative)
        });
    }
}

vectorized! {
    fn clamp_values(x: Source, y: &mut [f32], high: f32) {
        map(x, y, |x| clamp(x, 0.0, high));
    }
}

vectorized! {
    fn clamp_gradient(d: Source, y: &[f32], dx: &mut [f32], high: f32) {
        map2(d, y, dx, |d, y| if y <= 0.0 || y >= high { 0.0 } else { d });
    }
}

vectorized! {
    fn sigmoid_values(x: Source, y: &mut [f32]) {
        map(x, y, math::sigmoid::<FMA>);
    }
}

vectorized! {
    fn sigmoid_gradient(d: Source, y: &[f32], dx: &mut [f32]) {
        map2(d, y, dx, |d, y| d * y * (1.0 - y));
    }
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait ActivationOps: Backend {
    fn activate(x: FloatTensor<Self>, f: Activation) -> FloatTensor<Self>;
}

impl ActivationOps for Flex {
    fn activate(x: FlexTensor, f: Activation) -> FlexTensor {
        transform(x, |_, x, y| f.values(x, y))
    }
}

impl<C: CheckpointStrategy> ActivationOps for Autodiff<Flex, C> {
    fn activate(x: FloatTensor<Self>, f: Activation) -> FloatTensor<Self> {
        let prep = ActivationBackward.prepare::<C>([x.node()]);
        let prep = if f.gradient_needs_output() {
            prep.compute_bound()
        } else {
            prep.memory_bound().retro_forward(Recompute { x: x.id(), f }).parents([&x])
        };
        match prep.stateful() {
            OpsKind::Tracked(prep) if f.gradient_needs_output() => {
                let y = Flex::activate(x.into_primitive(), f);
                prep.finish((f, Saved::Output(y.clone())), y)
            }
            OpsKind::Tracked(mut prep) => {
                let saved = Saved::Input(prep.checkpoint(&x));
                prep.finish((f, saved), Flex::activate(x.into_primitive(), f))
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::activate(x.into_primitive(), f)),
        }
    }
}

/// What the gradient is computed from.
#[derive(Clone, Debug)]
enum Saved {
    Input(NodeId),
    Output(FlexTensor),
}

/// Repeats the forward pass for burn's gradient checkpointing.
#[derive(Debug)]
struct Recompute {
    x: NodeId,
    f: Activation,
}

impl RetroForward for Recompute {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let x = states.get_state::<FlexTensor>(&self.x);
        states.save(out_node, Flex::activate(x, self.f));
    }
}

#[derive(Debug)]
struct ActivationBackward;

impl Backward<Flex, 1> for ActivationBackward {
    type State = (Activation, Saved);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        backward(ops, grads, |(f, saved), d, _| {
            let saved = match saved {
                Saved::Input(x) => checkpointer.retrieve_node_output(x),
                Saved::Output(y) => y,
            };
            [Some(f.backward(d, saved))]
        });
    }
}
