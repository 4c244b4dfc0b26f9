//! Why a distillation stops.

use crate::config::{ConfigError, DistillConfig, Units};
use crate::data::DataError;
use crate::encoders::EncoderError;
use crate::encoders::weights::WeightsError;
use crate::experiment::ExperimentError;
use crate::files::WriteError;
use crate::model::ModelError;
use crate::tensor_file::TensorFileError;

/// Why a distillation stops.
#[derive(Debug, thiserror::Error)]
pub enum DistillError {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An encoder refuses its input.
    #[error(transparent)]
    Encoder(#[from] EncoderError),
    /// The experiment cannot be opened.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The model cannot be loaded.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A checkpoint or a set cannot be read or written.
    #[error(transparent)]
    File(#[from] TensorFileError),
    /// The weights of a checkpoint cannot be read or written.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// There are no experts to follow.
    #[error(transparent)]
    Experts(#[from] crate::trajectory::experts::ExpertsError),
    /// The metrics cannot be kept.
    #[error(transparent)]
    Metrics(#[from] crate::metrics::MetricsError),
    /// A loss or a gradient is not a finite number.
    #[error(
        "{what} is not finite at step {step}: the pairs have diverged; the state before this step is saved. Try \
         smaller rates than distill.lr_img = {lr_img:?} and distill.lr_txt = {lr_txt:?}{}",
        other_units(.units)
    )]
    NotFinite {
        /// Which quantity.
        what: &'static str,
        /// The step.
        step: u64,
        /// Learning rate of the pixels.
        lr_img: f32,
        /// Learning rate of the embedded captions.
        lr_txt: f32,
        /// What the rates are measured in.
        units: Units,
    },
    /// Gradients vanish where the rates are calibrated.
    #[error(
        "cannot calibrate learning rates: the gradient of the {what} is {rms} at the initial pairs; set \
         units = \"absolute\" and the rates by hand, or check the encoder's weights"
    )]
    Calibration {
        /// Pixels or captions.
        what: &'static str,
        /// Root mean square of the gradient.
        rms: f32,
    },
    /// The training that a selection looks at does not go well.
    #[error(
        "the loss is not finite in epoch {epoch} of the training that the selection looks at: try smaller select.rates"
    )]
    WarmUp {
        /// The epoch, from 0.
        epoch: usize,
    },
    /// A folder to resume from holds no usable checkpoint.
    #[error(
        "{path} holds no checkpoint to resume from{cause}; start again with `covmatch distill CONFIG --out {path}`"
    )]
    NothingToResume {
        /// The folder.
        path: String,
        /// What was found instead.
        cause: String,
    },
    /// The data is not that of the run.
    #[error(
        "the dataset has changed since this run began (fingerprint {now}, was {then}): a resumed run would not be one \
         run; start again in another folder"
    )]
    OtherData {
        /// Fingerprint at the beginning.
        then: String,
        /// Fingerprint now.
        now: String,
    },
    /// The run was interrupted.
    #[error("interrupted after step {step}; resume with `covmatch distill --resume {path}`")]
    Interrupted {
        /// Steps that are done.
        step: u64,
        /// The folder.
        path: String,
    },
}

impl DistillError {
    /// `what` is not finite at `step` of a run with this configuration.
    pub(crate) fn not_finite(what: &'static str, step: u64, config: &DistillConfig) -> Self {
        Self::NotFinite { what, step, lr_img: config.lr_img(), lr_txt: config.lr_txt(), units: config.units }
    }
}

/// What else to try where rates are plain numbers.
fn other_units(units: &Units) -> &'static str {
    match units {
        Units::Absolute => ", or distill.units = \"relative\"",
        Units::Relative => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_diverge_are_told_of_relative_units_only_where_they_are_not_used() {
        let advice = |units| {
            let config = DistillConfig { units, lr_img: Some(0.045), ..DistillConfig::default() };
            DistillError::not_finite("the loss", 27, &config).to_string()
        };
        assert!(advice(Units::Relative).ends_with("distill.lr_img = 0.045 and distill.lr_txt = 0.015"));
        assert!(advice(Units::Absolute).ends_with("distill.lr_txt = 1.0, or distill.units = \"relative\""));
    }
}
