//! The retrieval model: an encoder and a projection head for each modality.
//!
//! ```text
//! pixels          -> image or video encoder -> h_v -> head -> z_v \
//!                                                                  cosine / tau -> similarity
//! tokens -> embed -> text encoder           -> h_l -> head -> z_l /
//! ```
//! `L_cov` looks at `h`, before the heads; `L_feat` and InfoNCE at `z`, after them.

pub(crate) mod built_in;
mod pretrained;
mod training;
mod visual;

pub use pretrained::{EncoderSpec, ModelError, Pretrained, Weights};
pub use training::{ModelOptimizer, TrainRates, Trained};
pub use visual::{AnyVisualEncoder, VisualInfo};

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};

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
    /// Head of the visual features.
    pub image_head: Projection,
    /// Head of the text features.
    pub text_head: Projection,
}

/// The form of the heads and whether the text encoder is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadForm {
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
        }
    }

    /// The pairs at `rows`, in that order.
    pub fn select(&self, rows: &Tensor<1, Int>) -> Self {
        Self {
            pixels: self.pixels.clone().select(0, rows.clone()),
            text: self.text.clone().select(0, rows.clone()),
            mask: self.mask.clone().select(0, rows.clone()),
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
            image_head: head(pretrained.visual.feature_dim(), "head.image"),
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
        let Inputs { pixels, text, mask } = inputs;
        let image = self.visual.encode(pixels, mode)?;
        Ok(Features { image, text: encode_by_length(&self.text, text, mask, mode)? })
    }

    /// Features after the heads, `z_v` and `z_l`, unnormalised.
    pub fn project(&self, features: Features, mode: &mut Mode) -> Result<Features, EncoderError> {
        let Features { image, text } = features;
        Ok(Features { image: self.image_head.forward(image, mode)?, text: self.text_head.forward(text, mode)? })
    }

    /// A batch of the data on `device`, its captions embedded by this model.
    pub fn inputs(&self, batch: Batch, mode: &mut Mode, device: &Device) -> Result<Inputs, EncoderError> {
        let pixels = Tensor::from_data(TensorData::new(batch.pixels, batch.shape), device);
        let (text, mask) = self.embed(batch.tokens, mode, device)?;
        Ok(Inputs { pixels, text, mask })
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
