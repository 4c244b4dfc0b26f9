//! `[distill]` and `[online]`: how the synthetic pairs are learned.
//!
//! Fields that mean something else to each method (rates, `lambda`) have no default here: a method fills in its own.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::{first, require};
use super::sections::rates_problem;
use crate::model::{Branches, TrainRates};

/// How the synthetic pairs are learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DistillConfig {
    /// The method that learns them, by the name that it has among [`crate::methods::Methods`].
    pub method: String,
    /// Synthetic pairs, `N`.
    pub pairs: usize,
    /// The real cross-covariance is matched times `rho`.
    pub rho: f32,
    /// Weight of `L_feat` against `L_cov`, in the units below: the paper's 0.1 in absolute units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lambda: Option<f32>,
    /// What learning rates and `lambda` are measured in.
    pub units: Units,
    /// Learning rate of the pixels: in absolute units that of the method's authors; in relative units the first step's
    /// change relative to the pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lr_image: Option<f32>,
    /// Learning rate of the embedded captions, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lr_text: Option<f32>,
    /// Momentum of both.
    pub momentum: f32,
    /// Times that the model starts again from its pretrained encoders.
    pub rounds: usize,
    /// Steps of a round, `T`.
    pub steps_per_round: usize,
    /// Real pairs that the synthetic ones are matched to in a step, and that the model is trained on unless
    /// [`OnlineConfig::batch`] says otherwise.
    pub real_batch: usize,
    /// Whether one real batch serves both the matching and the training of the model: one forward pass less, but its
    /// features are then under dropout, and the model is trained on what the pairs were just matched to.
    pub share_real_batch: bool,
    /// Synthetic pairs in a step, drawn anew each time; all of them if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthetic_batch: Option<usize>,
    /// Which modality is learned; the other keeps its initial values.
    pub learn: Learn,
    /// Where the synthetic pairs start.
    pub init: Init,
}

/// What learning rates and `lambda` are measured in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Units {
    /// `L = L_cov + lambda L_feat` and plain learning rates: the paper's numbers, for its encoders.
    Absolute,
    /// `L = L_cov / ||C_T||^2 + lambda L_feat / z`, and learning rates as relative changes: numbers that carry over
    /// between encoders.
    #[default]
    Relative,
}

/// Which modality is learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Learn {
    /// Pixels and embedded captions.
    #[default]
    Both,
    /// Pixels alone.
    Image,
    /// Embedded captions alone.
    Text,
}

impl Learn {
    /// Whether pixels are learned.
    pub fn image(self) -> bool {
        self != Learn::Text
    }

    /// Whether embedded captions are learned.
    pub fn text(self) -> bool {
        self != Learn::Image
    }
}

/// Where the synthetic pairs start: `real`, `noise` or `set:FOLDER`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Init {
    /// At real pairs of the train split.
    #[default]
    Real,
    /// At Gaussian noise with the statistics of pixels and of embedded captions.
    Noise,
    /// At the pairs of a folder, made by another method or by another run.
    Set(PathBuf),
}

impl TryFrom<String> for Init {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match (text.as_str(), text.strip_prefix("set:")) {
            ("real", _) => Ok(Init::Real),
            ("noise", _) => Ok(Init::Noise),
            (_, Some(folder)) if !folder.is_empty() => Ok(Init::Set(PathBuf::from(folder))),
            _ => Err(format!("'{text}' is no beginning of pairs: it is \"real\", \"noise\" or \"set:FOLDER\"")),
        }
    }
}

impl From<Init> for String {
    fn from(init: Init) -> String {
        match init {
            Init::Real => "real".to_owned(),
            Init::Noise => "noise".to_owned(),
            Init::Set(folder) => format!("set:{}", folder.display()),
        }
    }
}

impl Default for DistillConfig {
    fn default() -> Self {
        Self {
            method: "covmatch".to_owned(),
            pairs: 100,
            rho: 1.0,
            lambda: None,
            units: Units::Relative,
            lr_image: None,
            lr_text: None,
            momentum: 0.5,
            rounds: 200,
            steps_per_round: 50,
            real_batch: 128,
            share_real_batch: false,
            synthetic_batch: None,
            learn: Learn::Both,
            init: Init::Real,
        }
    }
}

impl DistillConfig {
    /// Steps of the whole run.
    pub fn steps(&self) -> u64 {
        self.rounds as u64 * self.steps_per_round as u64
    }

    /// Weight of `L_feat` against `L_cov`.
    pub fn lambda(&self) -> f32 {
        self.lambda.unwrap_or(match self.units {
            Units::Absolute => 0.1,
            Units::Relative => 10.0,
        })
    }

    /// Learning rates of pixels and captions; in absolute units those of the method's authors are `authors`.
    pub fn rates(&self, authors: f32) -> Branches<f32> {
        let default = match self.units {
            Units::Relative => 0.015,
            Units::Absolute => authors,
        };
        Branches { image: self.lr_image.unwrap_or(default), text: self.lr_text.unwrap_or(default) }
    }

    /// Synthetic pairs in a step.
    pub fn synthetic_batch(&self) -> usize {
        self.synthetic_batch.unwrap_or(self.pairs).min(self.pairs)
    }

    pub(super) fn problem(&self) -> Option<String> {
        let finite = |x: f32| x >= 0.0 && x.is_finite();
        let two = "at least 2, as a covariance needs two pairs";
        let (lr_image, lr_text) = (self.lr_image.unwrap_or_default(), self.lr_text.unwrap_or_default());
        first([
            require(self.pairs >= 2, "distill.pairs", two, self.pairs),
            require(self.real_batch >= 2, "distill.real_batch", two, self.real_batch),
            require(self.synthetic_batch() >= 2, "distill.synthetic_batch", two, self.synthetic_batch()),
            require(self.rounds > 0, "distill.rounds", "at least 1", self.rounds),
            require(self.steps_per_round > 0, "distill.steps_per_round", "at least 1", self.steps_per_round),
            require(finite(self.rho), "distill.rho", "0 or more", self.rho),
            require(finite(self.lambda()), "distill.lambda", "0 or more", self.lambda()),
            require(finite(lr_image), "distill.lr_image", "0 or more", lr_image),
            require(finite(lr_text), "distill.lr_text", "0 or more", lr_text),
            require((0.0..1.0).contains(&self.momentum), "distill.momentum", "in [0, 1)", self.momentum),
        ])
    }
}

/// How the model that the pairs are matched on is trained between steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OnlineConfig {
    /// What it is trained on.
    pub update: OnlineUpdate,
    /// Real pairs in a step of its training; as many as in a step of matching if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Learning rates, momentum and weight decay.
    pub rates: TrainRates,
    /// Whether the transformer layers of the text encoder are trained.
    pub train_text_encoder: bool,
}

/// What the model is trained on between steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnlineUpdate {
    /// Real pairs.
    #[default]
    Real,
    /// The synthetic pairs.
    Synthetic,
    /// Nothing: the model of a round stays as it starts.
    None,
}

impl Default for OnlineConfig {
    fn default() -> Self {
        Self { update: OnlineUpdate::Real, batch: None, rates: TrainRates::default(), train_text_encoder: true }
    }
}

impl OnlineConfig {
    pub(super) fn problem(&self) -> Option<String> {
        let compares = "at least 2, as InfoNCE compares pairs";
        let batch = self.batch.and_then(|batch| require(batch >= 2, "online.batch", compares, batch));
        first([batch, rates_problem(&self.rates, "online.rates")])
    }
}
