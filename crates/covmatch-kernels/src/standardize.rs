//! Scaled weight standardisation of normaliser-free networks (Brock et al. 2021, "Characterizing signal propagation to
//! close the performance gap in unnormalized ResNets").
//!
//! For each output channel, with `N = fan_in`, `z = (w - mean) / sqrt(var + eps)` and `s = gain gamma / sqrt(N)`:
//!
//! ```text
//! y      = s z
//! d_gain = gamma / sqrt(N) sum(d z)
//! d_w    = s / sqrt(var + eps) (d - mean(d) - z mean(d z))
//! ```

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::autodiff::{Autodiff, NodeId};
use burn::backend::{Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::autodiff::backward;
use crate::backend::{FlexTensor, contiguous, dims, tensor, use_kernels, values};
use crate::elementwise::overwrite_rows;
use crate::layer_norm::sum;
use crate::simd::vectorized;

/// `(w - mean) / sqrt(var + eps) * gain * gamma / sqrt(fan_in)` per output channel, with the biased variance.
///
/// `weight` `[out, in, k, k]`, `gain` `[out, 1, 1, 1]`, `fan_in = in * k * k`; `gamma` makes up for the activation.
///
/// # Panics
/// If the weight is empty or the gain has another shape.
pub fn standardize(weight: Tensor<4>, gain: Tensor<4>, gamma: f32, eps: f32) -> Tensor<4> {
    let [out, i, kh, kw] = weight.dims();
    assert!(weight.shape().num_elements() > 0, "standardize: empty weight {:?}", weight.dims());
    assert_eq!(gain.dims(), [out, 1, 1, 1], "standardize: shape of the gain");
    if use_kernels(&weight) {
        let (weight, gain) = (weight.into_dispatch(), gain.into_dispatch());
        return Tensor::from_dispatch(<Dispatch as StandardizeOps>::standardize_rows(weight, gain, gamma, eps));
    }
    let fan_in = i * kh * kw;
    let w = weight.reshape([out, fan_in]);
    let centred = w.clone() - w.mean_dim(1);
    let var = centred.clone().powi_scalar(2).mean_dim(1);
    let scale = gain.reshape([out, 1]).mul_scalar(gamma / (fan_in as f32).sqrt()) / var.add_scalar(eps).sqrt();
    (centred * scale).reshape([out, i, kh, kw])
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait StandardizeOps: Backend {
    fn standardize_rows(weight: FloatTensor<Self>, gain: FloatTensor<Self>, gamma: f32, eps: f32) -> FloatTensor<Self>;
}

impl StandardizeOps for Flex {
    fn standardize_rows(weight: FlexTensor, gain: FlexTensor, gamma: f32, eps: f32) -> FlexTensor {
        forward(weight, gain, gamma, eps)
    }
}

/// Weights of an output channel.
fn fan_in(weight: &FlexTensor) -> usize {
    dims(weight)[1..].iter().product()
}

fn forward(weight: FlexTensor, gain: FlexTensor, gamma: f32, eps: f32) -> FlexTensor {
    let (n, gain) = (fan_in(&weight), contiguous(gain));
    let gamma = gamma / (n as f32).sqrt();
    overwrite_rows(weight, n, || (), |(), out, w| scale_row(w, values(&gain)[out] * gamma, eps)).0
}

/// A row's mean and `1 / sqrt(var + eps)`.
#[inline(always)]
fn moments(w: &[f32], eps: f32) -> (f32, f32) {
    let scale = 1.0 / w.len() as f32;
    let mean = sum(w, w, w, |w, _, _| w) * scale;
    let var = sum(w, w, w, |w, _, _| (w - mean) * (w - mean)) * scale;
    (mean, 1.0 / (var + eps).sqrt())
}

vectorized! {
    /// Overwrites a row with `s z`.
    fn scale_row(w: &mut [f32], s: f32, eps: f32) {
        let (mean, rstd) = moments(w, eps);
        let scale = s * rstd;
        w.iter_mut().for_each(|w| *w = (*w - mean) * scale);
    }
}

vectorized! {
    /// Overwrites a row of the gradient `d` with that of the weight; returns `sum(d z)`.
    fn row_gradient(d: &mut [f32], w: &[f32], s: f32, eps: f32) -> f32 {
        let (mean, rstd) = moments(w, eps);
        let scale = 1.0 / w.len() as f32;
        let mean_d = sum(d, d, d, |d, _, _| d) * scale;
        let sum_dz = sum(d, w, w, |d, w, _| d * ((w - mean) * rstd));
        for (d, w) in d.iter_mut().zip(w) {
            let z = (w - mean) * rstd;
            *d = s * rstd * (*d - mean_d - z * (sum_dz * scale));
        }
        sum_dz
    }
}

/// What the backward pass needs.
#[derive(Clone, Debug)]
struct Saved {
    weight: NodeId,
    gain: FlexTensor,
    gamma: f32,
    eps: f32,
}

impl<C: CheckpointStrategy> StandardizeOps for Autodiff<Flex, C> {
    fn standardize_rows(weight: FloatTensor<Self>, gain: FloatTensor<Self>, gamma: f32, eps: f32) -> FloatTensor<Self> {
        match StandardizeBackward.prepare::<C>([weight.node(), gain.node()]).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let saved = Saved { weight: prep.checkpoint(&weight), gain: gain.primitive().clone(), gamma, eps };
                prep.finish(saved, forward(weight.into_primitive(), gain.into_primitive(), gamma, eps))
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(forward(weight.into_primitive(), gain.into_primitive(), gamma, eps))
            }
        }
    }
}

#[derive(Debug)]
struct StandardizeBackward;

impl Backward<Flex, 2> for StandardizeBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        backward(ops, grads, |saved, d, [weight_tracked, gain_tracked]| {
            let weight = contiguous(checkpointer.retrieve_node_output::<FlexTensor>(saved.weight));
            let (n, gain) = (fan_in(&weight), contiguous(saved.gain));
            let gamma = saved.gamma / (n as f32).sqrt();
            let (dw, sums) = overwrite_rows(d, n, Vec::new, |sums, out, d| {
                let w = &values(&weight)[out * n..][..n];
                sums.push(row_gradient(d, w, values(&gain)[out] * gamma, saved.eps) * gamma);
            });
            let d_gain = gain_tracked.then(|| tensor(sums.concat(), &dims(&gain)));
            [weight_tracked.then_some(dw), d_gain]
        });
    }
}
