//! One step of training a model.

use burn::module::Module;
use burn::tensor::{Gradients, Tensor};
use covmatch_kernels::side_by_side;
use serde::{Deserialize, Serialize};

use super::{Branches, Inputs, Model};
use crate::encoders::{EncoderError, Mode};
use crate::losses::cross_covariance::Features;
use crate::losses::info_nce;
use crate::losses::info_nce::logits;
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
}

/// The descent of a model's four parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartRates {
    /// Of the image or video encoder.
    pub visual: SgdRates,
    /// Of the text encoder.
    pub text: SgdRates,
    /// Of the visual head.
    pub image_head: SgdRates,
    /// Of the text head.
    pub text_head: SgdRates,
}

impl From<TrainRates> for PartRates {
    fn from(rates: TrainRates) -> Self {
        let TrainRates { lr_encoder, lr_head, momentum, weight_decay } = rates;
        let (encoder, head) =
            (SgdRates { lr: lr_encoder, momentum, weight_decay }, SgdRates { lr: lr_head, momentum, weight_decay });
        Self { visual: encoder, text: encoder, image_head: head, text_head: head }
    }
}

impl PartRates {
    /// One learning rate for each side of the model.
    pub fn of_branches(lr: Branches<f32>, momentum: f32, weight_decay: f32) -> Self {
        let Branches { image, text } = lr.map(|lr| SgdRates { lr, momentum, weight_decay });
        Self { visual: image, text, image_head: image, text_head: text }
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
    /// `model` after a step along `gradients`, those of the features `z` that it computed.
    ///
    /// The graphs of the branches meet in the loss only: behind it each of them is traversed by itself.
    fn step(&mut self, model: Model, z: Features, gradients: Branches<Option<Tensor<2>>>, rates: PartRates) -> Model {
        let Model { visual, text, image_head, text_head } = model;
        let visual = Part { module: visual, sgd: &mut self.visual, rates: rates.visual };
        let image_head = Part { module: image_head, sgd: &mut self.image_head, rates: rates.image_head };
        let text = Part { module: text, sgd: &mut self.text, rates: rates.text };
        let text_head = Part { module: text_head, sgd: &mut self.text_head, rates: rates.text_head };
        let ((visual, image_head), (text, text_head)) = side_by_side(
            &z.image.device(),
            || branch_step(visual, image_head, z.image, gradients.image),
            || branch_step(text, text_head, z.text, gradients.text),
        );
        Model { visual, text, image_head, text_head }
    }
}

/// A part of a model, and how it descends.
struct Part<'a, M> {
    module: M,
    sgd: &'a mut Sgd,
    rates: SgdRates,
}

impl<M: Module> Part<'_, M> {
    fn step(self, gradients: &mut Gradients) -> M {
        self.sgd.step(self.module, gradients, self.rates)
    }
}

/// The encoder and the head of a branch after a step along `gradient`, that of the features `z` that they computed; as they
/// were if the loss does not depend on `z`.
fn branch_step<E: Module, H: Module>(
    encoder: Part<E>,
    head: Part<H>,
    z: Tensor<2>,
    gradient: Option<Tensor<2>>,
) -> (E, H) {
    let Some(gradient) = gradient else { return (encoder.module, head.module) };
    // The linear function with that gradient. Its factor is tracked, so that there is a graph if all else is frozen.
    let mut gradients = (z * gradient.autodiff().require_grad()).sum().backward();
    (encoder.step(&mut gradients), head.step(&mut gradients))
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
        rates: impl Into<PartRates>,
        optimizer: &mut ModelOptimizer,
        mode: &mut Mode,
    ) -> Result<(Self, f32), EncoderError> {
        self.descend(inputs, rates.into(), optimizer, mode, |z| info_nce(z.image, z.text, tau))
    }

    /// [`Model::train_step`] that also shows the similarities which the loss was computed from.
    pub fn watched_step(
        self,
        inputs: Inputs,
        tau: f32,
        rates: impl Into<PartRates>,
        optimizer: &mut ModelOptimizer,
        mode: &mut Mode,
    ) -> Result<Trained, EncoderError> {
        let forwarded = self.forward(inputs, mode)?;
        let z = forwarded.projected();
        let (model, loss) = forwarded.descend(rates.into(), optimizer, |z| info_nce(z.image, z.text, tau));
        Ok(Trained { model, loss, logits: logits(z.image, z.text, tau) })
    }

    /// One step along `loss`, a function of the projected features of `inputs`, as [`train_step`](Self::train_step).
    pub fn descend(
        self,
        inputs: Inputs,
        rates: PartRates,
        optimizer: &mut ModelOptimizer,
        mode: &mut Mode,
        loss: impl FnOnce(Features) -> Tensor<1>,
    ) -> Result<(Self, f32), EncoderError> {
        Ok(self.forward(inputs, mode)?.descend(rates, optimizer, loss))
    }

    /// `inputs` through the model, with all that a step along a loss needs.
    pub fn forward(self, inputs: Inputs, mode: &mut Mode) -> Result<Forwarded, EncoderError> {
        let model = self.train();
        let features = model.features(inputs.autodiff(), mode)?;
        let projected = model.project(features.clone(), mode)?;
        Ok(Forwarded { model, features, projected })
    }
}

/// A batch that went through a model, and the graph of how it did.
#[derive(Debug)]
pub struct Forwarded {
    model: Model,
    features: Features,
    projected: Features,
}

impl Forwarded {
    /// The values of `h`, `[n, d]`.
    pub fn features(&self) -> Features {
        let Features { image, text } = self.features.clone();
        Features { image: image.inner(), text: text.inner() }
    }

    /// The values of `z`, `[n, z]`.
    pub fn projected(&self) -> Features {
        let Features { image, text } = self.projected.clone();
        Features { image: image.inner(), text: text.inner() }
    }

    /// The model after a step along `loss`, a function of `z`, and the loss before it.
    ///
    /// A loss that is not finite leaves the parameters as they were.
    pub fn descend(
        self,
        rates: PartRates,
        optimizer: &mut ModelOptimizer,
        loss: impl FnOnce(Features) -> Tensor<1>,
    ) -> (Model, f32) {
        let Self { model, features, projected } = self;
        drop(features);
        let leaf = |z: &Tensor<2>| z.clone().detach().require_grad();
        let z = Branches { image: leaf(&projected.image), text: leaf(&projected.text) };
        let loss = loss(Features { image: z.image.clone(), text: z.text.clone() });
        let value = loss.clone().into_scalar::<f32>();
        if !value.is_finite() {
            return (model.valid(), value);
        }
        let mut gradients = loss.backward();
        let gradients =
            Branches { image: z.image.grad_remove(&mut gradients), text: z.text.grad_remove(&mut gradients) };
        (optimizer.step(model, projected, gradients, rates).valid(), value)
    }
}

impl Inputs {
    /// The same values in the graph of autodiff, but not tracked.
    pub fn autodiff(self) -> Self {
        let Self { pixels, text, mask, level } = self;
        Self { pixels: pixels.autodiff(), text: text.autodiff(), mask: mask.autodiff(), level }
    }
}
