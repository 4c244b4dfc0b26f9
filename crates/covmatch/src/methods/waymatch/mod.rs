//! WayMatch: pairs whose fitted heads retrieve real pairs, at the waypoints of teachers.

mod direction;
mod fitted;
mod inverse;
mod learner;
mod objective;
mod pool;
mod statistics;

pub use direction::{Turned, Way, turn};
pub use fitted::fitted_loss;
pub use learner::WayMatch;
pub use objective::{Asked, Objective, ask};
pub use pool::{TeacherStep, Teachers, TeachersError, Waypoint};
pub use statistics::{Entries, Statistics};

use super::{Chart, Method, MethodError, Phase, PreparationCost, Prepare, Prepared};
use crate::experiment::Experiment;

const CHARTS: [Chart; 5] = [
    Chart { title: "Real pairs by fitted heads", axis: "InfoNCE", logarithmic: false, curves: &[("L_fit", "fitted")] },
    Chart {
        title: "Ways of teachers",
        axis: "cosine",
        logarithmic: false,
        curves: &[
            ("image encoder", "way_image"),
            ("image head", "way_image_head"),
            ("text encoder", "way_text"),
            ("text head", "way_text_head"),
        ],
    },
    Chart { title: "Cross-covariance loss", axis: "relative", logarithmic: true, curves: &[("L_cov", "cov")] },
    Chart {
        title: "Mean feature loss",
        axis: "L_feat",
        logarithmic: true,
        curves: &[("image", "feat_image"), ("text", "feat_text")],
    },
    Chart { title: "Teachers on the pairs", axis: "InfoNCE", logarithmic: true, curves: &[("InfoNCE", "info_nce")] },
];

const PHASES: [Phase; 3] = [
    Phase { name: "waypoint", title: "reading waypoints" },
    Phase { name: "pairs", title: "pairs, forward and back" },
    Phase { name: "way", title: "ways of teachers" },
];

/// The entry of WayMatch.
pub fn method() -> Method {
    Method::learns::<WayMatch>("waymatch", "WayMatch")
        .with_sections(&["waymatch"])
        .with_steps(&CHARTS, &PHASES)
        .with_preparation(Prepare { what: "teachers", make: train_teachers, cost: cost_of_teachers })
}

fn train_teachers(experiment: Experiment, progress: &mut dyn FnMut(Prepared)) -> Result<(), MethodError> {
    let teachers = Teachers::open(experiment)?;
    let (total, mut done) = (teachers.steps_left(), 0);
    teachers.train(&mut |TeacherStep { teacher, done: step, loss }| {
        done += 1;
        progress(Prepared { done, total, summary: format!("teacher {teacher}  step {step}  nce {loss:.3}") });
    })
}

fn cost_of_teachers(experiment: Experiment) -> Result<PreparationCost, MethodError> {
    let (seconds, bytes) = Teachers::open(experiment)?.cost()?;
    Ok(PreparationCost { seconds, bytes })
}
