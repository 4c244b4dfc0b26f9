//! `[experts]` and `[trajectory]`: the methods that match how weights move in training, MTT-VL and LoRS.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::{first, require};
use super::{DistillConfig, Units};
use crate::losses::PairLoss;
use crate::model::{Branches, TextLevel};

/// How the trajectories that the students follow are made. The defaults are those of the baselines' scripts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExpertsConfig {
    /// Where they are kept.
    pub folder: PathBuf,
    /// Models that are trained.
    pub count: usize,
    /// Passes over the train split; the weights are kept after each, and before the first.
    pub epochs: usize,
    /// Pairs in a step.
    pub batch: usize,
    /// Learning rate of the image encoder and its head.
    pub lr_image: f32,
    /// Learning rate of the text side.
    pub lr_text: f32,
    /// Whether the transformer layers of the text encoder are trained, and matched, too.
    pub train_text_encoder: bool,
}

impl Default for ExpertsConfig {
    fn default() -> Self {
        Self {
            folder: PathBuf::from("experts"),
            count: 20,
            epochs: 10,
            batch: 128,
            lr_image: 0.1,
            lr_text: 0.1,
            train_text_encoder: false,
        }
    }
}

impl ExpertsConfig {
    /// Learning rates of both branches.
    pub fn rates(&self) -> Branches<f32> {
        Branches { image: self.lr_image, text: self.lr_text }
    }

    pub(super) fn problem(&self) -> Option<String> {
        let positive = |rate: f32| rate > 0.0 && rate.is_finite();
        first([
            require(self.count > 0, "experts.count", "at least 1", self.count),
            require(self.epochs > 0, "experts.epochs", "at least 1", self.epochs),
            require(self.batch > 1, "experts.batch", "at least 2, as InfoNCE compares pairs", self.batch),
            require(positive(self.lr_image), "experts.lr_image", "above 0", self.lr_image),
            require(positive(self.lr_text), "experts.lr_text", "above 0", self.lr_text),
        ])
    }
}

/// How students follow the experts. What is left out has the value of the method, `distill.method`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrajectoryConfig {
    /// Steps of a student on the synthetic pairs.
    pub student_steps: usize,
    /// Epochs of an expert that a student is to catch up with.
    pub expert_epochs: usize,
    /// A student starts from the weights of an expert after fewer epochs than this.
    pub max_start_epoch: usize,
    /// Pairs in a student's step; all of them if there are fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub student_batch: Option<usize>,
    /// What the students minimise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<PairLoss>,
    /// Whether gradients go through all steps of a student, or through each step alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unroll: Option<Unroll>,
    /// Temperature of the students; that of the heads if not given. MTT-VL's code multiplies the cosine by
    /// `log(1 / 0.07)` where its experts have `1 / 0.07`: 0.376 reproduces that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tau: Option<f32>,
    /// Where in the text encoder the captions are learned.
    pub text: TextLevel,
    /// Initial learning rate of the students' image branch.
    pub student_lr_image: f32,
    /// Initial learning rate of the students' text branch.
    pub student_lr_text: f32,
    /// Learning rate of the students' learning rates.
    pub lr_rates: f32,
    /// What the students' learning rates are at least.
    pub min_rate: f32,
    /// The most by which a gradient may change pixels, captions and the students' rates in a step, relative to their size:
    /// a longer one is shortened. 0.1 with gradients through all steps in relative units; otherwise there is no bound, as
    /// in the published code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_change: Option<f32>,
    /// Rank of the learned similarity; 0 learns none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// Weight of the low-rank part of the similarity.
    pub alpha: f32,
    /// Learning rate of the similarity: 10 in absolute units; in relative units the first step's change of its diagonal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lr_similarity: Option<f32>,
    /// Whether both branches share one denominator.
    pub merge_branches: bool,
}

/// How far gradients reach in a student's training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unroll {
    /// Through all later steps.
    Full,
    /// Through the step itself; the weights it starts from count as constants (TESLA).
    Constant,
}

impl Default for TrajectoryConfig {
    fn default() -> Self {
        Self {
            student_steps: 8,
            expert_epochs: 1,
            max_start_epoch: 2,
            student_batch: None,
            loss: None,
            unroll: None,
            tau: None,
            text: TextLevel::Features,
            student_lr_image: 0.1,
            student_lr_text: 0.1,
            lr_rates: 1e-2,
            min_rate: 1e-4,
            max_change: None,
            rank: None,
            alpha: 3.0,
            lr_similarity: None,
            merge_branches: false,
        }
    }
}

impl TrajectoryConfig {
    /// Initial learning rates of the students.
    pub fn student_rates(&self) -> Branches<f32> {
        Branches { image: self.student_lr_image, text: self.student_lr_text }
    }

    /// Learning rate of the similarity, in the units of `distill`.
    pub fn lr_similarity(&self, distill: &DistillConfig) -> f32 {
        self.lr_similarity.unwrap_or(match distill.units {
            Units::Absolute => 10.0,
            Units::Relative => 0.015,
        })
    }

    pub(super) fn problem(&self, experts: &ExpertsConfig) -> Option<String> {
        let positive = |rate: f32| rate > 0.0 && rate.is_finite();
        let reach = self.max_start_epoch.saturating_sub(1) + self.expert_epochs;
        let (student_batch, tau) = (self.student_batch.unwrap_or(2), self.tau.unwrap_or(1.0));
        let (lr_similarity, max_change) = (self.lr_similarity.unwrap_or_default(), self.max_change.unwrap_or(1.0));
        first([
            require(self.student_steps > 0, "trajectory.student_steps", "at least 1", self.student_steps),
            require(self.expert_epochs > 0, "trajectory.expert_epochs", "at least 1", self.expert_epochs),
            require(self.max_start_epoch > 0, "trajectory.max_start_epoch", "at least 1", self.max_start_epoch),
            (reach > experts.epochs).then(|| {
                format!(
                    "trajectory.max_start_epoch - 1 + trajectory.expert_epochs is {reach}, and experts have {} epochs: \
                     raise experts.epochs",
                    experts.epochs
                )
            }),
            require(student_batch > 1, "trajectory.student_batch", "at least 2", student_batch),
            require(positive(tau), "trajectory.tau", "above 0", tau),
            require(positive(self.student_lr_image), "trajectory.student_lr_image", "above 0", self.student_lr_image),
            require(positive(self.student_lr_text), "trajectory.student_lr_text", "above 0", self.student_lr_text),
            require(self.lr_rates >= 0.0, "trajectory.lr_rates", "0 or more", self.lr_rates),
            require(positive(self.min_rate), "trajectory.min_rate", "above 0", self.min_rate),
            require(max_change > 0.0, "trajectory.max_change", "above 0", max_change),
            require(lr_similarity >= 0.0, "trajectory.lr_similarity", "0 or more", lr_similarity),
            (experts.train_text_encoder && self.text == TextLevel::Features).then(|| {
                "trajectory.text = \"features\" leaves out the text encoder that experts.train_text_encoder trains: set \
                 trajectory.text = \"inputs\""
                    .to_owned()
            }),
        ])
    }
}
