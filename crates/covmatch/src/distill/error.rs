//! Why making pairs stops.

use crate::methods::{MethodError, UnknownMethod};
use crate::metrics::MetricsError;
use crate::run_folder::FolderError;

/// Why making pairs stops.
#[derive(Debug, thiserror::Error)]
pub enum DistillError {
    /// There is no such method.
    #[error(transparent)]
    Unknown(#[from] UnknownMethod),
    /// The method cannot go on, or not begin.
    #[error(transparent)]
    Method(Box<MethodError>),
    /// The folder belongs to something else.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A folder to resume from holds no usable checkpoint.
    #[error(
        "{path} holds no checkpoint that can be read: start again with `covmatch distill {path}/run.toml --out \
         ANOTHER_FOLDER`"
    )]
    NothingToResume {
        /// The folder.
        path: String,
    },
    /// The metrics cannot be kept.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
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

impl<E: Into<MethodError>> From<E> for DistillError {
    fn from(error: E) -> Self {
        Self::Method(Box::new(error.into()))
    }
}
