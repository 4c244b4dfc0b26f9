//! Why making pairs stops.

use crate::config::ConfigError;
use crate::data::DataError;
use crate::experiment::ExperimentError;
use crate::files::WriteError;
use crate::methods::{MethodError, UnknownMethod};
use crate::metrics::MetricsError;
use crate::run_folder::FolderError;

/// Why making pairs stops.
#[derive(Debug, thiserror::Error)]
pub enum DistillError {
    /// The method cannot go on.
    #[error(transparent)]
    Method(Box<MethodError>),
    /// There is no such method.
    #[error(transparent)]
    Unknown(#[from] UnknownMethod),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The folder belongs to something else.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The experiment cannot be opened.
    #[error(transparent)]
    Experiment(Box<ExperimentError>),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The metrics cannot be kept.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// A folder to resume from holds no usable checkpoint.
    #[error(
        "{path} holds no checkpoint that can be read: start again with `covmatch distill {path}/run.toml --out \
         ANOTHER_FOLDER`"
    )]
    NothingToResume {
        /// The folder.
        path: String,
    },
    /// The data is not that of the run.
    #[error(
        "the dataset has changed since this run began (fingerprint {now}, was {then}): a resumed run would not be one \
         run; start again in another folder"
    )]
    OtherData {
        /// Fingerprint at the beginning.
        then: String,
        /// Fingerprint at the resumption.
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

impl From<MethodError> for DistillError {
    fn from(error: MethodError) -> Self {
        DistillError::Method(Box::new(error))
    }
}

impl From<ExperimentError> for DistillError {
    fn from(error: ExperimentError) -> Self {
        DistillError::Experiment(Box::new(error))
    }
}

impl From<DataError> for DistillError {
    fn from(error: DataError) -> Self {
        MethodError::from(error).into()
    }
}
