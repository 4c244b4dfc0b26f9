//! Dropout whose mask is a function of a seed and an element's position.
//!
//! `y_i = x_i f_i` and `dx_i = dy_i f_i`, where `f_i` is 0 with the dropout's probability `p` and `1 / (1 - p)`
//! otherwise. `f_i` is recomputed in the backward pass instead of being stored.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::{Tensor, TensorData};

use crate::autodiff::backward;
use crate::backend::{FlexTensor, use_kernels};
use crate::elementwise::{Source, transform};
use crate::simd::vectorized;

/// A dropout: each element is zeroed with `probability`, the others are scaled by `1 / (1 - probability)`.
///
/// Whether element `i` is kept depends on `seed` and `i` alone: the mask is the same for any number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Probability of zeroing an element, in `[0, 1)`.
    pub probability: f32,
    /// Seed of the mask.
    pub seed: u64,
}

impl Dropout {
    /// What element `i` is multiplied by: 0 or `1 / (1 - probability)`.
    #[inline(always)]
    pub(crate) fn factor(&self, i: u64) -> f32 {
        // SplitMix64 at position i of the stream that starts at the seed; 24 uniform bits decide.
        let mut z = self.seed.wrapping_add((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let uniform = ((z ^ (z >> 31)) >> 40) as u32 as f32 * (1.0 / 16_777_216.0);
        if uniform < self.probability { 0.0 } else { 1.0 / (1.0 - self.probability) }
    }

    /// Panics unless the probability is one.
    pub(crate) fn check(&self, operation: &str) {
        assert!(
            (0.0..1.0).contains(&self.probability),
            "{operation}: probability {} is not in [0, 1)",
            self.probability
        );
    }
}

/// Applies `drop` to `x`.
///
/// # Panics
/// If `x` is empty or the probability is not in `[0, 1)`.
pub fn dropout<const D: usize>(x: Tensor<D>, drop: Dropout) -> Tensor<D> {
    assert!(x.shape().num_elements() > 0, "dropout: empty input {:?}", x.dims());
    drop.check("dropout");
    if use_kernels(&x) {
        Tensor::from_dispatch(<Dispatch as DropoutOps>::seeded_dropout(x.into_dispatch(), drop))
    } else {
        plain(x, drop)
    }
}

/// The same in burn's own operations.
fn plain<const D: usize>(x: Tensor<D>, drop: Dropout) -> Tensor<D> {
    let shape = x.shape();
    let factors: Vec<f32> = (0..shape.num_elements() as u64).map(|i| drop.factor(i)).collect();
    let mask = Tensor::from_data(TensorData::new(factors, shape), &x.device().inner());
    x * Tensor::from_inner(mask)
}

vectorized! {
    /// Writes `x`, which begins at element `start`, times its factors.
    pub(crate) fn drop_values(x: Source, y: &mut [f32], drop: Dropout, start: u64) {
        match x {
            Some(x) => (start..).zip(y.iter_mut().zip(x)).for_each(|(i, (y, x))| *y = x * drop.factor(i)),
            None => (start..).zip(y).for_each(|(i, y)| *y *= drop.factor(i)),
        }
    }
}

/// `x` with `drop` applied, in place if nothing else refers to it.
fn drop_tensor(x: FlexTensor, drop: Dropout) -> FlexTensor {
    transform(x, |start, x, y| drop_values(x, y, drop, start as u64))
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait DropoutOps: Backend {
    fn seeded_dropout(x: FloatTensor<Self>, drop: Dropout) -> FloatTensor<Self>;
}

impl DropoutOps for Flex {
    fn seeded_dropout(x: FlexTensor, drop: Dropout) -> FlexTensor {
        drop_tensor(x, drop)
    }
}

impl<C: CheckpointStrategy> DropoutOps for Autodiff<Flex, C> {
    fn seeded_dropout(x: FloatTensor<Self>, drop: Dropout) -> FloatTensor<Self> {
        match DropoutBackward.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(drop, drop_tensor(x.into_primitive(), drop)),
            OpsKind::UnTracked(prep) => prep.finish(drop_tensor(x.into_primitive(), drop)),
        }
    }
}

#[derive(Debug)]
struct DropoutBackward;

impl Backward<Flex, 1> for DropoutBackward {
    type State = Dropout;

    fn backward(self, ops: Ops<Dropout, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        backward(ops, grads, |drop, d, _| [Some(drop_tensor(d, drop))]);
    }
}
