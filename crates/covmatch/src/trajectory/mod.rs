//! Trajectory matching: pairs on which a student's weights move as an expert's did on all data. MTT-VL and LoRS.
//!
//! ```text
//! experts   models trained on the train split, weights kept after every epoch            theta*_0, theta*_1, ...
//! step      a student starts at theta_0 = theta*_s and takes T steps on the pairs x:     theta_{i+1} = theta_i - eta g_i
//!           L = ||theta_T - theta*_{s+e}||^2 / ||theta_0 - theta*_{s+e}||^2              for the image and the text side
//!           x, eta, S <- SGD step along dL                                               S: learned similarity (LoRS)
//! ```
//! `g_i` is the gradient of the student's loss on some of the pairs, `eta` the learned rate of a side. MTT-VL follows
//! gradients through all steps; LoRS through each step alone (TESLA), with a weighted binary cross-entropy against `S`.
//!
//! | file            | what                                                                      |
//! |-----------------|---------------------------------------------------------------------------|
//! | [`mod@point`]   | a model's trained weights as a point in space                             |
//! | [`student`]     | the student's loss, its gradients, and their derivatives along a line     |
//! | [`follow()`]    | the steps of a student, and what they say about the pairs                 |
//! | [`similarity`]  | the low-rank target similarity                                            |
//! | [`experts`]     | expert trajectories on the disk                                           |
//! | [`matching`]    | the method: state, step, checkpoint                                       |

mod bound;
pub mod experts;
mod follow;
pub mod matching;
pub mod point;
pub mod similarity;
pub mod student;

pub use follow::{Denominator, Followed, StudentStep, follow};
pub use matching::{TrajectoryMatching, TrajectoryReport};
pub use point::Point;
pub use similarity::Factors;
pub use student::{Pairs, Student};
