//! One step of stochastic gradient descent with momentum and weight decay, as PyTorch's `SGD` takes it.
//!
//! ```text
//! v <- momentum v + g + weight_decay x
//! x <- x - lr v
//! ```
//! Both updates are in place when nothing else refers to the values.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::backend::{FlexTensor, contiguous, use_kernels, values};
use crate::elementwise::{Source, map2, map3, transform};
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
    let SgdRates { lr, momentum, weight_decay } = rates;
    let velocity = match velocity {
        Some(velocity) => {
            assert_eq!(x.dims(), velocity.dims(), "sgd_step: the velocity has another shape");
            multiply_add_2(velocity, momentum, gradient, x.clone(), weight_decay)
        }
        None => multiply_add(gradient, x.clone(), weight_decay),
    };
    (multiply_add(x, velocity.clone(), -lr), velocity)
}

/// `x + a y`
fn multiply_add<const D: usize>(x: Tensor<D>, y: Tensor<D>, a: f32) -> Tensor<D> {
    if use_kernels(&x) {
        Tensor::from_dispatch(<Dispatch as SgdOps>::multiply_add(x.into_dispatch(), y.into_dispatch(), a))
    } else {
        x + y.mul_scalar(a)
    }
}

/// `b x + y + a z`
fn multiply_add_2<const D: usize>(x: Tensor<D>, b: f32, y: Tensor<D>, z: Tensor<D>, a: f32) -> Tensor<D> {
    if use_kernels(&x) {
        let (x, y, z) = (x.into_dispatch(), y.into_dispatch(), z.into_dispatch());
        Tensor::from_dispatch(<Dispatch as SgdOps>::multiply_add_2(x, b, y, z, a))
    } else {
        x.mul_scalar(b) + y + z.mul_scalar(a)
    }
}

vectorized! {
    fn multiply_add_values(x: Source, y: &[f32], a: f32, sum: &mut [f32]) {
        map2(x, y, sum, |x, y| x + a * y);
    }
}

vectorized! {
    fn multiply_add_2_values(x: Source, b: f32, y: &[f32], z: &[f32], a: f32, sum: &mut [f32]) {
        map3(x, y, z, sum, |x, y, z| b * x + (y + a * z));
    }
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait SgdOps: Backend {
    fn multiply_add(x: FloatTensor<Self>, y: FloatTensor<Self>, a: f32) -> FloatTensor<Self>;
    fn multiply_add_2(
        x: FloatTensor<Self>,
        b: f32,
        y: FloatTensor<Self>,
        z: FloatTensor<Self>,
        a: f32,
    ) -> FloatTensor<Self>;
}

impl SgdOps for Flex {
    fn multiply_add(x: FlexTensor, y: FlexTensor, a: f32) -> FlexTensor {
        let y = contiguous(y);
        let y = values(&y);
        transform(x, |start, x, sum| multiply_add_values(x, &y[start..start + sum.len()], a, sum))
    }

    fn multiply_add_2(x: FlexTensor, b: f32, y: FlexTensor, z: FlexTensor, a: f32) -> FlexTensor {
        let (y, z) = (contiguous(y), contiguous(z));
        let (y, z) = (values(&y), values(&z));
        transform(x, |start, x, sum| {
            let part = start..start + sum.len();
            multiply_add_2_values(x, b, &y[part.clone()], &z[part], a, sum);
        })
    }
}

/// An update is not differentiated: the results are untracked.
impl<C: CheckpointStrategy> SgdOps for Autodiff<Flex, C> {
    fn multiply_add(x: FloatTensor<Self>, y: FloatTensor<Self>, a: f32) -> FloatTensor<Self> {
        FloatTensor::<Self>::new(Flex::multiply_add(x.into_primitive(), y.into_primitive(), a))
    }

    fn multiply_add_2(
        x: FloatTensor<Self>,
        b: f32,
        y: FloatTensor<Self>,
        z: FloatTensor<Self>,
        a: f32,
    ) -> FloatTensor<Self> {
        let (x, y, z) = (x.into_primitive(), y.into_primitive(), z.into_primitive());
        FloatTensor::<Self>::new(Flex::multiply_add_2(x, b, y, z, a))
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
