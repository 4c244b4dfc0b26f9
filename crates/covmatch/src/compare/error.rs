//! Why a comparison stops.

use crate::config::ConfigError;
use crate::data::DataError;
use crate::distill::DistillError;
use crate::evaluate::EvaluateError;
use crate::experiment::ExperimentError;
use crate::files::WriteError;
use crate::methods::UnknownMethod;
use crate::report::ReportError;
use crate::run_folder::FolderError;

/// Why a comparison stops.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A set cannot be made.
    #[error(transparent)]
    Distill(Box<DistillError>),
    /// A set cannot be evaluated.
    #[error(transparent)]
    Evaluate(Box<EvaluateError>),
    /// The experiment of a cell cannot be opened.
    #[error(transparent)]
    Experiment(Box<ExperimentError>),
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The configuration of a cell cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no such method.
    #[error(transparent)]
    Unknown(#[from] UnknownMethod),
    /// A folder belongs to something else.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The page cannot be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A set cannot be that large.
    #[error(
        "compare.pairs has {pairs}, but {method} can make at most {most} pairs of this train split: lower it, or add \
         data"
    )]
    TooManyPairs {
        /// Pairs that were asked for.
        pairs: usize,
        /// Pairs that can be had.
        most: usize,
        /// The method.
        method: &'static str,
    },
    /// A cell was made with another configuration, or from other data.
    #[error(
        "{path} was made with another configuration: {field} is {there} there and {wanted} now; choose another --out"
    )]
    OtherConfig {
        /// The file with the configuration.
        path: String,
        /// The first field that differs.
        field: String,
        /// Its value in the file.
        there: String,
        /// Its value now.
        wanted: String,
    },
    /// The comparison was asked to stop.
    #[error("interrupted at {cell}: the same command goes on from there")]
    Interrupted {
        /// The cell.
        cell: String,
    },
}

impl From<DistillError> for CompareError {
    fn from(error: DistillError) -> Self {
        CompareError::Distill(Box::new(error))
    }
}

impl From<EvaluateError> for CompareError {
    fn from(error: EvaluateError) -> Self {
        CompareError::Evaluate(Box::new(error))
    }
}

impl From<ExperimentError> for CompareError {
    fn from(error: ExperimentError) -> Self {
        CompareError::Experiment(Box::new(error))
    }
}
