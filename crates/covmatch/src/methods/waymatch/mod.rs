//! WayMatch: pairs that look like the data at the waypoints of teachers.

mod canonical;
mod labels;
mod learner;
mod objective;
mod pool;
mod statistics;

pub use labels::soft_targets;
pub use learner::WayMatch;
pub use objective::{Asked, Objective, ask};
pub use pool::{TeacherStep, Teachers, TeachersError, Waypoint};
pub use statistics::{Entries, Statistics};

use super::{Chart, Method, Phase};

const CHARTS: [Chart; 3] = [
    Chart { title: "Cross-covariance loss", axis: "relative", logarithmic: true, curves: &[("L_cov", "cov")] },
    Chart {
        title: "Mean feature loss",
        axis: "L_feat",
        logarithmic: true,
        curves: &[("image", "feat_image"), ("text", "feat_text")],
    },
    Chart { title: "Teachers on the pairs", axis: "InfoNCE", logarithmic: true, curves: &[("InfoNCE", "info_nce")] },
];

const PHASES: [Phase; 2] =
    [Phase { name: "waypoint", title: "reading waypoints" }, Phase { name: "pairs", title: "pairs, forward and back" }];

/// The entry of WayMatch.
pub fn method() -> Method {
    Method::learns::<WayMatch>("waymatch", "WayMatch").with_sections(&["waymatch"]).with_steps(&CHARTS, &PHASES)
}
