//! The runner of methods: it makes the pairs of an experiment in a folder.
//!
//! [`run()`] drives a [`Learner`](crate::methods::Learner): checkpoints, metrics, the finished set; [`resume()`] goes on
//! with a run that was broken off. [`select()`] writes the pairs that a selection chooses into the same kind of folder.
//! Which method it is, [`Methods`](crate::methods::Methods) knows.

mod checkpoint;
mod error;
mod metrics;
mod observer;
mod run;
mod select;

pub use error::DistillError;
pub use metrics::read_metrics;
pub use observer::{Event, Observer, Quiet};
pub use run::{Outcome, resume, run};
pub use select::select;
