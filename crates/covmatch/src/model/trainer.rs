//! A model in training: the one loop that descends a model on batches.
//!
//! ```text
//! for each example:   L = InfoNCE, or the loss of a learned similarity      dropout on, drawn from a stream
//!                     model <- SGD step along dL
//! ```
//! Evaluation, the upper bound, experts and warm-ups go over epochs; CovMatch's online model takes single steps.

use burn::tensor::{Device, Tensor};

use super::{Forwarded, Inputs, Model, ModelOptimizer, PartRates};
use crate::data::loader::Batch;
use crate::encoders::{EncoderError, Mode};
use crate::engine::Stream;
use crate::losses::cross_covariance::Features;
use crate::losses::{PairLoss, info_nce};

/// A model in training and its momentum.
#[derive(Clone, Debug)]
pub struct Trainer {
    model: Model,
    optimizer: ModelOptimizer,
    /// Temperature of the similarity.
    tau: f32,
    device: Device,
}

/// What a step is trained on.
#[allow(clippy::large_enum_variant)] // one exists at a time
#[derive(Debug)]
pub enum Example {
    /// A batch of the data, which the model embeds.
    Batch(Batch),
    /// Pairs that are embedded already; each picture belongs to its own caption.
    Pairs(Inputs),
    /// The same with a similarity `[n, n]` that was learned with them, and its loss.
    Similar(Inputs, PairLoss, Tensor<2>),
}

/// What a step saw before it moved the model.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The loss; if it is not finite the model has not moved.
    pub loss: f32,
    /// The captions of a batch of the data, indices into `Dataset::captions`; none of embedded pairs.
    pub captions: Vec<u32>,
    /// `z_v` and `z_l`, `[n, z]`.
    pub z: Features,
}

impl Trainer {
    /// Training of `model` on `device` that begins.
    pub fn new(model: Model, tau: f32, device: &Device) -> Self {
        Self::resumed(model, ModelOptimizer::default(), tau, device)
    }

    /// Training that goes on with the momentum of `optimizer`.
    pub fn resumed(model: Model, optimizer: ModelOptimizer, tau: f32, device: &Device) -> Self {
        Self { model, optimizer, tau, device: device.clone() }
    }

    /// The model as it is.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Its momentum.
    pub fn optimizer(&self) -> &ModelOptimizer {
        &self.optimizer
    }

    /// The model as it is, alone.
    pub fn into_model(self) -> Model {
        self.model
    }

    /// The trainer after one step on `example`, with masks from `dropout`.
    pub fn step(self, example: Example, rates: PartRates, dropout: &mut Stream) -> Result<(Self, Seen), EncoderError> {
        let mode = &mut Mode::Train(dropout);
        let (captions, inputs, similar) = match example {
            Example::Batch(batch) => {
                let captions = batch.captions.clone();
                (captions, self.model.inputs(batch, mode, &self.device)?, None)
            }
            Example::Pairs(inputs) => (Vec::new(), inputs, None),
            Example::Similar(inputs, loss, similarity) => (Vec::new(), inputs, Some((loss, similarity))),
        };
        let Self { model, mut optimizer, tau, device } = self;
        let forwarded = model.forward(inputs, mode)?;
        let z = forwarded.projected();
        let (model, loss) = forwarded.descend(rates, &mut optimizer, |z| match similar {
            Some((loss, similarity)) => loss.of(z, tau, similarity.autodiff()),
            None => info_nce(z.image, z.text, tau),
        });
        Ok((Self { model, optimizer, tau, device }, Seen { loss, captions, z }))
    }

    /// The trainer after a step of InfoNCE on a batch that went through its model already, and the loss before it.
    pub fn step_on(self, forwarded: Forwarded, rates: PartRates) -> (Self, f32) {
        let Self { model, mut optimizer, tau, device } = self;
        drop(model); // so that the weights are updated in place
        let (model, loss) = forwarded.descend(rates, &mut optimizer, |z| info_nce(z.image, z.text, tau));
        (Self { model, optimizer, tau, device }, loss)
    }

    /// The trainer after a step on each of `examples`, and the mean of their losses; `watch` is shown every step.
    ///
    /// A loss that is not finite ends the epoch and is returned.
    pub fn epoch<E: From<EncoderError>>(
        self,
        examples: impl Iterator<Item = Result<Example, E>>,
        rates: PartRates,
        dropout: &mut Stream,
        watch: &mut dyn FnMut(&Seen),
    ) -> Result<(Self, f32), E> {
        let (mut trainer, mut sum, mut count) = (self, 0.0, 0);
        for example in examples {
            let seen;
            (trainer, seen) = trainer.step(example?, rates, dropout)?;
            if !seen.loss.is_finite() {
                return Ok((trainer, seen.loss));
            }
            watch(&seen);
            (sum, count) = (sum + seen.loss, count + 1);
        }
        Ok((trainer, sum / count.max(1) as f32))
    }
}
