//! Learning a few synthetic pairs that stand for a dataset.
//!
//! [`run()`] drives any [`Method`] in a folder: checkpoints, metrics, the finished set. The methods are CovMatch
//! ([`Distillation`], Algorithm 1 of the paper) and those of [`crate::trajectory`]. CovMatch is
//!
//! ```text
//! for each round:                                  the model starts from its pretrained encoders, with new heads
//!     for each of T steps:
//!         match:  L = L_cov + lambda (L_feat_v + L_feat_l)     real and synthetic batch, dropout off
//!                 pixels, text <- SGD step along dL            momentum is kept across rounds
//!         train:  model <- SGD step of InfoNCE                 on another real batch, dropout on
//! ```
//! The model of a round is thrown away at its end, so its last training step is left out.

mod calibration;
mod checkpoint;
mod distillation;
mod error;
pub(crate) mod finish;
mod matching;
mod method;
mod observer;
mod run;
mod state;
mod synthetic;

pub use calibration::Scale;
pub(crate) use calibration::rms;
pub use distillation::{Distillation, PhaseSeconds, StepReport};
pub use error::DistillError;
pub use finish::{initial_pairs, read_metrics};
pub use matching::{Matched, Objective, RealStatistics, match_pairs};
pub use method::{Method, Report};
pub use observer::{Event, Observer, Quiet};
pub use run::{Outcome, RunDir, resume, resume_method, run, run_method};
pub use synthetic::{PairGradients, PairRates, Synthetic, Velocity};
