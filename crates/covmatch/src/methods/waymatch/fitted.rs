//! How well heads that are fitted to the pairs retrieve real pictures and captions.
//!
//! With the encoders fixed at a waypoint, the linear heads that tell the pairs apart best, in the sense of ridge regression, have a
//! closed form. What they say of a real picture or caption is how much it is like each of the pairs:
//!
//! ```text
//! X_m  [N, d_m]   features of the pairs less their mean      H_m  [n, d_m]   features of real pairs less theirs
//! K_m = X_m X_m^T / N + a tr(X_m X_m^T) / N^2 I              a: ridge, relative to the mean variance of the pairs
//! U_m = H_m X_m^T K_m^-1                         [n, N]      m: images and captions
//! L_fit = InfoNCE(U_v, U_l)
//! ```
//! This is the bilevel problem that CovMatch is derived from, with real pairs as its outer loss. Without the inverses the
//! similarity of a picture and a caption is `h_v^T C_S h_l`, CovMatch's solution of the inner problem.

use burn::tensor::Tensor;

use super::inverse::inverse;
use crate::losses::cross_covariance::Features;
use crate::losses::info_nce;

/// `L_fit` of pairs with the tracked features `h`, on the features `real` of real pairs, which are centred.
pub fn fitted_loss(h: Features, real: Features, ridge: f32, tau: f32) -> Tensor<1> {
    let likeness = h.zip(real, |h, real| likeness(h, real, ridge));
    info_nce(likeness.image, likeness.text, tau)
}

/// `U` `[n, N]` of one modality.
fn likeness(h: Tensor<2>, real: Tensor<2>, ridge: f32) -> Tensor<2> {
    let [count, _] = h.dims();
    let x = h.clone() - h.mean_dim(0);
    let gram = x.clone().matmul(x.clone().transpose()).div_scalar(count as f32);
    let identity = Tensor::<2>::eye(count, &gram.device());
    let mean = (gram.clone() * identity.clone()).sum().div_scalar(count as f32).reshape([1, 1]);
    let k = gram + identity * mean.mul_scalar(ridge);
    real.matmul(x.transpose()).matmul(inverse(k))
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::engine::{Seed, Stream};

    fn rows(n: usize, d: usize, stream: &mut Stream) -> Tensor<2> {
        let values: Vec<f32> = (0..n * d).map(|_| stream.normal()).collect();
        Tensor::from_data(TensorData::new(values, [n, d]), &Device::flex())
    }

    fn largest(x: Tensor<2>) -> f32 {
        x.abs().max().into_scalar::<f32>()
    }

    /// The heads `W = (X^T X / N + a tr / N I)^-1 X^T`, which the formula for `U` goes without.
    #[test]
    fn likeness_is_what_ridge_regression_on_the_pairs_says() {
        let stream = &mut Seed(8).stream("fitted", 0);
        let (h, real) = (rows(5, 3, stream), rows(4, 3, stream));
        let x = h.clone() - h.clone().mean_dim(0);
        let ridge = 0.3 * (x.clone() * x.clone()).sum().into_scalar::<f32>() / 25.0;
        let own = x.clone().transpose().matmul(x.clone()).div_scalar(5.0);
        let heads = inverse((own + Tensor::eye(3, &Device::flex()).mul_scalar(ridge)).autodiff()).inner();
        let expected = real.clone().matmul(heads).matmul(x.transpose());
        let found = likeness(h.autodiff(), real.autodiff(), 0.3).inner();
        assert!(largest(found - expected.clone()) < 1e-4 * largest(expected));
    }

    /// `cos(U_v, U_l)` is then that of `h_v X_v^T` and `h_l X_l^T`, whose inner product is `h_v^T C_S h_l` but for a factor.
    #[test]
    fn with_a_large_ridge_the_heads_are_those_of_the_cross_covariance() {
        let stream = &mut Seed(9).stream("fitted", 0);
        let h = Features { image: rows(6, 4, stream), text: rows(6, 5, stream) };
        let real = Features { image: rows(8, 4, stream), text: rows(8, 5, stream) };
        let plain =
            h.as_ref().zip(real.clone(), |h, real| real.matmul((h.clone() - h.clone().mean_dim(0)).transpose()));
        let expected = info_nce(plain.image, plain.text, 0.07).into_scalar::<f32>();
        let found = fitted_loss(h.map(Tensor::autodiff), real.map(Tensor::autodiff), 1e5, 0.07).into_scalar::<f32>();
        assert!((found - expected).abs() < 1e-3 * expected, "{found} {expected}");
    }
}
