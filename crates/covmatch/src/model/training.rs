//! One step of training a model.

use burn::module::Module;
use burn::tensor::{Device, Gradients, Tensor};
use covmatch_kernels::side_by_side;
use serde::{Deserialize, Serialize};

use super::{Branches, Inputs, Model};
use crate::encoders::{EncoderError, Mode};
use crate::losses::cross_covariance::Features;
use crate::losses::info_nce;
use crate::optimize::{Sgd, SgdRates, squared_norm};

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
    /// Bound on the norm of the gradient of all four; none leaves it as it is.
    pub clip: Option<f32>,
}

impl From<TrainRates> for PartRates {
    fn from(rates: TrainRates) -> Self {
        let TrainRates { lr_encoder, lr_head, momentum, weight_decay } = rates;
        let (encoder, head) =
            (SgdRates { lr: lr_encoder, momentum, weight_decay }, SgdRates { lr: lr_head, momentum, weight_decay });
        Self { visual: encoder, text: encoder, image_head: head, text_head: head, clip: None }
    }
}

impl PartRates {
    /// One learning rate for each side of the model.
    pub fn of_branches(lr: Branches<f32>, momentum: f32, weight_decay: f32) -> Self {
        let Branches { image, text } = lr.map(|lr| SgdRates { lr, momentum, weight_decay });
        Self { visual: image, text, image_head: image, text_head: text, clip: None }
    }

    /// The same, along gradients whose norm is at most `clip`.
    pub fn with_clip(self, clip: Option<f32>) -> Self {
        Self { clip, ..self }
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
    /// The model of `differentiated` after a step along its gradients; a branch that has none stays as it is.
    fn step(&mut self, differentiated: Differentiated, rates: PartRates) -> Model {
        let scale = rates.clip.map_or(1.0, |clip| differentiated.scale_to(clip));
        let Differentiated { model: Model { visual, text, image_head, text_head }, gradients, device, .. } =
            differentiated;
        let ((visual, image_head), (text, text_head)) = side_by_side(
            &device,
            || match gradients.image {
                Some(mut gradients) => (
                    self.visual.step(visual, &mut gradients, scale, rates.visual),
                    self.image_head.step(image_head, &mut gradients, scale, rates.image_head),
                ),
                None => (visual, image_head),
            },
            || match gradients.text {
                Some(mut gradients) => (
                    self.text.step(text, &mut gradients, scale, rates.text),
                    self.text_head.step(text_head, &mut gradients, scale, rates.text_head),
                ),
                None => (text, text_head),
            },
        );
        Model { visual, text, image_head, text_head }
    }
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
        self.features.clone().map(Tensor::inner)
    }

    /// The values of `z`, `[n, z]`.
    pub fn projected(&self) -> Features {
        self.projected.clone().map(Tensor::inner)
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
        self.backward(loss).step(rates, optimizer)
    }

    /// The gradients of `loss`, a function of `z`; none if it is not finite.
    ///
    /// The graphs of the branches meet in the loss only: behind it each of them is traversed by itself.
    pub fn backward(self, loss: impl FnOnce(Features) -> Tensor<1>) -> Differentiated {
        let Self { model, features, projected } = self;
        drop(features);
        let device = projected.image.device();
        let leaf = |z: &Tensor<2>| z.clone().detach().require_grad();
        let z = Features { image: leaf(&projected.image), text: leaf(&projected.text) };
        let loss = loss(z.clone());
        let value = loss.clone().into_scalar::<f32>();
        if !value.is_finite() {
            return Differentiated { model, gradients: Branches::default(), loss: value, device };
        }
        let at_z = &mut loss.backward();
        let (image, text) = (z.image.grad_remove(at_z), z.text.grad_remove(at_z));
        let (image, text) = side_by_side(
            &device,
            || image.map(|gradient| pull_back(projected.image, gradient)),
            || text.map(|gradient| pull_back(projected.text, gradient)),
        );
        Differentiated { model, gradients: Branches { image, text }, loss: value, device }
    }
}

/// The gradients of whatever computed `z` from `gradient`, that of `z`.
fn pull_back(z: Tensor<2>, gradient: Tensor<2>) -> Gradients {
    // The linear function with that gradient. Its factor is tracked, so that there is a graph if all else is frozen.
    (z * gradient.autodiff().require_grad()).sum().backward()
}

/// A model and the gradients of a loss.
pub struct Differentiated {
    model: Model,
    gradients: Branches<Option<Gradients>>,
    loss: f32,
    device: Device,
}

impl Differentiated {
    /// The factor that makes the norm of the gradients `clip`; 1 if it is not above it.
    fn scale_to(&self, clip: f32) -> f32 {
        let Model { visual, text, image_head, text_head } = &self.model;
        let of_image = |gradients| squared_norm(visual, gradients) + squared_norm(image_head, gradients);
        let of_text = |gradients| squared_norm(text, gradients) + squared_norm(text_head, gradients);
        let image = self.gradients.image.as_ref().map_or(0.0, of_image);
        let norm = (image + self.gradients.text.as_ref().map_or(0.0, of_text)).sqrt();
        if norm > f64::from(clip) { (f64::from(clip) / norm) as f32 } else { 1.0 }
    }

    /// The model after a step along the gradients, and the loss before it.
    pub fn step(self, rates: PartRates, optimizer: &mut ModelOptimizer) -> (Model, f32) {
        let loss = self.loss;
        (optimizer.step(self, rates).valid(), loss)
    }
}

impl Inputs {
    /// The same values in the graph of autodiff, but not tracked.
    pub fn autodiff(self) -> Self {
        let Self { pixels, text, mask, level } = self;
        Self { pixels: pixels.autodiff(), text: text.autodiff(), mask: mask.autodiff(), level }
    }
}
