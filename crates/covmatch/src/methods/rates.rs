//! Learning rates in relative units: by which part of its size a first step changes something.
//!
//! ```text
//! lr = r rms(x) / rms(dL/dx)
//! ```

use burn::tensor::Tensor;

use super::MethodError;

/// The root mean square of all values.
pub fn rms<const D: usize>(x: Tensor<D>) -> f32 {
    x.powi_scalar(2).mean().into_scalar::<f32>().sqrt()
}

/// The rate at which a first step changes `what`, with a root mean square of `values` and a gradient of `gradient`, by
/// `fraction` of itself.
pub fn relative_rate(fraction: f32, values: f32, gradient: f32, what: &'static str) -> Result<f32, MethodError> {
    match gradient {
        gradient if gradient.is_finite() && gradient > 0.0 => Ok(fraction * values / gradient),
        rms => Err(MethodError::Calibration { what, rms }),
    }
}
