//! `[waymatch]`: the teachers that WayMatch trains, and what it asks of the pairs at their waypoints.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::{first, require};
use super::sections::rates_problem;
use crate::model::TrainRates;

/// Teachers, waypoints and the weights of what is asked of the pairs there. All weights are of relative quantities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WayMatchConfig {
    /// Folder of the teachers; experiments on the same data and encoders share it.
    pub folder: PathBuf,
    /// Models that are trained on the train split, each from its own heads.
    pub teachers: usize,
    /// Steps of a teacher after which it is kept; the last one ends its training.
    pub waypoints: Vec<usize>,
    /// Waypoints before this one are left out of the steps.
    pub first: usize,
    /// Real pairs in a step of a teacher.
    pub batch: usize,
    /// Learning rates, momentum and weight decay of the teachers.
    pub rates: TrainRates,
    /// Train images, one caption each, that the statistics of a waypoint are taken over; all if there are fewer.
    pub entries: usize,
    /// Steps that are taken at a waypoint before the next one.
    pub stay: usize,
    /// Weight of the retrieval of real pairs by heads that are fitted to the synthetic ones.
    pub fitted: f32,
    /// Ridge of that fit, relative to the mean variance of the pairs' features.
    pub ridge: f32,
    /// Real pairs that the fitted heads are tested on in a step; all entries if there are fewer.
    pub tested: usize,
    /// Weight of the covariance.
    pub covariance: f32,
    /// Weight of the direction in which a teacher goes on from a waypoint.
    pub direction: f32,
    /// Weight of InfoNCE of the pairs under the teacher's own heads.
    pub info_nce: f32,
    /// Decay of the running mean of the pairs, which is what is kept of them; 0 keeps the last pairs.
    pub average: f32,
}

impl Default for WayMatchConfig {
    fn default() -> Self {
        Self {
            folder: PathBuf::from("teachers"),
            teachers: 2,
            waypoints: vec![0, 10, 25, 50, 100, 200],
            first: 0,
            batch: 128,
            rates: TrainRates { lr_encoder: 0.003, ..TrainRates::default() },
            entries: 8192,
            stay: 1,
            fitted: 1.0,
            ridge: 1.0,
            tested: 2048,
            covariance: 1.0,
            direction: 0.0,
            info_nce: 0.0,
            average: 0.98,
        }
    }
}

impl WayMatchConfig {
    pub(super) fn problem(&self) -> Option<String> {
        let weight = |x: f32| x >= 0.0 && x.is_finite();
        let rising = self.waypoints.windows(2).all(|pair| pair[0] < pair[1]);
        let compares = "at least 2, as InfoNCE compares pairs";
        first([
            require(self.teachers > 0, "waymatch.teachers", "at least 1", self.teachers),
            require(
                rising && !self.waypoints.is_empty(),
                "waymatch.waypoints",
                "rising steps",
                format!("{:?}", self.waypoints),
            ),
            require(self.first < self.waypoints.len().max(1), "waymatch.first", "fewer than the waypoints", self.first),
            require(self.batch > 1, "waymatch.batch", compares, self.batch),
            rates_problem(&self.rates, "waymatch.rates"),
            require(self.entries > 1, "waymatch.entries", "at least 2, as a covariance needs two pairs", self.entries),
            require(self.stay > 0, "waymatch.stay", "at least 1", self.stay),
            require(weight(self.fitted), "waymatch.fitted", "0 or more", self.fitted),
            require(self.ridge > 0.0 && self.ridge.is_finite(), "waymatch.ridge", "above 0", self.ridge),
            require(self.tested > 1, "waymatch.tested", compares, self.tested),
            require(weight(self.covariance), "waymatch.covariance", "0 or more", self.covariance),
            require(weight(self.direction), "waymatch.direction", "0 or more", self.direction),
            require(weight(self.info_nce), "waymatch.info_nce", "0 or more", self.info_nce),
            require((0.0..1.0).contains(&self.average), "waymatch.average", "in [0, 1)", self.average),
        ])
    }
}
