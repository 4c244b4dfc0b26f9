//! Pretrained networks that turn images, clips and captions into features, and the head that projects features.
//!
//! Parameters carry the names that the original libraries (timm, Hugging Face transformers, torchvision) give them,
//! so a checkpoint of theirs loads without conversion and a network trained here loads back into PyTorch.

pub mod image;
pub mod kinks;
pub(crate) mod layers;
pub mod macs;
pub mod projection;
pub mod text;
pub mod video;
pub mod weights;

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use covmatch_kernels::{Dropout, dropout};

use crate::engine::Stream;
use kinks::Kinks;

/// Whether a forward pass drops activations, and from which random stream the masks are drawn.
#[derive(Debug)]
pub enum Mode<'a> {
    /// Dropout off.
    Eval,
    /// Dropout on wherever the original network has it.
    Train(&'a mut Stream),
}

impl Mode<'_> {
    /// The next dropout with `probability`, or `None` when there is nothing to drop.
    pub fn next_dropout(&mut self, probability: f32) -> Option<Dropout> {
        match self {
            Mode::Train(stream) if probability > 0.0 => Some(Dropout { probability, seed: stream.next_u64() }),
            _ => None,
        }
    }

    /// Applies the next dropout to `x`; the identity in [`Mode::Eval`].
    pub fn dropout<const D: usize>(&mut self, x: Tensor<D>, probability: f32) -> Tensor<D> {
        match self.next_dropout(probability) {
            Some(drop) => dropout(x, drop),
            None => x,
        }
    }
}

/// Why an encoder refuses its input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncoderError {
    /// The input holds no example.
    #[error("the batch is empty: give at least one example")]
    EmptyBatch,
    /// The input's shape does not fit the encoder.
    #[error("{encoder} takes {expected}, got {got:?}")]
    Shape {
        /// Name of the encoder.
        encoder: String,
        /// What it takes, in words.
        expected: String,
        /// Shape of the input.
        got: Vec<usize>,
    },
    /// A token is not in the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocab} entries: tokenise with the encoder's own tokenizer")]
    Token {
        /// The token.
        id: i64,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// An encoder of that name does not exist.
    #[error("there is no {kind} encoder '{name}'; known names: {known}")]
    Unknown {
        /// "image", "video" or "text".
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// The names that exist, separated by commas.
        known: String,
    },
}

/// Turns pixels into one feature vector an image. None of the networks drops activations on the way to its features.
pub trait ImageEncoder: Module {
    /// `pixels` `[n, 3, h, w]`, normalised, to features `[n, d_v]`.
    fn encode(&self, pixels: Tensor<4>) -> Result<Tensor<2>, EncoderError> {
        self.forward(pixels, &mut Kinks::Free)
    }

    /// [`Self::encode`] with layers that treat their kinks as `kinks` says.
    fn forward(&self, pixels: Tensor<4>, kinks: &mut Kinks) -> Result<Tensor<2>, EncoderError>;

    /// `d_v`.
    fn feature_dim(&self) -> usize;
}

/// Turns clips into one feature vector each. None of the networks drops activations on the way to its features.
pub trait VideoEncoder: Module {
    /// `frames` `[n, 3, t, h, w]`, normalised, to features `[n, d_v]`.
    fn encode(&self, frames: Tensor<5>) -> Result<Tensor<2>, EncoderError> {
        self.forward(frames, &mut Kinks::Free)
    }

    /// [`Self::encode`] with layers that treat their kinks as `kinks` says.
    fn forward(&self, frames: Tensor<5>, kinks: &mut Kinks) -> Result<Tensor<2>, EncoderError>;

    /// `d_v`.
    fn feature_dim(&self) -> usize;
}

/// Turns captions into one feature vector each, in two parts: synthetic captions exist only after the first.
pub trait TextEncoder: Module {
    /// Token ids `[n, l]` to the input of the transformer layers `[n, l, d_l]`: token, position and segment embeddings,
    /// LayerNorm, and dropout in train mode. This part is frozen.
    fn embed(&self, tokens: Tensor<2, Int>, mode: &mut Mode) -> Result<Tensor<3>, EncoderError>;

    /// `embedded` `[n, l, d_l]` and `mask` `[n, l]` (1 for a token, 0 for padding) to features `[n, d_l]`.
    fn encode(&self, embedded: Tensor<3>, mask: Tensor<2>, mode: &mut Mode) -> Result<Tensor<2>, EncoderError>;

    /// `d_l`.
    fn feature_dim(&self) -> usize;
}
