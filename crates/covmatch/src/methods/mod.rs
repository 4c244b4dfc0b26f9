//! Every way to make pairs: each method is one file or folder, and one entry of the registry, [`Methods`].
//!
//! | method                    | pairs                                                             |
//! |---------------------------|-------------------------------------------------------------------|
//! | [`random`]                | real, drawn uniformly                                             |
//! | [`herding`]               | real, whose mean stays close to that of all                       |
//! | [`k_center`]              | real, far from one another                                        |
//! | [`forgetting`]            | real, which a model in training forgets least often               |
//! | [`covmatch`]              | learned, by matching cross-covariance                             |
//! | [`trajectory`]            | learned, by following experts: MTT-VL and LoRS                    |
//! | [`waymatch`]              | learned, so that heads fitted to them retrieve real pairs         |
//!
//! A method that selects is a function from an experiment to captions ([`selection`]); one that learns implements
//! [`Learner`]. Its entry, a [`Method`], says all that the rest of the program asks: the commands, comparisons, cards and
//! reports know methods by their entries alone. What learners share is here too: the [`Synthetic`] pairs and their
//! descent, [`RealBatches`], rates in relative units ([`relative_rate`]). `examples/own_method.rs` adds one from outside.

mod adam;
mod batches;
mod coreset;
pub mod covmatch;
mod entry;
mod error;
pub mod forgetting;
pub mod herding;
pub mod k_center;
mod learner;
pub mod random;
mod rates;
mod recipe;
mod registry;
pub mod selection;
mod synthetic;
pub mod trajectory;
pub mod waymatch;

pub use adam::Adam;
pub use batches::RealBatches;
pub use coreset::{JointFeatures, Rows};
pub use entry::{
    Begun, Chart, Choose, EpochDone, Learns, Method, Phase, PreparationCost, Prepare, PrepareFn, Prepared, Selects,
    Work,
};
pub use error::MethodError;
pub use learner::{Learner, StepReport, Value};
pub use rates::{relative_rate, rms};
pub use recipe::RecipeError;
pub use registry::{Methods, UnknownMethod};
pub use synthetic::{
    PairGradients, PairRates, Synthetic, Velocity, gradients_through_features, pair_gradients, rows_of_step,
};
