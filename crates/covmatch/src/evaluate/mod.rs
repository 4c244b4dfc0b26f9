//! How good a set of pairs is: train a fresh model on the pairs alone, then retrieve on the test split.
//!
//! [`crate::retrieval`] is the measure, [`gallery`] what it is measured on, [`protocol`] the training and the repetitions;
//! [`folder`] keeps what was measured in the folder of the pairs, [`unfinished`] what is done of it if it is stopped.
//! Nothing is chosen on the test split: the primary figure is that of the last epoch, the second that of the epoch with
//! the best validation.

mod error;
pub mod file;
pub mod folder;
pub mod gallery;
pub mod protocol;
mod surge;
mod table;
pub mod unfinished;

pub use error::EvaluateError;
pub use file::EvaluationFile;
pub use folder::{Kept, evaluate_folder, train_folder};
pub use gallery::EncodedGallery;
pub use protocol::{Evaluation, Progress, Run, evaluate_pairs, train_on_everything};
pub use surge::Surge;
pub use table::results_table;
pub use unfinished::Unfinished;
