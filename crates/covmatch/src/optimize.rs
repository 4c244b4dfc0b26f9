//! Stochastic gradient descent over the parameters of a module, as PyTorch's `SGD` takes it.
//!
//! ```text
//! v <- momentum v + g + weight_decay w
//! w <- w - lr v
//! ```
//! A parameter that has no gradient, because it is frozen or plays no part in the loss, is left alone: it neither moves
//! nor decays. Gradients may be scaled before the step, as PyTorch's `clip_grad_norm_` does: [`squared_norm`] has their size.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::{Gradients, Tensor};
pub use covmatch_kernels::SgdRates;
use covmatch_kernels::sgd_step;

use crate::encoders::weights::{Parameter, advance, visit};

/// The state of the descent of one module: a velocity a parameter.
#[derive(Clone, Debug, Default)]
pub struct Sgd {
    velocities: BTreeMap<String, Tensor<1>>,
}

impl Sgd {
    /// `module` after a step along `scale` times `gradients`. What it takes from the gradients, it removes.
    pub fn step<M: Module>(&mut self, module: M, gradients: &mut Gradients, scale: f32, rates: SgdRates) -> M {
        let find = |parameter: &dyn Parameter| parameter.take_gradient(gradients);
        advance(module, find, |key, value, gradient| {
            let gradient = if scale == 1.0 { gradient } else { gradient.mul_scalar(scale) };
            let (value, velocity) = sgd_step(value, gradient, self.velocities.remove(key), rates);
            self.velocities.insert(key.to_owned(), velocity);
            value
        })
    }

    /// The velocities by the parameters' keys, each flat.
    pub fn velocities(&self) -> &BTreeMap<String, Tensor<1>> {
        &self.velocities
    }

    /// A descent that goes on with these velocities.
    pub fn from_velocities(velocities: BTreeMap<String, Tensor<1>>) -> Self {
        Self { velocities }
    }
}

/// The squared norm of the gradients of the parameters of `module`.
pub fn squared_norm<M: Module>(module: &M, gradients: &Gradients) -> f64 {
    let mut sum = 0.0;
    visit(module, |_, parameter| {
        if let Some(gradient) = parameter.gradient(gradients) {
            sum += f64::from(gradient.powi_scalar(2).sum().into_scalar::<f32>());
        }
    });
    sum
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use burn::module::Param;
    use burn::tensor::Device;

    #[derive(Module, Debug)]
    struct Pair {
        trained: Param<Tensor<2>>,
        frozen: Param<Tensor<1>>,
    }

    fn pair() -> Pair {
        let device = Device::flex();
        let trained = Param::from_tensor(Tensor::from_floats([[1.0, 2.0], [3.0, 4.0]], &device));
        let frozen = Param::from_tensor(Tensor::from_floats([5.0, 6.0], &device)).set_require_grad(false);
        Pair { trained, frozen }
    }

    fn values<const D: usize>(param: &Param<Tensor<D>>) -> Vec<f32> {
        param.val().into_data().iter::<f32>().collect()
    }

    /// loss = sum(trained^2) / 2 + sum(frozen): the gradient is the parameter itself.
    fn step(pair: Pair, sgd: &mut Sgd, rates: SgdRates) -> Pair {
        let pair = pair.train();
        let loss = pair.trained.val().powi_scalar(2).sum().div_scalar(2.0) + pair.frozen.val().sum();
        let mut gradients = loss.backward();
        sgd.step(pair, &mut gradients, 1.0, rates).valid()
    }

    #[test]
    fn two_steps_move_the_trained_parameter_and_leave_the_frozen_one() {
        let rates = SgdRates { lr: 0.1, momentum: 0.5, weight_decay: 1.0 };
        let mut sgd = Sgd::default();
        let once = step(pair(), &mut sgd, rates);
        // v = w + w = 2 w, w' = 0.8 w
        assert_eq!(values(&once.trained), [0.8, 1.6, 2.4, 3.2].map(|x: f32| x));
        let twice = step(once, &mut sgd, rates);
        // v' = 0.5 * 2 w + 2 * 0.8 w = 2.6 w, w'' = 0.8 w - 0.26 w = 0.54 w
        for (got, expected) in values(&twice.trained).iter().zip([0.54, 1.08, 1.62, 2.16f32]) {
            assert!((got - expected).abs() < 1e-6, "{got} {expected}");
        }
        assert_eq!(values(&twice.frozen), [5.0, 6.0]);
        assert_eq!(sgd.velocities().keys().collect::<Vec<_>>(), ["trained"]);
    }

    #[test]
    fn a_scaled_step_goes_along_a_part_of_the_gradient() {
        let pair = pair().train();
        let mut gradients =
            (pair.trained.val().powi_scalar(2).sum().div_scalar(2.0) + pair.frozen.val().sum()).backward();
        assert_eq!(squared_norm(&pair, &gradients), 1.0 + 4.0 + 9.0 + 16.0);
        let rates = SgdRates { lr: 1.0, momentum: 0.0, weight_decay: 0.0 };
        let moved = Sgd::default().step(pair, &mut gradients, 0.25, rates);
        assert_eq!(values(&moved.trained), [0.75, 1.5, 2.25, 3.0]);
    }

    #[test]
    fn a_descent_goes_on_from_its_velocities() {
        let rates = SgdRates { lr: 0.1, momentum: 0.9, weight_decay: 0.0 };
        let mut sgd = Sgd::default();
        let once = step(pair(), &mut sgd, rates);
        let mut restored = Sgd::from_velocities(sgd.velocities().clone());
        let (a, b) = (step(once.clone(), &mut sgd, rates), step(once, &mut restored, rates));
        assert_eq!(values(&a.trained), values(&b.trained));
    }
}
