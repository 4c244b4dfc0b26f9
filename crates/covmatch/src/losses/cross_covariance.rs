//! Matching of the cross-covariance of image and text features.
//!
//! ```text
//! C     = 1/(n-1) Hc_v^T Hc_l                    [d_v, d_l]; Hc: features less their mean over the batch
//! L_cov = || rho C_T - C_S ||_F^2                T: real, S: synthetic
//!
//! D           = C_S - rho C_T
//! dL/dH_v^S   = 2/(n_S-1) Hc_l^S D^T             the gradient through the centring vanishes
//! dL/dH_l^S   = 2/(n_S-1) Hc_v^S D
//! ```
//! The same without a `d_v x d_l` matrix, from the Gram matrices `K_m^AB = Hc_m^A (Hc_m^B)^T`:
//!
//! ```text
//! <C_A, C_B> = sum(K_v^AB * K_l^AB) / ((n_A-1)(n_B-1))
//! L_cov      = rho^2 <C_T,C_T> - 2 rho <C_T,C_S> + <C_S,C_S>
//! Hc_l^S D^T = K_l^SS Hc_v^S / (n_S-1) - rho K_l^ST Hc_v^T / (n_T-1)
//! Hc_v^S D   = K_v^SS Hc_l^S / (n_S-1) - rho K_v^ST Hc_l^T / (n_T-1)
//! ```
//! [`covariance_loss`] takes whichever form costs fewer multiply-adds.

use burn::tensor::Tensor;

use crate::branches::Branches;

/// Features of both modalities of the same `n` pairs: `H_v` `[n, d_v]` and `H_l` `[n, d_l]`.
pub type Features = Branches<Tensor<2>>;

/// `L_cov` and its gradients with respect to the synthetic features.
#[derive(Clone, Debug)]
pub struct CovarianceLoss {
    /// `L_cov`, one element.
    pub loss: Tensor<1>,
    /// `dL/dH_v^S` `[n_S, d_v]`
    pub image_gradient: Tensor<2>,
    /// `dL/dH_l^S` `[n_S, d_l]`
    pub text_gradient: Tensor<2>,
}

/// Which of the two equal formulas is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// With the matrices `C`, `[d_v, d_l]`.
    Covariance,
    /// With Gram matrices, `[n, n]`.
    Gram,
}

impl Form {
    /// The form with fewer multiply-adds for `real` and `synthetic` pairs of features of `d_v` and `d_l` dimensions.
    pub fn cheaper(real: usize, synthetic: usize, d_v: usize, d_l: usize) -> Self {
        // C_T, C_S and two gradients, each a product with the matrix [d_v, d_l]
        let covariance = (real + 3 * synthetic) * d_v * d_l;
        // K^TT, K^ST, K^SS of both modalities, and the gradients' products with K^SS and K^ST
        let gram = (real * real + 2 * synthetic * real + 2 * synthetic * synthetic) * (d_v + d_l);
        if gram < covariance { Form::Gram } else { Form::Covariance }
    }
}

/// `L_cov` of `synthetic` against `real`, in the cheaper form. Both are values, not parts of an autodiff graph.
///
/// With fewer than two pairs on either side there is no covariance and the result is not a number.
pub fn covariance_loss(real: &Features, synthetic: &Features, rho: f32) -> CovarianceLoss {
    let ([n_t, d_v], [n_s, d_l]) = (real.image.dims(), synthetic.text.dims());
    covariance_loss_in(Form::cheaper(n_t, n_s, d_v, d_l), real, synthetic, rho)
}

/// [`covariance_loss`] in the given form.
pub fn covariance_loss_in(form: Form, real: &Features, synthetic: &Features, rho: f32) -> CovarianceLoss {
    let (real, synthetic) = (Centred::new(real), Centred::new(synthetic));
    match form {
        Form::Covariance => through_covariance(&real, &synthetic, rho),
        Form::Gram => through_gram(&real, &synthetic, rho),
    }
}

/// `C` `[d_v, d_l]` of `features`.
pub fn cross_covariance(features: &Features) -> Tensor<2> {
    Centred::new(features).cross_covariance()
}

/// `||C||_F^2` of `features`, one element.
pub fn energy(features: &Features) -> Tensor<1> {
    let Centred { image, text, .. } = Centred::new(features);
    let gram = |h: Tensor<2>| h.clone().matmul(h.transpose()); // [n, n]
    (gram(image) * gram(text)).sum()
}

/// Features less their mean, each divided by `sqrt(n - 1)`, so that `C` is a plain product.
struct Centred {
    image: Tensor<2>,
    text: Tensor<2>,
    /// `1 / sqrt(n - 1)`
    scale: f32,
}

impl Centred {
    fn new(Features { image, text }: &Features) -> Self {
        let scale = 1.0 / (image.dims()[0] as f32 - 1.0).sqrt();
        let centre = |h: &Tensor<2>| (h.clone() - h.clone().mean_dim(0)).mul_scalar(scale);
        Self { image: centre(image), text: centre(text), scale }
    }

    /// `C` `[d_v, d_l]`
    fn cross_covariance(&self) -> Tensor<2> {
        self.image.clone().transpose().matmul(self.text.clone())
    }
}

fn through_covariance(real: &Centred, synthetic: &Centred, rho: f32) -> CovarianceLoss {
    let difference = synthetic.cross_covariance() - real.cross_covariance().mul_scalar(rho);
    let image_gradient = synthetic.text.clone().matmul(difference.clone().transpose());
    let text_gradient = synthetic.image.clone().matmul(difference.clone());
    finish(difference.powi_scalar(2).sum(), image_gradient, text_gradient, synthetic.scale)
}

fn through_gram(real: &Centred, synthetic: &Centred, rho: f32) -> CovarianceLoss {
    let gram = |a: &Tensor<2>, b: &Tensor<2>| a.clone().matmul(b.clone().transpose());
    let both = |a: &Centred, b: &Centred| (gram(&a.image, &b.image), gram(&a.text, &b.text));
    let inner = |(v, l): &(Tensor<2>, Tensor<2>)| (v.clone() * l.clone()).sum();
    let (tt, st, ss) = (both(real, real), both(synthetic, real), both(synthetic, synthetic));
    let loss = inner(&tt).mul_scalar(rho * rho) - inner(&st).mul_scalar(2.0 * rho) + inner(&ss);
    let gradient = |ss: Tensor<2>, st: Tensor<2>, h_s: &Tensor<2>, h_t: &Tensor<2>| {
        ss.matmul(h_s.clone()) - st.matmul(h_t.clone()).mul_scalar(rho)
    };
    let image_gradient = gradient(ss.1, st.1, &synthetic.image, &real.image);
    let text_gradient = gradient(ss.0, st.0, &synthetic.text, &real.text);
    finish(loss, image_gradient, text_gradient, synthetic.scale)
}

/// Gradients with respect to the scaled features become those of the features.
fn finish(loss: Tensor<1>, image: Tensor<2>, text: Tensor<2>, scale: f32) -> CovarianceLoss {
    let factor = 2.0 * scale;
    CovarianceLoss { loss, image_gradient: image.mul_scalar(factor), text_gradient: text.mul_scalar(factor) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use burn::tensor::{Device, TensorData};

    fn features(key: &str, n: usize, d_v: usize, d_l: usize) -> Features {
        let tensor = |name: &str, d: usize| {
            let values = crate::encoders::weights::generated::uniform(&format!("{key}.{name}"), n * d);
            Tensor::from_data(TensorData::new(values, [n, d]), &Device::flex())
        };
        Features { image: tensor("image", d_v), text: tensor("text", d_l) }
    }

    fn vector<const D: usize>(x: Tensor<D>) -> Vec<f32> {
        x.into_data().iter::<f32>().collect()
    }

    /// The definition in loops and f64.
    fn reference(real: &Features, synthetic: &Features, rho: f64) -> f64 {
        let covariance = |f: &Features| {
            let ([n, d_v], [_, d_l]) = (f.image.dims(), f.text.dims());
            let (v, l) = (vector(f.image.clone()), vector(f.text.clone()));
            let column = |h: &[f32], d: usize, j: usize| (0..n).map(|i| f64::from(h[i * d + j])).collect::<Vec<_>>();
            let centred = |h: Vec<f64>| {
                let mean = h.iter().sum::<f64>() / n as f64;
                h.into_iter().map(|x| x - mean).collect::<Vec<_>>()
            };
            let mut c = Vec::new();
            for a in 0..d_v {
                let v = centred(column(&v, d_v, a));
                for b in 0..d_l {
                    let l = centred(column(&l, d_l, b));
                    c.push(v.iter().zip(&l).map(|(x, y)| x * y).sum::<f64>() / (n as f64 - 1.0));
                }
            }
            c
        };
        covariance(real).iter().zip(covariance(synthetic)).map(|(t, s)| (rho * t - s).powi(2)).sum()
    }

    #[test]
    fn both_forms_compute_the_definition() {
        for (n_t, n_s, d_v, d_l) in [(9, 5, 4, 3), (2, 2, 1, 1), (6, 11, 7, 12)] {
            let (real, synthetic) = (features("t", n_t, d_v, d_l), features("s", n_s, d_v, d_l));
            let expected = reference(&real, &synthetic, 2.0);
            for form in [Form::Covariance, Form::Gram] {
                let loss = f64::from(vector(covariance_loss_in(form, &real, &synthetic, 2.0).loss)[0]);
                assert!((loss - expected).abs() < 1e-5 * (1.0 + expected), "{form:?} {loss} {expected}");
            }
        }
    }

    #[test]
    fn gradients_of_both_forms_equal_autodiff() {
        let (real, synthetic) = (features("t", 8, 6, 5), features("s", 7, 6, 5));
        let (v, l) = (synthetic.image.clone().autodiff(), synthetic.text.clone().autodiff());
        let (v, l) = (v.require_grad(), l.require_grad());
        let c_s = cross_covariance(&Features { image: v.clone(), text: l.clone() });
        let c_t = cross_covariance(&real).mul_scalar(1.5).autodiff();
        let gradients = (c_t - c_s).powi_scalar(2).sum().backward();
        let expected = [vector(v.grad(&gradients).unwrap()), vector(l.grad(&gradients).unwrap())].concat();
        for form in [Form::Covariance, Form::Gram] {
            let CovarianceLoss { image_gradient, text_gradient, .. } = covariance_loss_in(form, &real, &synthetic, 1.5);
            let got = [vector(image_gradient), vector(text_gradient)].concat();
            for (got, expected) in got.iter().zip(&expected) {
                assert!((got - expected).abs() < 1e-5, "{form:?} {got} {expected}");
            }
        }
    }

    #[test]
    fn the_energy_is_the_squared_norm_of_the_covariance() {
        let real = features("t", 9, 4, 3);
        let expected = vector(cross_covariance(&real).powi_scalar(2).sum())[0];
        assert!((vector(energy(&real))[0] - expected).abs() < 1e-6 * (1.0 + expected));
    }

    #[test]
    fn a_set_matched_to_itself_costs_nothing() {
        let real = features("t", 10, 4, 3);
        let CovarianceLoss { loss, image_gradient, .. } = covariance_loss(&real, &real, 1.0);
        assert!(vector(loss)[0].abs() < 1e-5);
        assert!(vector(image_gradient).iter().all(|g| g.abs() < 1e-5));
    }

    #[test]
    fn few_pairs_of_wide_features_take_the_gram_form() {
        assert_eq!(Form::cheaper(128, 100, 2304, 768), Form::Gram);
        assert_eq!(Form::cheaper(1024, 500, 384, 384), Form::Covariance);
    }
}
