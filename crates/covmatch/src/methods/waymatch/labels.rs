//! Soft targets: what the teachers find similar among the pairs, for models that are trained on them.
//!
//! ```text
//! T = mean over teachers of cos(z_v_i, z_l_j) / tau_T                    at their last waypoint
//! S = (1 - a) I + a/2 (softmax over rows of T + softmax over columns of T)
//! ```

use burn::tensor::Tensor;
use burn::tensor::activation::{sigmoid, softmax};

use super::pool::Teachers;
use crate::encoders::Mode;
use crate::losses::PairLoss;
use crate::losses::info_nce::logits;
use crate::methods::MethodError;
use crate::model::Inputs;

/// `S` `[N, N]` of `pairs` for the loss `loss`, at temperature `tau`.
pub fn soft_targets(teachers: &Teachers, pairs: &Inputs, loss: PairLoss, tau: f32) -> Result<Tensor<2>, MethodError> {
    let n = pairs.len();
    let mut similarity = Tensor::zeros([n, n], &pairs.pixels.device());
    let last = teachers.last_waypoints();
    let count = last.len() as f32;
    for waypoint in last {
        let model = waypoint?.model;
        let h = model.features(pairs.clone(), &mut Mode::Eval)?;
        let z = model.project(h, &mut Mode::Eval)?;
        similarity = similarity + logits(z.image, z.text, tau).div_scalar(count);
    }
    Ok(match loss {
        PairLoss::InfoNce => (softmax(similarity.clone(), 1) + softmax(similarity, 0)).div_scalar(2.0),
        PairLoss::Bce | PairLoss::WeightedBce => sigmoid(similarity),
    })
}
