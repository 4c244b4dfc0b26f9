//! Why an evaluation stops.

use crate::data::Split;
use crate::distilled::AdaptError;
use crate::experiment::ExperimentError;
use crate::files::WriteError;
use crate::run_folder::FolderError;
use crate::tensor_file::TensorFileError;

/// Why an evaluation stops.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// The folder belongs to something else.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The data cannot be read, or an encoder cannot be had or refuses its input.
    #[error(transparent)]
    Experiment(ExperimentError),
    /// The set cannot be read.
    #[error(transparent)]
    File(#[from] TensorFileError),
    /// There is nothing to retrieve.
    #[error("the dataset has no {split} split: add one to the annotations, or choose data that has it")]
    EmptySplit {
        /// The split.
        split: Split,
    },
    /// The set does not fit the experiment.
    #[error(transparent)]
    Adapt(#[from] AdaptError),
    /// The loss is not a finite number.
    #[error(
        "the loss is not finite in epoch {epoch} of run {run}: the pairs or the rates are out of scale; try smaller \
         evaluate.rates"
    )]
    NotFinite {
        /// The run.
        run: usize,
        /// The epoch.
        epoch: usize,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl<E: Into<ExperimentError>> From<E> for EvaluateError {
    fn from(error: E) -> Self {
        Self::Experiment(error.into())
    }
}
