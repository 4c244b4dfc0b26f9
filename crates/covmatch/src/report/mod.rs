//! What a run achieved, for people: tables of results, curves, pictures before and after, on one page.
//!
//! [`plot_svg`] draws curves; [`Report`] puts them and [tables](crate::tables) into one HTML file that loads nothing, so
//! that it can be mailed, archived and opened without a network. Its HTML is that of the templates in `templates/`.
//!
//! ```no_run
//! use covmatch::report::{Curve, Figure, Report, Scale};
//! use covmatch::tables::{Row, Score, Table};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let score = Score { mean: 12.3, std: Some(0.4) };
//! let row = Row { label: "CovMatch".into(), scores: vec![Some(score)] };
//! let loss = Curve { name: "total".into(), points: vec![(0.0, 1.5), (1.0, 0.5)] };
//! let report = Report {
//!     title: "Flickr30k in 100 pairs".into(),
//!     results: Some(Table { columns: vec!["IR@1".into()], rows: vec![row] }),
//!     curves: vec![Figure::plot("Loss", "step", "loss", &[loss], Scale::Log)],
//!     ..Report::default()
//! };
//! report.save("report.html")?;
//! # Ok(()) }
//! ```

mod grid;
mod html;
mod picture;
mod plot;
mod run;
mod strip;

pub use grid::PairView;
pub use html::{Block, Figure, Report};
pub use plot::{Curve, Scale, plot_svg};
pub use run::write_run_report;

/// Why a report cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The file cannot be written.
    #[error("cannot write {path}: {cause}; check that the folder exists, may be written to and has space left")]
    Write {
        /// The file.
        path: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// A file of the run cannot be read.
    #[error("cannot read {path}: {cause}; make the run again, or evaluate it in the folder that it was made in")]
    Read {
        /// The file.
        path: String,
        /// What the system or the reader says.
        cause: std::io::Error,
    },
    /// The pairs cannot be read.
    #[error(transparent)]
    Set(#[from] crate::tensor_file::TensorFileError),
    /// The metrics cannot be read.
    #[error(transparent)]
    Metrics(#[from] crate::metrics::MetricsError),
    /// The pairs that the run began with cannot be made again.
    #[error(transparent)]
    Method(Box<crate::methods::MethodError>),
    /// The configuration cannot be written out.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
}

impl From<crate::methods::MethodError> for ReportError {
    fn from(error: crate::methods::MethodError) -> Self {
        ReportError::Method(Box::new(error))
    }
}
