//! InfoNCE between images and captions.
//!
//! ```text
//! s_ij = cos(z_v_i, z_l_j) / tau
//! L    = 1/2 (CE(s, i = j) + CE(s^T, i = j))        CE: mean over rows of logsumexp(s_i) - s_ii
//! ```
//! The paper writes the denominator without the positive pair and the sum of both directions; its code, and that of the
//! baselines, use this form.

use burn::tensor::{Tensor, activation::log_softmax};

/// What a norm is at least, as in PyTorch's `normalize`.
const SMALLEST_NORM: f32 = 1e-12;

/// The loss of `n` pairs of projected features `[n, z]` at temperature `tau`; a tensor of one element.
pub fn info_nce(z_v: Tensor<2>, z_l: Tensor<2>, tau: f32) -> Tensor<1> {
    contrast(logits(z_v, z_l, tau))
}

/// The similarities `s` `[n, n]` of projected features `[n, z]` at temperature `tau`: images down, captions across.
pub fn logits(z_v: Tensor<2>, z_l: Tensor<2>, tau: f32) -> Tensor<2> {
    normalize(z_v).matmul(normalize(z_l).transpose()).div_scalar(tau)
}

/// The loss of similarities `[n, n]`; a tensor of one element.
pub fn contrast(logits: Tensor<2>) -> Tensor<1> {
    (cross_entropy(logits.clone()) + cross_entropy(logits.transpose())).div_scalar(2.0)
}

/// Every row divided by its Euclidean norm.
pub fn normalize(z: Tensor<2>) -> Tensor<2> {
    let norm = z.clone().powi_scalar(2).sum_dim(1).sqrt().clamp_min(SMALLEST_NORM); // [n, 1]
    z / norm
}

/// The mean over rows of `-log softmax(row)` at the diagonal.
fn cross_entropy(logits: Tensor<2>) -> Tensor<1> {
    let [n, _] = logits.dims();
    let diagonal = Tensor::<2>::eye(n, &logits.device());
    (log_softmax(logits, 1) * diagonal).sum().div_scalar(-(n as f32))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use burn::tensor::Device;

    fn scalar(x: Tensor<1>) -> f32 {
        x.into_data().iter::<f32>().next().unwrap()
    }

    #[test]
    fn features_without_information_cost_the_logarithm_of_the_batch() {
        let z = Tensor::<2>::ones([8, 4], &Device::flex());
        assert!((scalar(info_nce(z.clone(), z, 0.07)) - 8f32.ln()).abs() < 1e-5);
    }

    #[test]
    fn orthogonal_pairs_cost_what_the_formula_says_whatever_their_length() {
        let z = Tensor::<2>::eye(3, &Device::flex());
        // a row is (1 / tau, 0, 0): loss = log(e^(1/tau) + 2) - 1/tau
        let tau = 0.5f32;
        let expected = ((1.0 / tau).exp() + 2.0).ln() - 1.0 / tau;
        for scale in [1.0, 7.0] {
            let loss = scalar(info_nce(z.clone().mul_scalar(scale), z.clone(), tau));
            assert!((loss - expected).abs() < 1e-5, "{loss} {expected}");
        }
    }

    #[test]
    fn both_directions_count_the_same() {
        let device = Device::flex();
        let z_v = Tensor::<2>::from_floats([[1.0, 0.2], [0.3, -1.0], [0.5, 0.4]], &device);
        let z_l = Tensor::<2>::from_floats([[0.1, 0.9], [-0.7, 0.2], [0.6, 0.6]], &device);
        let (a, b) = (scalar(info_nce(z_v.clone(), z_l.clone(), 0.3)), scalar(info_nce(z_l, z_v, 0.3)));
        assert!((a - b).abs() < 1e-6);
    }
}
