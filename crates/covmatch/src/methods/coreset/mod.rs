//! What coreset selections look at: joint features of the train entries, and the training behind them.

mod features;
pub(super) mod joint;
mod warm_up;

pub(crate) use joint::Free;
pub use joint::{JointFeatures, Rows};
pub(super) use warm_up::warm_up;

use super::{EpochDone, MethodError};
use crate::experiment::Experiment;

/// Joint features of the train entries, with or without a warm-up.
pub(super) fn joint_features(
    experiment: &Experiment,
    progress: &mut dyn FnMut(EpochDone),
) -> Result<JointFeatures, MethodError> {
    match experiment.config.select.warmup_epochs {
        0 => Ok(features::pretrained_features(experiment)?),
        epochs => {
            let model = warm_up(experiment, epochs, &mut |_| {}, progress)?;
            Ok(features::projected_features(experiment, &model)?)
        }
    }
}
