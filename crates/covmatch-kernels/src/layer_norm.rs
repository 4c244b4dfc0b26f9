//! Layer normalisation over the last dimension.
//!
//! With `h = (x - mean) / sqrt(var + eps)` for each row of `d` values, `y = gamma h + beta`, and with `g = gamma dy`:
//! ```text
//! dx     = (g - mean(g) - h mean(g h)) / sqrt(var + eps)
//! dgamma = sum over rows of dy h
//! dbeta  = sum over rows of dy
//! ```
//! Kept for the gradient: `x` (or `x + residual`, computed in the place of `x` where nothing else refers to it), and
//! each row's mean and `1 / sqrt(var + eps)`.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::autodiff::{Autodiff, NodeId};
use burn::backend::{Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::{Tensor, module};

use crate::add::add_tensors;
use crate::autodiff::backward;
use crate::backend::{FlexTensor, contiguous, tensor, use_kernels, values};
use crate::elementwise::{Source, map3, transform_rows};
use crate::math::{fold, mul_add};
use crate::simd::vectorized;

/// `(x - mean) / sqrt(var + eps) * gamma + beta` over the last dimension, with the biased variance.
///
/// `gamma` and `beta` have the size of `x`'s last dimension.
///
/// # Panics
/// If `x` is empty or the sizes do not fit together.
pub fn layer_norm<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, beta: Tensor<1>, eps: f32) -> Tensor<D> {
    check("layer_norm", &x, &gamma, &beta);
    if use_kernels(&x) {
        let (x, gamma, beta) = (x.into_dispatch(), gamma.into_dispatch(), beta.into_dispatch());
        Tensor::from_dispatch(<Dispatch as LayerNormOps>::norm(x, gamma, beta, eps))
    } else {
        plain(x, gamma, beta, eps)
    }
}

/// `layer_norm(x + residual)`: the end of a transformer's sub-layer; one tensor is kept for both gradients.
///
/// # Panics
/// If `x` is empty or the sizes do not fit together.
pub fn add_layer_norm<const D: usize>(
    x: Tensor<D>,
    residual: Tensor<D>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    eps: f32,
) -> Tensor<D> {
    check("add_layer_norm", &x, &gamma, &beta);
    assert_eq!(x.dims(), residual.dims(), "add_layer_norm: the shapes of x and residual differ");
    if use_kernels(&x) {
        let (x, residual) = (x.into_dispatch(), residual.into_dispatch());
        let (gamma, beta) = (gamma.into_dispatch(), beta.into_dispatch());
        Tensor::from_dispatch(<Dispatch as LayerNormOps>::add_norm(x, residual, gamma, beta, eps))
    } else {
        plain(x + residual, gamma, beta, eps)
    }
}

fn check<const D: usize>(operation: &str, x: &Tensor<D>, gamma: &Tensor<1>, beta: &Tensor<1>) {
    let shape = x.dims();
    assert!(x.shape().num_elements() > 0, "{operation}: empty input {shape:?}");
    assert_eq!(gamma.dims(), [shape[D - 1]], "{operation}: gamma does not fit input {shape:?}");
    assert_eq!(beta.dims(), [shape[D - 1]], "{operation}: beta does not fit input {shape:?}");
}

/// The normalisation in burn's own operations.
fn plain<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, beta: Tensor<1>, eps: f32) -> Tensor<D> {
    module::layer_norm(x, gamma, Some(beta), f64::from(eps))
}

/// A row's mean and `1 / sqrt(var + eps)`.
#[derive(Clone, Copy, Debug)]
struct Moments {
    mean: f32,
    rstd: f32,
}

/// The normalised rows and their moments.
fn forward(x: FlexTensor, gamma: FlexTensor, beta: FlexTensor, eps: f32) -> (FlexTensor, Vec<Moments>) {
    let (gamma, beta) = (contiguous(gamma), contiguous(beta));
    let (gamma, beta) = (values(&gamma), values(&beta));
    let (y, moments) = transform_rows(x, gamma.len(), Vec::new, |moments, _, x, y| {
        moments.push(normalize(x, y, gamma, beta, eps));
    });
    (y, moments.concat())
}

/// The gradient of `x`, and those of `gamma` and `beta` if asked for.
fn gradients(saved: &Saved, x: FlexTensor, dy: FlexTensor, parameters: bool) -> (FlexTensor, Option<[FlexTensor; 2]>) {
    let (x, gamma) = (contiguous(x), contiguous(saved.gamma.clone()));
    let (x, gamma) = (values(&x), values(&gamma));
    let d = gamma.len();
    let start = || vec![0.0; if parameters { 2 * d } else { 0 }]; // [dgamma, dbeta]
    let (dx, partial_sums) = transform_rows(dy, d, start, |sums: &mut Vec<f32>, i, dy, dx| {
        let (x, moments) = (&x[i * d..(i + 1) * d], saved.moments[i]);
        if parameters {
            let (dgamma, dbeta) = sums.split_at_mut(d);
            add_parameter_gradients(x, moments, dy.unwrap_or(dx), dgamma, dbeta);
        }
        input_gradient(dy, x, moments, gamma, dx);
    });
    let parameters = parameters.then(|| {
        let sum = partial_sums.into_iter().reduce(|mut a, b| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        });
        let mut dgamma = sum.unwrap_or_else(|| vec![0.0; 2 * d]);
        let dbeta = dgamma.split_off(d);
        [tensor(dgamma, &[d]), tensor(dbeta, &[d])]
    });
    (dx, parameters)
}

vectorized! {
    /// Writes the normalised values of a row.
    fn normalize(source: Source, y: &mut [f32], gamma: &[f32], beta: &[f32], eps: f32) -> Moments {
        let x: &[f32] = source.unwrap_or(y);
        let scale = 1.0 / x.len() as f32;
        let mean = sum(x, x, x, |x, _, _| x) * scale;
        let var = sum(x, x, x, |x, _, _| (x - mean) * (x - mean)) * scale;
        let rstd = 1.0 / (var + eps).sqrt();
        map3(source, gamma, beta, y, |x, gamma, beta| mul_add::<FMA>((x - mean) * rstd, gamma, beta));
        Moments { mean, rstd }
    }
}

vectorized! {
    /// Writes the gradient of a row of `x`.
    fn input_gradient(source: Source, x: &[f32], moments: Moments, gamma: &[f32], dx: &mut [f32]) {
        let Moments { mean, rstd } = moments;
        let dy: &[f32] = source.unwrap_or(dx);
        let scale = 1.0 / x.len() as f32;
        let mean_g = sum(dy, gamma, x, |dy, gamma, _| dy * gamma) * scale;
        let mean_gh = sum(dy, gamma, x, |dy, gamma, x| dy * gamma * ((x - mean) * rstd)) * scale;
        map3(source, gamma, x, dx, |dy, gamma, x| {
            rstd * mul_add::<FMA>((mean - x) * rstd, mean_gh, mul_add::<FMA>(dy, gamma, -mean_g))
        });
    }
}

vectorized! {
    /// Adds a row's share to the gradients of `gamma` and `beta`.
    fn add_parameter_gradients(x: &[f32], moments: Moments, dy: &[f32], dgamma: &mut [f32], dbeta: &mut [f32]) {
        let Moments { mean, rstd } = moments;
        for (((x, dy), dgamma), dbeta) in x.iter().zip(dy).zip(dgamma).zip(dbeta) {
            *dgamma = mul_add::<FMA>(*dy, (x - mean) * rstd, *dgamma);
            *dbeta += dy;
        }
    }
}

/// The sum of `term(a_i, b_i, c_i)`, in 32 interleaved partial sums that vector registers hold.
#[inline(always)]
pub(crate) fn sum(a: &[f32], b: &[f32], c: &[f32], term: impl Fn(f32, f32, f32) -> f32) -> f32 {
    const LANES: usize = 32;
    let mut lanes = [0.0; LANES];
    let ((a, a_rest), (b, b_rest), (c, c_rest)) =
        (a.as_chunks::<LANES>(), b.as_chunks::<LANES>(), c.as_chunks::<LANES>());
    for ((a, b), c) in a.iter().zip(b).zip(c) {
        for i in 0..LANES {
            lanes[i] += term(a[i], b[i], c[i]);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).zip(c_rest).map(|((a, b), c)| term(*a, *b, *c)).sum();
    fold(lanes, |a, b| a + b) + rest
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait LayerNormOps: Backend {
    fn norm(x: FloatTensor<Self>, gamma: FloatTensor<Self>, beta: FloatTensor<Self>, eps: f32) -> FloatTensor<Self>;

    fn add_norm(
        x: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        eps: f32,
    ) -> FloatTensor<Self>;
}

impl LayerNormOps for Flex {
    fn norm(x: FlexTensor, gamma: FlexTensor, beta: FlexTensor, eps: f32) -> FlexTensor {
        forward(x, gamma, beta, eps).0
    }

    fn add_norm(x: FlexTensor, residual: FlexTensor, gamma: FlexTensor, beta: FlexTensor, eps: f32) -> FlexTensor {
        forward(add_tensors(x, residual), gamma, beta, eps).0
    }
}

impl<C: CheckpointStrategy> LayerNormOps for Autodiff<Flex, C> {
    fn norm(x: FloatTensor<Self>, gamma: FloatTensor<Self>, beta: FloatTensor<Self>, eps: f32) -> FloatTensor<Self> {
        let prep = LayerNormBackward.prepare::<C>([x.node(), gamma.node(), beta.node()]).compute_bound();
        match prep.stateful() {
            OpsKind::Tracked(mut prep) => {
                let input = Input::Node(prep.checkpoint(&x));
                let gamma = gamma.into_primitive();
                let (y, moments) = forward(x.into_primitive(), gamma.clone(), beta.into_primitive(), eps);
                prep.finish(Saved { input, gamma, moments }, y)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(Flex::norm(x.into_primitive(), gamma.into_primitive(), beta.into_primitive(), eps))
            }
        }
    }

    fn add_norm(
        x: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        eps: f32,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), residual.node(), gamma.node(), beta.node()];
        let sum = add_tensors(x.into_primitive(), residual.into_primitive());
        let (gamma, beta) = (gamma.into_primitive(), beta.into_primitive());
        match LayerNormBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (y, moments) = forward(sum.clone(), gamma.clone(), beta, eps);
                prep.finish(Saved { input: Input::Sum(sum), gamma, moments }, y)
            }
            OpsKind::UnTracked(prep) => prep.finish(forward(sum, gamma, beta, eps).0),
        }
    }
}

/// What the gradients are computed from.
#[derive(Clone, Debug)]
struct Saved {
    input: Input,
    gamma: FlexTensor,
    moments: Vec<Moments>,
}

/// What was normalised.
#[derive(Clone, Debug)]
enum Input {
    Node(NodeId),
    Sum(FlexTensor),
}

impl Input {
    fn retrieve(&self, checkpointer: &mut Checkpointer) -> FlexTensor {
        match self {
            Input::Node(id) => checkpointer.retrieve_node_output(*id),
            Input::Sum(sum) => sum.clone(),
        }
    }
}

#[derive(Debug)]
struct LayerNormBackward;

impl Backward<Flex, 3> for LayerNormBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        backward(ops, grads, |saved, dy, [_, gamma, beta]| {
            let x = saved.input.retrieve(checkpointer);
            let (dx, parameters) = gradients(&saved, x, dy, gamma || beta);
            let [dgamma, dbeta] = parameters.map_or([None, None], |p| p.map(Some));
            [Some(dx), dgamma, dbeta]
        });
    }
}

impl Backward<Flex, 4> for LayerNormBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 4>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        backward(ops, grads, |saved, dy, [_, _, gamma, beta]| {
            let x = saved.input.retrieve(checkpointer);
            let (dx, parameters) = gradients(&saved, x, dy, gamma || beta);
            let [dgamma, dbeta] = parameters.map_or([None, None], |p| p.map(Some));
            [Some(dx.clone()), Some(dx), dgamma, dbeta]
        });
    }
}
