//! How good a set of pairs is: train a fresh model on the pairs alone, then retrieve on the test split.
//!
//! [`retrieval`] is the measure, [`gallery`] what it is measured on, [`protocol`] the training and the repetitions;
//! [`unfinished`] keeps what is done of them if they are stopped.
//! Nothing is chosen on the test split: the primary figure is that of the last epoch, the second that of the epoch with
//! the best validation.

pub mod gallery;
pub mod protocol;
pub mod retrieval;
pub mod unfinished;

pub use gallery::EncodedGallery;
pub use protocol::{EvaluateError, Evaluation, Progress, Run, evaluate_pairs, train_on_everything};
pub use retrieval::{Recalls, Spread};
pub use unfinished::Unfinished;
