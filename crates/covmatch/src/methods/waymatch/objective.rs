//! What is asked of the pairs at a waypoint, and which way it moves them.
//!
//! ```text
//! L = w_c ||rho C_k - C_S||^2 / ||C_k||^2  +  lambda / z (L_feat_image + L_feat_text)  +  w_n InfoNCE(z_v^S, z_l^S)
//! ```
//! `C_k` and the real means are those of the whole train split under the teacher, so that no real pair is needed in a
//! step. The loss is a function of `h_v` and `h_l`, through which alone the encoders' branches meet.

use burn::module::Module;
use burn::tensor::Tensor;

use super::pool::Waypoint;
use crate::config::Learn;
use crate::encoders::{EncoderError, Mode};
use crate::losses::cross_covariance::{Features, cross_covariance};
use crate::losses::{feature_loss, info_nce};
use crate::methods::{PairGradients, synthetic::gradients_through_features};
use crate::model::Inputs;

/// The weights of the terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// The real cross-covariance is matched times `rho`.
    pub rho: f32,
    /// Weight of the covariance.
    pub covariance: f32,
    /// Weight of each `L_feat`.
    pub feat: f32,
    /// Weight of the covariance in canonical directions.
    pub canonical: f32,
    /// Weight of the variances in canonical directions.
    pub spread: f32,
    /// Weight of InfoNCE.
    pub info_nce: f32,
    /// Temperature of InfoNCE.
    pub tau: f32,
}

/// The terms of a step, without their weights, and the gradients of their weighted sum.
#[derive(Clone, Debug)]
pub struct Asked {
    /// `||rho C_k - C_S||^2 / ||C_k||^2`
    pub covariance: f32,
    /// `L_feat` of the images and of the captions.
    pub feat: [f32; 2],
    /// `||rho K - Q_v^T C_S Q_l||^2 / ||K||^2`
    pub canonical: f32,
    /// `||rho I - Q_m^T S_S Q_m||^2 / r` of both modalities.
    pub spread: f32,
    /// InfoNCE of the pairs.
    pub info_nce: f32,
    /// The weighted sum.
    pub loss: f32,
    /// Its gradients with respect to the pairs.
    pub gradients: PairGradients,
}

/// What `waypoint` asks of `pairs`; gradients are those of the modalities in `learn`.
pub fn ask(waypoint: &Waypoint, pairs: Inputs, objective: Objective, learn: Learn) -> Result<Asked, EncoderError> {
    let model = waypoint.model.clone().no_grad().train();
    let statistics = &waypoint.statistics;
    let constant = |x: &Tensor<2>| x.clone().autodiff();
    let (mut terms, device) = ([0.0; 6], statistics.covariance.device());
    let (loss, gradients) = gradients_through_features(&model, pairs, learn, |h: Features| {
        let covariance = relative(constant(&statistics.covariance), cross_covariance(&h), objective.rho);
        let [q_v, q_l] = [&statistics.directions.image, &statistics.directions.text].map(constant);
        let real = q_v.clone().transpose().matmul(constant(&statistics.covariance)).matmul(q_l.clone()); // [r, r]
        let x = Features { image: h.image.clone().matmul(q_v), text: h.text.clone().matmul(q_l) }; // [N, r]
        let canonical = relative(real, cross_covariance(&x), objective.rho);
        let one = Tensor::eye(x.image.dims()[1], &device).autodiff();
        let spread = relative(one.clone(), auto(x.image), objective.rho) + relative(one, auto(x.text), objective.rho);
        let z = model.project(h, &mut Mode::Eval)?;
        let feat_image = feature_loss(constant(&statistics.means.image), z.image.clone());
        let feat_text = feature_loss(constant(&statistics.means.text), z.text.clone());
        let nce = info_nce(z.image, z.text, objective.tau);
        let all = [covariance, feat_image, feat_text, canonical, spread, nce];
        terms = all.clone().map(|term| term.into_scalar::<f32>());
        let Objective { covariance, feat, canonical, spread, info_nce, .. } = objective;
        let weights = [covariance, feat, feat, canonical, spread, info_nce];
        let weighted = all.into_iter().zip(weights).map(|(term, weight)| term.mul_scalar(weight));
        Ok(weighted.fold(Tensor::zeros([1], &device).autodiff(), |sum, term| sum + term))
    })?;
    let [covariance, feat_image, feat_text, canonical, spread, info_nce] = terms;
    Ok(Asked { covariance, feat: [feat_image, feat_text], canonical, spread, info_nce, loss, gradients })
}

/// `||rho T - S||^2 / ||T||^2`
fn relative(target: Tensor<2>, is: Tensor<2>, rho: f32) -> Tensor<1> {
    let energy = target.clone().powi_scalar(2).sum();
    (target.mul_scalar(rho) - is).powi_scalar(2).sum() / energy
}

/// The covariance of `h` with itself.
fn auto(h: Tensor<2>) -> Tensor<2> {
    cross_covariance(&Features { image: h.clone(), text: h })
}
