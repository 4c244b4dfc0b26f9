//! Learning a few synthetic pairs that stand for a dataset: CovMatch (Algorithm 1 of the paper).
//!
//! ```text
//! for each round:                                  the model starts from its pretrained encoders, with new heads
//!     for each of T steps:
//!         match:  L = L_cov + lambda (L_feat_v + L_feat_l)     real and synthetic batch, dropout off
//!                 pixels, text <- SGD step along dL            momentum is kept across rounds
//!         train:  model <- SGD step of InfoNCE                 on another real batch, dropout on
//! ```
//! The model of a round is thrown away at its end, so its last training step is left out.
//!
//! [`Distillation`] is the state and its step; [`run()`] adds the folder: checkpoints, metrics, the finished set.

mod calibration;
mod checkpoint;
mod distillation;
mod error;
pub(crate) mod finish;
mod matching;
mod observer;
mod run;
mod synthetic;

pub use calibration::Scale;
pub use distillation::{Distillation, PhaseSeconds, StepReport};
pub use error::DistillError;
pub use finish::{initial_pairs, read_metrics};
pub use matching::{Matched, Objective, RealStatistics, match_pairs};
pub use observer::{Event, Observer, Quiet};
pub use run::{Outcome, RunDir, resume, run};
pub use synthetic::{PairGradients, PairRates, Synthetic, Velocity};
