//! CovMatch: pairs whose features have the cross-covariance of the real ones, on a model in training.
//!
//! ```text
//! for each round:                                  the model starts from its pretrained encoders, with new heads
//!     for each of T steps:
//!         match:  L = L_cov + lambda (L_feat_image + L_feat_text)     real and synthetic batch, dropout off
//!                 pixels, text <- SGD step along dL                   momentum is kept across rounds
//!         train:  model <- SGD step of InfoNCE                        on another real batch, dropout on
//! ```
//! Algorithm 1 of the paper. The model of a round is thrown away at its end, so its last training step is left out.

mod learner;
mod matching;
mod scale;
mod state;

pub use learner::CovMatch;
pub use matching::{Matched, Objective, RealStatistics, match_pairs};
pub use scale::CovMatchScale;

use super::{Chart, Method, Phase};
use crate::config::{Config, Units};

const CHARTS: [Chart; 3] = [
    Chart { title: "Cross-covariance loss", axis: "L_cov", logarithmic: true, curves: &[("L_cov", "cov")] },
    Chart {
        title: "Mean feature loss",
        axis: "L_feat",
        logarithmic: true,
        curves: &[("image", "feat_image"), ("text", "feat_text")],
    },
    Chart { title: "Online model", axis: "InfoNCE", logarithmic: false, curves: &[("InfoNCE", "info_nce")] },
];

const PHASES: [Phase; 4] = [
    Phase { name: "data", title: "waiting for data" },
    Phase { name: "real", title: "real batch, forward" },
    Phase { name: "synthetic", title: "synthetic pairs, forward and back" },
    Phase { name: "online", title: "online training" },
];

/// The entry of CovMatch.
pub fn method() -> Method {
    Method::learns::<CovMatch>("covmatch", "CovMatch")
        .with_sections(&["online"])
        .with_facts(facts)
        .with_steps(&CHARTS, &PHASES)
}

fn facts(config: &Config) -> Vec<(&'static str, String)> {
    let units = match config.distill.units {
        Units::Absolute => "absolute",
        Units::Relative => "relative",
    };
    vec![("ρ, λ", format!("{}, {} ({units})", config.distill.rho, config.distill.lambda()))]
}
