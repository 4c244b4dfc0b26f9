//! `[image]`, `[text]`, `[head]`, `[evaluate]` and `[train]`: the model and how it is trained.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::{first, require};
use crate::data::transform::Normalization;
use crate::encoders::EncoderError;
use crate::encoders::projection::Depth;
use crate::encoders::text::Pooling;
use crate::model::{EncoderSpec, HeadForm, TrainRates, VisualInfo, Weights};

/// The image or video encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageConfig {
    /// A name that `covmatch encoders` lists.
    pub encoder: String,
    /// A file of weights or its folder; `built-in` or `generated`.
    pub weights: Weights,
    /// Width and height of the pictures in pixels.
    #[serde(default = "paper_size")]
    pub size: usize,
    /// Which mean and standard deviation pixels are normalised with.
    #[serde(default)]
    pub colours: Colours,
}

fn paper_size() -> usize {
    224
}

/// Which mean and standard deviation pixels are normalised with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Colours {
    /// CLIP's, for every encoder: the protocol of the paper.
    #[default]
    Clip,
    /// Those that the encoder was pretrained with.
    Encoder,
}

impl ImageConfig {
    /// The encoder and its weights.
    pub fn spec(&self) -> EncoderSpec {
        EncoderSpec { name: self.encoder.clone(), weights: self.weights.clone() }
    }

    /// How pixels are normalised.
    pub fn normalization(&self) -> Result<Normalization, EncoderError> {
        let info = VisualInfo::of(&self.encoder)?;
        Ok(match self.colours {
            Colours::Clip => Normalization::CLIP,
            Colours::Encoder => info.normalization,
        })
    }

    pub(super) fn problem(&self) -> Option<String> {
        require((8..=4096).contains(&self.size), "image.size", "from 8 to 4096 pixels", self.size)
    }
}

/// The text encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextConfig {
    /// A name that `covmatch encoders` lists.
    pub encoder: String,
    /// A file of weights or its folder; `built-in` or `generated`.
    pub weights: Weights,
    /// `tokenizer.json` or `vocab.txt`; looked for beside the weights if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<PathBuf>,
    /// Which vector stands for a caption.
    #[serde(default)]
    pub pooling: PoolingName,
}

/// Which vector stands for a caption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PoolingName {
    /// That of the `[CLS]` token.
    #[default]
    Cls,
    /// The mean over tokens.
    Mean,
}

impl PoolingName {
    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            PoolingName::Cls => "cls",
            PoolingName::Mean => "mean",
        }
    }
}

impl From<PoolingName> for Pooling {
    fn from(name: PoolingName) -> Pooling {
        match name {
            PoolingName::Cls => Pooling::Cls,
            PoolingName::Mean => Pooling::Mean,
        }
    }
}

impl TextConfig {
    /// The encoder and its weights.
    pub fn spec(&self) -> EncoderSpec {
        EncoderSpec { name: self.encoder.clone(), weights: self.weights.clone() }
    }
}

/// The projection heads and the similarity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HeadConfig {
    /// Whether images have a head too, as in CovMatch. MTT-VL and LoRS have one for captions alone, as wide as the image
    /// encoder's features.
    pub image: bool,
    /// Dimension of the space that images and captions share.
    pub width: usize,
    /// Linear layers of a head: 1, 2 or 3.
    pub depth: usize,
    /// Dropout in a head.
    pub dropout: f32,
    /// Temperature of InfoNCE.
    pub tau: f32,
}

impl Default for HeadConfig {
    fn default() -> Self {
        Self { image: true, width: 2304, depth: 2, dropout: 0.1, tau: 0.07 }
    }
}

impl HeadConfig {
    /// The form of both heads.
    pub fn form(&self) -> HeadForm {
        let depth = Depth::try_from(self.depth).unwrap_or_default();
        HeadForm { image: self.image, width: self.width, depth, dropout: self.dropout }
    }

    pub(super) fn problem(&self, image_encoder: &str) -> Option<String> {
        let features = VisualInfo::of(image_encoder).map_or(self.width, |info| info.feature_dim);
        let bare = "the image encoder's dimension, as head.image is false";
        first([
            require(self.width > 0, "head.width", "at least 1", self.width),
            require(self.image || self.width == features, "head.width", &format!("{features}, {bare}"), self.width),
            require(Depth::try_from(self.depth).is_ok(), "head.depth", "1, 2 or 3", self.depth),
            require((0.0..1.0).contains(&self.dropout), "head.dropout", "in [0, 1)", self.dropout),
            require(self.tau > 0.0 && self.tau.is_finite(), "head.tau", "above 0", self.tau),
        ])
    }
}

/// How a model is trained with InfoNCE and then tested.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Models trained from different seeds; results are their mean and standard deviation.
    pub runs: usize,
    /// Passes over the pairs.
    pub epochs: usize,
    /// Pairs in a step.
    pub batch: usize,
    /// Learning rates, momentum and weight decay.
    pub rates: TrainRates,
    /// Learning rates are multiplied by this at half of the epochs.
    pub decay: f32,
    /// Epochs in which the learning rates rise, in equal steps, to their full height; 0 begins there.
    pub warmup: usize,
    /// Bound on the norm of the gradient of all trained parameters of a step; none leaves gradients as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<f32>,
    /// Whether the transformer layers of the text encoder are trained.
    pub train_text_encoder: bool,
    /// Whether a set's own learning rates, where a method learned them, take the place of `rates`.
    pub learned_rates: bool,
    /// The model is tried on the validation split after every so many epochs, to choose one; 0 never tries.
    pub val_every: usize,
}

impl TrainConfig {
    /// The paper's training on distilled pairs.
    pub fn on_pairs() -> Self {
        let rates = TrainRates::default();
        Self {
            runs: 5,
            epochs: 100,
            batch: 128,
            rates,
            decay: 0.1,
            warmup: 0,
            clip: None,
            train_text_encoder: true,
            learned_rates: true,
            val_every: 20,
        }
    }

    /// The same training on a whole train split.
    pub fn on_everything() -> Self {
        Self { runs: 1, epochs: 10, val_every: 1, ..Self::on_pairs() }
    }

    /// The factor of the learning rates in `epoch`, counted from 0.
    pub fn rate_factor(&self, epoch: usize) -> f32 {
        let risen = if epoch < self.warmup { (epoch + 1) as f32 / (self.warmup + 1) as f32 } else { 1.0 };
        if epoch < self.epochs / 2 { risen } else { risen * self.decay }
    }

    pub(super) fn problem(&self, section: &str) -> Option<String> {
        let field = |name: &str| format!("{section}.{name}");
        first([
            require(self.runs > 0, &field("runs"), "at least 1", self.runs),
            require(self.epochs > 0, &field("epochs"), "at least 1", self.epochs),
            require(self.batch > 1, &field("batch"), "at least 2, as InfoNCE compares pairs", self.batch),
            require(self.decay > 0.0, &field("decay"), "above 0", self.decay),
            require(self.warmup < self.epochs, &field("warmup"), "fewer than the epochs", self.warmup),
            self.clip.and_then(|clip| require(clip > 0.0 && clip.is_finite(), &field("clip"), "above 0", clip)),
            rates_problem(&self.rates, &field("rates")),
        ])
    }
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self::on_pairs()
    }
}

/// What is wrong with `rates`, the section `field`.
pub(super) fn rates_problem(rates: &TrainRates, field: &str) -> Option<String> {
    let positive = |rate: f32| rate >= 0.0 && rate.is_finite();
    let TrainRates { lr_encoder, lr_head, momentum, weight_decay } = *rates;
    first([
        require(positive(lr_encoder), &format!("{field}.lr_encoder"), "0 or more", lr_encoder),
        require(positive(lr_head), &format!("{field}.lr_head"), "0 or more", lr_head),
        require((0.0..1.0).contains(&momentum), &format!("{field}.momentum"), "in [0, 1)", momentum),
        require(positive(weight_decay), &format!("{field}.weight_decay"), "0 or more", weight_decay),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_rise_in_equal_steps_stay_and_fall_at_half() {
        let config = TrainConfig { epochs: 8, warmup: 3, decay: 0.1, ..TrainConfig::on_pairs() };
        let factors: Vec<f32> = (0..8).map(|epoch| config.rate_factor(epoch)).collect();
        assert_eq!(factors, [0.25, 0.5, 0.75, 1.0, 0.1, 0.1, 0.1, 0.1]);
    }
}
