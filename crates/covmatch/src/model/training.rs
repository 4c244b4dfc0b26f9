//! One step of training a model with InfoNCE.

use burn::module::Module;
use burn::tensor::{Gradients, Tensor};
use serde::{Deserialize, Serialize};

use super::{Inputs, Model};
use crate::encoders::{EncoderError, Mode};
use crate::losses::info_nce::{contrast, logits};
use crate::optimize::{Sgd, SgdRates};

/// Rates of the encoders and of the heads. The defaults are the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainRates {
    /// Learning rate of both encoders.
    pub lr_encoder: f32,
    /// Learning rate of both heads.
    pub lr_head: f32,
    /// Momentum.
    pub momentum: f32,
    /// Weight decay.
    pub weight_decay: f32,
}

impl Default for TrainRates {
    fn default() -> Self {
        Self { lr_encoder: 0.01, lr_head: 0.1, momentum: 0.9, weight_decay: 5e-4 }
    }
}

impl TrainRates {
    /// The same with both learning rates multiplied by `factor`.
    pub fn scaled(self, factor: f32) -> Self {
        Self { lr_encoder: self.lr_encoder * factor, lr_head: self.lr_head * factor, ..self }
    }

    fn encoder(&self) -> SgdRates {
        SgdRates { lr: self.lr_encoder, momentum: self.momentum, weight_decay: self.weight_decay }
    }

    fn head(&self) -> SgdRates {
        SgdRates { lr: self.lr_head, ..self.encoder() }
    }
}

/// The velocities of a model's four parts.
#[derive(Clone, Debug, Default)]
pub struct ModelOptimizer {
    /// Of the image or video encoder.
    pub visual: Sgd,
    /// Of the text encoder.
    pub text: Sgd,
    /// Of the visual head.
    pub image_head: Sgd,
    /// Of the text head.
    pub text_head: Sgd,
}

impl ModelOptimizer {
    /// `model` after a step along `gradients`.
    fn step(&mut self, model: Model, mut gradients: Gradients, rates: TrainRates) -> Model {
        let gradients = &mut gradients;
        Model {
            visual: self.visual.step(model.visual, gradients, rates.encoder()),
            text: self.text.step(model.text, gradients, rates.encoder()),
            image_head: self.image_head.step(model.image_head, gradients, rates.head()),
            text_head: self.text_head.step(model.text_head, gradients, rates.head()),
        }
    }
}

/// A model after a step, and what the step saw before it.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The model after the step.
    pub model: Model,
    /// The loss before it.
    pub loss: f32,
    /// The similarities before it, over tau, `[n, n]`: images down, captions across.
    pub logits: Tensor<2>,
}

impl Model {
    /// One step of InfoNCE at temperature `tau` on `inputs`. Returns the model and the loss before the step.
    ///
    /// A loss that is not finite leaves the parameters as they were.
    pub fn train_step(
        self,
        inputs: Inputs,
        tau: f32,
        rates: TrainRates,
        optimizer: &mut ModelOptimizer,
        mode: &mut Mode,
    ) -> Result<(Self, f32), EncoderError> {
        let Trained { model, loss, .. } = self.watched_step(inputs, tau, rates, optimizer, mode)?;
        Ok((model, loss))
    }

    /// [`Model::train_step`] that also shows the similarities which the loss was computed from.
    pub fn watched_step(
        self,
        inputs: Inputs,
        tau: f32,
        rates: TrainRates,
        optimizer: &mut ModelOptimizer,
        mode: &mut Mode,
    ) -> Result<Trained, EncoderError> {
        let model = self.train();
        let features = model.features(inputs.autodiff(), mode)?;
        let z = model.project(features, mode)?;
        let logits = logits(z.image, z.text, tau);
        let loss = contrast(logits.clone());
        let (logits, value) = (logits.inner(), loss.clone().into_scalar::<f32>());
        if !value.is_finite() {
            return Ok(Trained { model: model.valid(), loss: value, logits });
        }
        let gradients = loss.backward();
        Ok(Trained { model: optimizer.step(model, gradients, rates).valid(), loss: value, logits })
    }
}

impl Inputs {
    /// The same values in the graph of autodiff, but not tracked.
    pub fn autodiff(self) -> Self {
        Self { pixels: self.pixels.autodiff(), text: self.text.autodiff(), mask: self.mask.autodiff() }
    }
}
