//! The retrieval model: an encoder and a projection head for each modality.
//!
//! ```text
//! pixels          -> image or video encoder -> h_v -> head -> z_v \
//!                                                                  cosine / tau -> similarity
//! tokens -> embed -> text encoder           -> h_l -> head -> z_l /
//! ```
//! `L_cov` looks at `h`, before the heads; `L_feat` and InfoNCE at `z`, after them.

mod built_in;
mod pretrained;
mod trainer;
mod training;
mod velocities;
mod visual;

pub use crate::branches::Branches;
pub use pretrained::{EncoderSpec, ModelError, Pretrained, Weights};
pub use trainer::{Example, Seen, Trainer};
pub use training::{Differentiated, Forwarded, ModelOptimizer, PartRates, TrainRates};
pub use visual::{AnyVisualEncoder, VisualInfo};

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use covmatch_kernels::side_by_side;
use serde::{Deserialize, Serialize};

use crate::data::loader::Batch;
use crate::data::tokens::TokenBatch;
use crate::encoders::projection::{Projection, ProjectionConfig};
use crate::encoders::text::{AnyTextEncoder, encode_by_length};
use crate::encoders::{EncoderError, Mode, TextEncoder};
use crate::engine::Seed;
use crate::losses::cross_covariance::Features;

/// Both encoders and both heads.
#[derive(Module, Debug)]
pub struct Model {
    /// Image or video encoder.
    pub visual: AnyVisualEncoder,
    /// Text encoder.
    pub text: AnyTextEncoder,
    /// Head of the visual features; without one they are compared as they are.
    pub image_head: Option<Projection>,
    /// Head of the text features.
    pub text_head: Projection,
}

/// The form of the heads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadForm {
    /// Whether the visual features have a head.
    pub image: bool,
    /// Dimension of the shared space.
    pub width: usize,
    /// Linear layers of a head.
    pub depth: crate::encoders::projection::Depth,
    /// Dropout in a head.
    pub dropout: f32,
}

/// Pairs as the encoders take them.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// `[n, 3, t, h, w]`; a picture has `t = 1`.
    pub pixels: Tensor<5>,
    /// Embedded captions `[n, l, d_l]`.
    pub text: Tensor<3>,
    /// `[n, l]`: 1 on tokens, 0 on padding.
    pub mask: Tensor<2>,
    /// Where in the text encoder `text` belongs.
    pub level: TextLevel,
}

/// Where in the text encoder the captions of [`Inputs`] belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextLevel {
    /// Before the transformer layers: embedded tokens `[n, l, d_l]`.
    #[default]
    Inputs,
    /// Behind them: sentence features `[n, 1, d_l]`, which go to the head.
    Features,
}

impl Inputs {
    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.pixels.dims()[0]
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first `count` pairs.
    pub fn first(&self, count: usize) -> Self {
        Self {
            pixels: self.pixels.clone().narrow(0, 0, count),
            text: self.text.clone().narrow(0, 0, count),
            mask: self.mask.clone().narrow(0, 0, count),
            level: self.level,
        }
    }

    /// The pairs at `rows`, in that order.
    pub fn select(&self, rows: &Tensor<1, Int>) -> Self {
        Self {
            pixels: self.pixels.clone().select(0, rows.clone()),
            text: self.text.clone().select(0, rows.clone()),
            mask: self.mask.clone().select(0, rows.clone()),
            level: self.level,
        }
    }
}

impl Model {
    /// `pretrained` encoders with heads drawn from `seed`; `draw` numbers the models of one seed.
    pub fn new(pretrained: &Pretrained, heads: HeadForm, seed: Seed, draw: u64) -> Self {
        let head = |inputs: usize, purpose: &str| {
            let config = ProjectionConfig { inputs, width: heads.width, depth: heads.depth, dropout: heads.dropout };
            Projection::new(config, &mut seed.stream(purpose, draw), &pretrained.device)
        };
        Self {
            image_head: heads.image.then(|| head(pretrained.visual.feature_dim(), "head.image")),
            text_head: head(pretrained.text.feature_dim(), "head.text"),
            visual: pretrained.visual.clone(),
            text: pretrained.text.clone(),
        }
    }

    /// The same model with a text encoder that is not trained.
    pub fn with_frozen_text(self) -> Self {
        Self { text: self.text.no_grad(), ..self }
    }

    /// Features before the heads, `h_v` and `h_l`.
    pub fn features(&self, inputs: Inputs, mode: &mut Mode) -> Result<Features, EncoderError> {
        self.features_by(|pixels| self.visual.encode(pixels), inputs, mode)
    }

    /// The same, with visual features as `visual` makes them of pixels `[n, 3, t, h, w]`.
    pub(crate) fn features_by(
        &self,
        visual: impl FnOnce(Tensor<5>) -> Result<Tensor<2>, EncoderError> + Send,
        inputs: Inputs,
        mode: &mut Mode,
    ) -> Result<Features, EncoderError> {
        let Inputs { pixels, text, mask, level } = inputs;
        let (image, text) = side_by_side(
            &pixels.device(),
            || visual(pixels),
            || match level {
                TextLevel::Inputs => encode_by_length(&self.text, text, mask, mode),
                TextLevel::Features => Ok(text.squeeze_dim(1)),
            },
        );
        Ok(Features { image: image?, text: text? })
    }

    /// Features after the heads, `z_v` and `z_l`, unnormalised.
    pub fn project(&self, features: Features, mode: &mut Mode) -> Result<Features, EncoderError> {
        let Features { image, text } = features;
        Ok(Features { image: self.project_image(image, mode)?, text: self.text_head.forward(text, mode)? })
    }

    /// `z_v` of visual features `h_v`.
    pub fn project_image(&self, image: Tensor<2>, mode: &mut Mode) -> Result<Tensor<2>, EncoderError> {
        self.image_head.as_ref().map_or(Ok(image.clone()), |head| head.forward(image, mode))
    }

    /// A batch of the data on `device`, its captions embedded by this model.
    pub fn inputs(&self, batch: Batch, mode: &mut Mode, device: &Device) -> Result<Inputs, EncoderError> {
        let pixels = Tensor::from_data(TensorData::new(batch.pixels, batch.shape), device);
        let (text, mask) = self.embed(batch.tokens, mode, device)?;
        Ok(Inputs { pixels, text, mask, level: TextLevel::Inputs })
    }

    /// Captions as the transformer layers take them, `[n, l, d_l]`, and their mask `[n, l]`.
    pub fn embed(
        &self,
        tokens: TokenBatch,
        mode: &mut Mode,
        device: &Device,
    ) -> Result<(Tensor<3>, Tensor<2>), EncoderError> {
        let shape = [tokens.rows, tokens.length];
        let ids = Tensor::<2, Int>::from_data(TensorData::new(tokens.ids, shape), device);
        let mask = Tensor::from_data(TensorData::new(tokens.mask, shape), device);
        Ok((self.text.embed(ids, mode)?, mask))
    }
}
