//! Why a comparison stops.

use crate::distill::DistillError;
use crate::evaluate::EvaluateError;
use crate::report::ReportError;

/// Why a comparison stops.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A set cannot be made: what it needs is not there, or making it failed.
    #[error(transparent)]
    Distill(Box<DistillError>),
    /// A set cannot be evaluated.
    #[error(transparent)]
    Evaluate(Box<EvaluateError>),
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

impl<E: Into<DistillError>> From<E> for CompareError {
    fn from(error: E) -> Self {
        Self::Distill(Box::new(error.into()))
    }
}

impl From<EvaluateError> for CompareError {
    fn from(error: EvaluateError) -> Self {
        Self::Evaluate(Box::new(error))
    }
}
