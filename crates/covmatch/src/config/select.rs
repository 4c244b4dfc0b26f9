//! `[select]`: how real pairs are chosen.

use serde::{Deserialize, Serialize};

use super::error::{first, require};
use super::sections::rates_problem;
use crate::model::TrainRates;

/// How real pairs are chosen, and how the model is trained that some selections look at.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SelectConfig {
    /// Herding and K-Center look at a model trained for so many epochs on the train split; with 0, at the features of
    /// the pretrained encoders.
    pub warmup_epochs: usize,
    /// Epochs in which Forgetting watches a model learn the train split.
    pub forgetting_epochs: usize,
    /// Pairs in a step of either training.
    pub batch: usize,
    /// Learning rates, momentum and weight decay of either training.
    pub rates: TrainRates,
}

impl Default for SelectConfig {
    fn default() -> Self {
        Self { warmup_epochs: 0, forgetting_epochs: 10, batch: 128, rates: TrainRates::default() }
    }
}

impl SelectConfig {
    pub(super) fn problem(&self) -> Option<String> {
        let two = "at least 2, as forgetting compares epochs";
        first([
            require(self.forgetting_epochs > 1, "select.forgetting_epochs", two, self.forgetting_epochs),
            require(self.batch > 1, "select.batch", "at least 2, as InfoNCE compares pairs", self.batch),
            rates_problem(&self.rates, "select.rates"),
        ])
    }
}
