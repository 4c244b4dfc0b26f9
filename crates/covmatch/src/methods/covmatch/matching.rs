//! The matching step: how far the synthetic pairs are from the real ones, and which way to move them.
//!
//! ```text
//! L = w_cov L_cov + w_feat (L_feat_image + L_feat_text)
//! ```
//! The weights of `L` are 1 and `lambda` in the paper's units. Dropout is off, the model is frozen, and nothing is
//! tracked on the real side. The gradient of `L_cov` is computed in closed form at the features, and enters the
//! encoders' backward pass as the linear function that has it.

use burn::module::Module;
use burn::tensor::Tensor;
use covmatch_kernels::side_by_side;

use crate::config::Learn;
use crate::encoders::{EncoderError, Mode};
use crate::losses::cross_covariance::Features;
use crate::losses::{CovarianceLoss, covariance_loss, feature_loss};
use crate::methods::PairGradients;
use crate::model::{Inputs, Model};

/// The weights in `L`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// The real cross-covariance is matched times `rho`.
    pub rho: f32,
    /// Weight of `L_cov`.
    pub cov: f32,
    /// Weight of each `L_feat`.
    pub feat: f32,
}

/// The losses of a step, in the paper's units, and the gradients of `L`.
#[derive(Clone, Debug)]
pub struct Matched {
    /// `L_cov`
    pub cov: f32,
    /// `L_feat` of the images.
    pub feat_image: f32,
    /// `L_feat` of the captions.
    pub feat_text: f32,
    /// Gradients of `L` with respect to the synthetic pairs.
    pub gradients: PairGradients,
}

/// What the matching step needs to know of a real batch.
#[derive(Clone, Debug)]
pub struct RealStatistics {
    /// `h` `[n, d]`
    pub features: Features,
    /// Means of `z` `[1, z]`
    pub means: Features,
}

impl RealStatistics {
    /// Those of `real` under `model`.
    pub fn new(model: &Model, real: Inputs) -> Result<Self, EncoderError> {
        let features = model.features(real, &mut Mode::Eval)?;
        let z = model.project(features.clone(), &mut Mode::Eval)?;
        Ok(Self::of(features, z))
    }

    /// Those of features `h` and `z`.
    pub fn of(features: Features, z: Features) -> Self {
        Self { features, means: z.map(|z| z.mean_dim(0)) }
    }
}

/// Matches `synthetic` to `real` under `model`; gradients are those of the modalities in `learn`.
pub fn match_pairs(
    model: &Model,
    real: &RealStatistics,
    synthetic: Inputs,
    objective: Objective,
    learn: Learn,
) -> Result<Matched, EncoderError> {
    let frozen = model.clone().no_grad().train();
    let Inputs { pixels, text, mask, level } = synthetic.autodiff();
    let pixels = if learn.image() { pixels.require_grad() } else { pixels };
    let text = if learn.text() { text.require_grad() } else { text };
    let inputs = Inputs { pixels: pixels.clone(), text: text.clone(), mask, level };

    let h = frozen.features(inputs, &mut Mode::Eval)?;
    let values = h.clone().map(Tensor::inner);
    let CovarianceLoss { loss: cov, image_gradient, text_gradient } =
        covariance_loss(&real.features, &values, objective.rho);
    let tangent = |h: &Tensor<2>, gradient: Tensor<2>| (h.clone() * gradient.autodiff()).sum();
    let (tangent_v, tangent_l) = (tangent(&h.image, image_gradient), tangent(&h.text, text_gradient));

    let z = frozen.project(h, &mut Mode::Eval)?;
    let feat_image = feature_loss(real.means.image.clone().autodiff(), z.image);
    let feat_text = feature_loss(real.means.text.clone().autodiff(), z.text);
    let (cov, of_image, of_text) =
        (cov.into_scalar::<f32>(), feat_image.clone().into_scalar(), feat_text.clone().into_scalar());

    // What is left of L is a sum of a function of the images and one of the captions.
    let total =
        |tangent: Tensor<1>, feat: Tensor<1>| tangent.mul_scalar(objective.cov) + feat.mul_scalar(objective.feat);
    let (total_v, total_l) = (total(tangent_v, feat_image), total(tangent_l, feat_text));
    let (pixels, text) = side_by_side(
        &pixels.device(),
        || learn.image().then(|| pixels.grad_remove(&mut total_v.backward())).flatten(),
        || learn.text().then(|| text.grad_remove(&mut total_l.backward())).flatten(),
    );
    Ok(Matched { cov, feat_image: of_image, feat_text: of_text, gradients: PairGradients { pixels, text } })
}
