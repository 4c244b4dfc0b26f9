//! Adam over a tensor, in steps that are fractions of its size.
//!
//! ```text
//! m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2        t <- t + 1
//! x <- x - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + e)
//! ```
//! A step moves every element by about `lr`, however small its gradient is.

use burn::tensor::{Device, Tensor};

use crate::tensor_file::{TensorFile, TensorFileError};

/// Decay of the mean squares.
const SQUARES: f32 = 0.99;
/// Added to root mean squares.
const EPSILON: f32 = 1e-12;

/// The state of the descent of one tensor.
#[derive(Clone, Debug)]
pub struct Adam<const D: usize> {
    mean: Tensor<D>,
    squares: Tensor<D>,
    steps: i32,
}

impl<const D: usize> Adam<D> {
    /// Before the first step of a tensor like `x`.
    pub fn new(x: &Tensor<D>) -> Self {
        Self { mean: x.zeros_like(), squares: x.zeros_like(), steps: 0 }
    }

    /// `x` after a step along `gradient`, with a decay of `momentum` of the mean gradient.
    pub fn step(&mut self, x: Tensor<D>, gradient: Tensor<D>, lr: f32, momentum: f32) -> Tensor<D> {
        self.steps += 1;
        self.mean = self.mean.clone().mul_scalar(momentum) + gradient.clone().mul_scalar(1.0 - momentum);
        self.squares = self.squares.clone().mul_scalar(SQUARES) + gradient.powi_scalar(2).mul_scalar(1.0 - SQUARES);
        let [mean, squares] = [momentum, SQUARES].map(|decay| 1.0 - decay.powi(self.steps));
        let size = self.squares.clone().div_scalar(squares).sqrt().add_scalar(EPSILON);
        x - self.mean.clone().mul_scalar(lr / mean) / size
    }

    /// Adds the state to `file` under `name`.
    pub fn put_into(&self, file: &mut TensorFile, name: &str) {
        file.put(&format!("adam.{name}.mean"), self.mean.clone());
        file.put(&format!("adam.{name}.squares"), self.squares.clone());
        file.put_value(&format!("adam.{name}.steps"), &self.steps);
    }

    /// The state that [`put_into`](Self::put_into) added to `file` under `name`.
    pub fn of(file: &TensorFile, name: &str, device: &Device) -> Result<Self, TensorFileError> {
        Ok(Self {
            mean: file.get(&format!("adam.{name}.mean"), device)?,
            squares: file.get(&format!("adam.{name}.squares"), device)?,
            steps: file.value(&format!("adam.{name}.steps"))?,
        })
    }
}
