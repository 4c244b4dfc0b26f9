//! One step of stochastic gradient descent with momentum and weight decay, as PyTorch's `SGD` takes it.
//!
//! ```text
//! v <- momentum v + g + weight_decay x
//! x <- x - lr v
//! ```
//! One pass over memory makes both updates, in place when nothing else refers to the values.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Backend, Dispatch, ExtensionType, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;
use rayon::prelude::*;

use crate::backend::{FlexTensor, contiguous, dims, tensor, use_kernels, values, values_mut};
use crate::elementwise::CHUNK;
use crate::simd::vectorized;

/// The rates of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdRates {
    /// Learning rate.
    pub lr: f32,
    /// How much of the velocity is kept from step to step.
    pub momentum: f32,
    /// How strongly values are pulled towards zero.
    pub weight_decay: f32,
}

/// `x` and its velocity after a step along `gradient`; before the first step there is no velocity.
///
/// The tensors are values, not parts of an autodiff graph.
///
/// # Panics
/// If the shapes differ or are empty.
pub fn sgd_step<const D: usize>(
    x: Tensor<D>,
    gradient: Tensor<D>,
    velocity: Option<Tensor<D>>,
    rates: SgdRates,
) -> (Tensor<D>, Tensor<D>) {
    assert_eq!(x.dims(), gradient.dims(), "sgd_step: the gradient has another shape");
    assert!(x.shape().num_elements() > 0, "sgd_step: empty input {:?}", x.dims());
    if let Some(velocity) = &velocity {
        assert_eq!(x.dims(), velocity.dims(), "sgd_step: the velocity has another shape");
    }
    if !use_kernels(&x) {
        return plain(x, gradient, velocity, rates);
    }
    let velocity = velocity.map_or(Velocity::None, |velocity| Velocity::Some(velocity.into_dispatch()));
    let (x, gradient) = (x.into_dispatch(), gradient.into_dispatch());
    let (x, velocity) = <Dispatch as SgdOps>::descend(x, gradient, velocity, rates);
    (Tensor::from_dispatch(x), Tensor::from_dispatch(velocity))
}

/// The step in burn's own operations.
fn plain<const D: usize>(
    x: Tensor<D>,
    gradient: Tensor<D>,
    velocity: Option<Tensor<D>>,
    rates: SgdRates,
) -> (Tensor<D>, Tensor<D>) {
    let pull = gradient + x.clone().mul_scalar(rates.weight_decay);
    let velocity = match velocity {
        Some(velocity) => velocity.mul_scalar(rates.momentum) + pull,
        None => pull,
    };
    (x - velocity.clone().mul_scalar(rates.lr), velocity)
}

vectorized! {
    /// The step of `x` with velocity `v` along `g`.
    fn step(x: &mut [f32], v: &mut [f32], g: &[f32], rates: SgdRates) {
        for ((x, v), g) in x.iter_mut().zip(v).zip(g) {
            *v = rates.momentum * *v + (g + rates.weight_decay * *x);
            *x -= rates.lr * *v;
        }
    }
}

vectorized! {
    /// The first step of `x`; `v` holds the gradient before and the velocity after it.
    fn first_step(x: &mut [f32], v: &mut [f32], rates: SgdRates) {
        for (x, v) in x.iter_mut().zip(v) {
            *v += rates.weight_decay * *x;
            *x -= rates.lr * *v;
        }
    }
}

/// A velocity; before the first step there is none.
#[derive(ExtensionType, Clone)]
pub(crate) enum Velocity<B: Backend> {
    Some(FloatTensor<B>),
    None,
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait SgdOps: Backend {
    fn descend(
        x: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        #[extension_type] velocity: Velocity<Self>,
        rates: SgdRates,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

impl SgdOps for Flex {
    fn descend(
        x: FlexTensor,
        gradient: FlexTensor,
        velocity: Velocity<Self>,
        rates: SgdRates,
    ) -> (FlexTensor, FlexTensor) {
        match velocity {
            Velocity::Some(velocity) => {
                let gradient = contiguous(gradient);
                let g = values(&gradient);
                update(x, velocity, |start, x, v| step(x, v, &g[start..start + x.len()], rates))
            }
            Velocity::None => update(x, gradient, |_, x, v| first_step(x, v, rates)),
        }
    }
}

/// What `kernel(start, x, v)` makes of chunks of both that begin at `start`.
fn update(
    x: FlexTensor,
    v: FlexTensor,
    kernel: impl Fn(usize, &mut [f32], &mut [f32]) + Sync,
) -> (FlexTensor, FlexTensor) {
    let (mut x, mut v) = (own(x), own(v));
    if let (Some(x), Some(v)) = (values_mut(&mut x), values_mut(&mut v)) {
        let chunks = x.par_chunks_mut(CHUNK).zip(v.par_chunks_mut(CHUNK));
        chunks.enumerate().for_each(|(i, (x, v))| kernel(i * CHUNK, x, v));
    }
    (x, v)
}

/// The same values in memory that nothing else refers to.
fn own(t: FlexTensor) -> FlexTensor {
    let mut t = contiguous(t);
    if values_mut(&mut t).is_some() { t } else { tensor(values(&t).to_vec(), &dims(&t)) }
}

/// An update is not differentiated: the results are untracked.
impl<C: CheckpointStrategy> SgdOps for Autodiff<Flex, C> {
    fn descend(
        x: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        velocity: Velocity<Self>,
        rates: SgdRates,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let velocity = match velocity {
            Velocity::Some(velocity) => Velocity::Some(velocity.into_primitive()),
            Velocity::None => Velocity::None,
        };
        let (x, velocity) = Flex::descend(x.into_primitive(), gradient.into_primitive(), velocity, rates);
        (FloatTensor::<Self>::new(x), FloatTensor::<Self>::new(velocity))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use burn::tensor::Device;

    fn numbers(seed: f32, n: usize) -> Tensor<1> {
        let values: Vec<f32> = (0..n).map(|i| ((i as f32 + 1.0) * seed).sin()).collect();
        Tensor::from_floats(values.as_slice(), &Device::flex())
    }

    fn to_vec(x: Tensor<1>) -> Vec<f32> {
        x.into_data().iter::<f32>().collect()
    }

    #[test]
    fn three_steps_follow_the_formula() {
        let rates = SgdRates { lr: 0.1, momentum: 0.9, weight_decay: 0.01 };
        let n = 40_000; // more than one task
        let (mut x, mut velocity) = (numbers(0.7, n), None);
        let (mut x_expected, mut v_expected) = (to_vec(x.clone()), vec![0.0f64; n]);
        for step in 1..=3 {
            let gradient = numbers(1.3 * step as f32, n);
            let g = to_vec(gradient.clone());
            let (x_next, v_next) = sgd_step(x, gradient, velocity, rates);
            (x, velocity) = (x_next, Some(v_next));
            for i in 0..n {
                v_expected[i] = 0.9 * v_expected[i] + f64::from(g[i]) + 0.01 * f64::from(x_expected[i]);
                x_expected[i] = (f64::from(x_expected[i]) - 0.1 * v_expected[i]) as f32;
            }
        }
        for (got, expected) in to_vec(x).iter().zip(&x_expected) {
            assert!((got - expected).abs() < 1e-5, "{got} {expected}");
        }
        for (got, expected) in to_vec(velocity.unwrap()).iter().zip(&v_expected) {
            assert!((f64::from(*got) - expected).abs() < 1e-5, "{got} {expected}");
        }
    }

    #[test]
    fn values_that_others_refer_to_are_left_alone() {
        let (x, g) = (numbers(0.7, 10), numbers(0.3, 10));
        let (x_before, g_before) = (to_vec(x.clone()), to_vec(g.clone()));
        let rates = SgdRates { lr: 1.0, momentum: 0.5, weight_decay: 0.0 };
        let (stepped, _) = sgd_step(x.clone(), g.clone(), None, rates);
        assert_ne!(to_vec(stepped), x_before);
        assert_eq!((to_vec(x), to_vec(g)), (x_before, g_before));
    }
}
