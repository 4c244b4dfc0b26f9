//! Why a method cannot go on.

use super::RecipeError;
use super::trajectory::ExpertsError;
use super::waymatch::TeachersError;
use crate::config::{ConfigError, DistillConfig, Units};
use crate::encoders::weights::WeightsError;
use crate::experiment::ExperimentError;
use crate::files::WriteError;
use crate::tensor_file::TensorFileError;

/// Why a method cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum MethodError {
    /// The data cannot be read, or an encoder cannot be had or refuses its input.
    #[error(transparent)]
    Experiment(ExperimentError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A set cannot be where pairs start.
    #[error("the pairs cannot start at {folder}: it {cause}; choose another distill.init")]
    Start {
        /// The folder.
        folder: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A checkpoint or an expert cannot be read or written.
    #[error(transparent)]
    File(#[from] TensorFileError),
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
    /// The weights of a checkpoint cannot be read or written.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A loss or a gradient is not a finite number.
    #[error(
        "{what} is not finite at step {step}: the pairs have diverged; the state before this step is saved. Try \
         smaller {}{}",
        rates(.lr_image, .lr_text),
        other_units(.units)
    )]
    NotFinite {
        /// Which quantity.
        what: &'static str,
        /// The step.
        step: u64,
        /// Learning rate of the pixels, if the configuration has one.
        lr_image: Option<f32>,
        /// Learning rate of the embedded captions, likewise.
        lr_text: Option<f32>,
        /// What the rates are measured in.
        units: Units,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The training that a selection looks at does not go well.
    #[error(
        "the loss is not finite in epoch {epoch} of the training that the selection looks at: try smaller select.rates"
    )]
    WarmUp {
        /// The epoch, from 0.
        epoch: usize,
    },
    /// A folder of models is that of another experiment.
    #[error(transparent)]
    Recipe(Box<RecipeError>),
    /// There are no experts to follow.
    #[error(transparent)]
    Experts(#[from] ExpertsError),
    /// There are no teachers to follow.
    #[error(transparent)]
    Teachers(#[from] TeachersError),
    /// A method outside of this library has an error of its own.
    #[error(transparent)]
    Own(Box<dyn std::error::Error + Send + Sync>),
}

impl<E: Into<ExperimentError>> From<E> for MethodError {
    fn from(error: E) -> Self {
        Self::Experiment(error.into())
    }
}

impl From<RecipeError> for MethodError {
    fn from(error: RecipeError) -> Self {
        Self::Recipe(Box::new(error))
    }
}

impl MethodError {
    /// An error unless `value`, which is `what` in `step` of a run with this configuration, is finite.
    pub fn unless_finite(what: &'static str, value: f32, step: u64, config: &DistillConfig) -> Result<(), MethodError> {
        let &DistillConfig { lr_image, lr_text, units, .. } = config;
        if value.is_finite() { Ok(()) } else { Err(Self::NotFinite { what, step, lr_image, lr_text, units }) }
    }
}

/// The rates by name, with the values that were set.
fn rates(lr_image: &Option<f32>, lr_text: &Option<f32>) -> String {
    let value = |rate: &Option<f32>| rate.map_or("its default".to_owned(), |rate| format!("{rate:?}"));
    format!("rates than distill.lr_image = {} and distill.lr_text = {}", value(lr_image), value(lr_text))
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pairs_that_diverge_are_told_of_relative_units_only_where_they_are_not_used() {
        let advice = |units| {
            let config = DistillConfig { units, lr_image: Some(0.045), lr_text: None, ..DistillConfig::default() };
            MethodError::unless_finite("the loss", f32::NAN, 27, &config).unwrap_err().to_string()
        };
        assert!(advice(Units::Relative).ends_with("distill.lr_image = 0.045 and distill.lr_text = its default"));
        assert!(advice(Units::Absolute).ends_with("its default, or distill.units = \"relative\""));
        assert!(MethodError::unless_finite("the loss", 1.0, 0, &DistillConfig::default()).is_ok());
    }
}
