//! What is asked of the pairs at a waypoint, and which way it moves them.
//!
//! ```text
//! L = w_f L_fit  +  w_c ||rho C_k - C_S||^2 / ||C_k||^2  +  lambda / z (L_feat_image + L_feat_text)  +  w_n InfoNCE(z_v^S, z_l^S)
//! ```
//! Real features, `C_k` and the real means are those of the train split under the teacher, so that no real pair is encoded in a
//! step. The loss is a function of `h_v` and `h_l`, through which alone the encoders' branches meet.

use burn::module::Module;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::fitted::fitted_loss;
use super::pool::Waypoint;
use crate::config::Learn;
use crate::encoders::{EncoderError, Mode};
use crate::losses::cross_covariance::{Features, cross_covariance};
use crate::losses::{feature_loss, info_nce};
use crate::methods::{PairGradients, synthetic::gradients_through_features};
use crate::model::Inputs;

/// The weights of the terms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// Weight of `L_fit`.
    pub fitted: f32,
    /// Ridge of the fit.
    pub ridge: f32,
    /// The real cross-covariance is matched times `rho`.
    pub rho: f32,
    /// Weight of the covariance.
    pub covariance: f32,
    /// Weight of each `L_feat`.
    pub feat: f32,
    /// Weight of InfoNCE.
    pub info_nce: f32,
    /// Temperature of `L_fit` and of InfoNCE.
    pub tau: f32,
}

/// The terms of a step, without their weights, and the gradients of their weighted sum.
#[derive(Clone, Debug)]
pub struct Asked {
    /// `L_fit`
    pub fitted: f32,
    /// `||rho C_k - C_S||^2 / ||C_k||^2`
    pub covariance: f32,
    /// `L_feat` of the images and of the captions.
    pub feat: [f32; 2],
    /// InfoNCE of the pairs.
    pub info_nce: f32,
    /// The weighted sum.
    pub loss: f32,
    /// Its gradients with respect to the pairs.
    pub gradients: PairGradients,
}

/// What `waypoint` asks of `pairs`, which are tested on the features `real`; gradients are those of the modalities in `learn`.
pub fn ask(
    waypoint: &Waypoint,
    real: Features,
    pairs: Inputs,
    objective: Objective,
    learn: Learn,
) -> Result<Asked, EncoderError> {
    let model = waypoint.model.clone().no_grad().train();
    let statistics = &waypoint.statistics;
    let constant = |x: &Tensor<2>| x.clone().autodiff();
    let real = real.map(Tensor::autodiff);
    let Objective { fitted, ridge, rho, covariance, feat, info_nce: own, tau } = objective;
    let weights = [fitted, covariance, feat, feat, own];
    let mut terms = [0.0; 5];
    let (loss, gradients) = gradients_through_features(&model, pairs, learn, |h: Features| {
        let fitted = fitted_loss(h.clone(), real, ridge, tau);
        let covariance = relative(constant(&statistics.covariance), cross_covariance(&h), rho);
        let z = model.project(h, &mut Mode::Eval)?;
        let feat_image = feature_loss(constant(&statistics.means.image), z.image.clone());
        let feat_text = feature_loss(constant(&statistics.means.text), z.text.clone());
        let all = [fitted, covariance, feat_image, feat_text, info_nce(z.image, z.text, tau)];
        terms = all.clone().map(|term| term.into_scalar::<f32>());
        let nothing = Tensor::zeros([1], &statistics.covariance.device()).autodiff();
        let weighted = all.into_iter().zip(weights).map(|(term, weight)| term.mul_scalar(weight));
        Ok(weighted.fold(nothing, |sum, term| sum + term))
    })?;
    let [fitted, covariance, feat_image, feat_text, info_nce] = terms;
    Ok(Asked { fitted, covariance, feat: [feat_image, feat_text], info_nce, loss, gradients })
}

/// `||rho T - S||^2 / ||T||^2`
fn relative(target: Tensor<2>, is: Tensor<2>, rho: f32) -> Tensor<1> {
    let energy = target.clone().powi_scalar(2).sum();
    (target.mul_scalar(rho) - is).powi_scalar(2).sum() / energy
}
