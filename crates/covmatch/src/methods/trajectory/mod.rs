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
//! | `settings`      | what MTT-VL and LoRS do where the configuration leaves it open            |
//! | `learner`       | state, step, checkpoint                                                   |
//!
//! | quantity                 | MTT-VL             | LoRS                                  |
//! |--------------------------|--------------------|---------------------------------------|
//! | student's loss           | InfoNCE            | weighted binary cross-entropy         |
//! | similarity               | own captions       | learned, rank 10                      |
//! | gradients                | full unroll        | each step alone (TESLA)               |
//! | pairs in a student's step| 100                | 20                                    |

mod bound;
pub mod experts;
mod follow;
mod learner;
pub mod point;
mod settings;
pub mod similarity;
pub mod student;

pub use experts::{Experts, ExpertsError};
pub use follow::{Denominator, Followed, StudentStep, follow};
pub use learner::{TrajectoryMatching, TrajectoryScale};
pub use point::Point;
pub use settings::{Defaults, Published};
pub use similarity::Factors;
pub use student::{Pairs, Student};

use super::{Chart, Method, MethodError, Phase, PreparationCost, Prepare, Prepared};
use crate::config::{Config, Unroll};
use crate::experiment::Experiment;
use crate::losses::PairLoss;
use crate::shard::Shard;

/// Bi-trajectory matching.
pub struct MttVl;

impl Published for MttVl {
    const DEFAULTS: Defaults =
        Defaults { loss: PairLoss::InfoNce, unroll: Unroll::Full, rank: 0, student_batch: 100, rate: 1000.0 };
}

/// Trajectory matching with a learned low-rank similarity.
pub struct Lors;

impl Published for Lors {
    const DEFAULTS: Defaults =
        Defaults { loss: PairLoss::WeightedBce, unroll: Unroll::Constant, rank: 10, student_batch: 20, rate: 100.0 };
}

const CHARTS: [Chart; 2] = [
    Chart {
        title: "Distance to the expert",
        axis: "relative",
        logarithmic: false,
        curves: &[("image", "trajectory_image"), ("text", "trajectory_text")],
    },
    Chart {
        title: "Learned rates of students",
        axis: "rate",
        logarithmic: false,
        curves: &[("image", "eta_image"), ("text", "eta_text")],
    },
];

const PHASES: [Phase; 2] =
    [Phase { name: "expert", title: "reading experts" }, Phase { name: "student", title: "students and derivatives" }];

/// The entry of MTT-VL.
pub fn mtt_vl() -> Method {
    method::<MttVl>("mtt-vl", "MTT-VL")
}

/// The entry of LoRS.
pub fn lors() -> Method {
    method::<Lors>("lors", "LoRS")
}

fn method<P: Published>(name: &'static str, title: &'static str) -> Method {
    Method::learns::<TrajectoryMatching<P>>(name, title)
        .with_sections(&["experts", "trajectory"])
        .with_facts(facts)
        .with_steps(&CHARTS, &PHASES)
        .with_preparation(Prepare { what: "experts", make: train_experts, cost: cost_of_experts })
}

fn facts(config: &Config) -> Vec<(&'static str, String)> {
    vec![("Students' steps", config.trajectory.student_steps.to_string())]
}

fn train_experts(experiment: Experiment, progress: &mut dyn FnMut(Prepared)) -> Result<(), MethodError> {
    let experts = Experts::open(experiment)?;
    let (total, mut done) = (experts.estimate(Shard::ALL).epochs, 0);
    experts.train(Shard::ALL, &mut |event| {
        done += 1;
        let summary = format!("expert {}  epoch {}  loss {:.3}", event.expert, event.epochs, event.loss);
        progress(Prepared { done, total, summary });
    })
}

fn cost_of_experts(experiment: Experiment) -> Result<PreparationCost, MethodError> {
    let (seconds, bytes) = Experts::open(experiment)?.cost()?;
    Ok(PreparationCost { seconds, bytes })
}
