//! DistilBERT (Sanh et al. 2019, <https://arxiv.org/abs/1910.01108>) as Hugging Face transformers has it.
//!
//! BERT's layers under other names, without segment embeddings and without dropout after the attention's output.
//! Weights: `distilbert-base-uncased`; `distilbert-cased-grammar`, a cased one that was tuned to mark grammatical errors after its
//! masked-language training and has seen no caption of an image.

#![allow(non_snake_case)] // `LayerNorm` is upstream's name of a field

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use super::block::{Block, BlockForm};
use super::embeddings::{Embedding, Limits};
use super::pooling::Pooling;
use crate::encoders::layers::{LayerNorm, Linear};
use crate::encoders::{EncoderError, Mode, TextEncoder};

/// Epsilon of the layer norms; not part of `config.json`.
const EPS: f32 = 1e-12;

/// The form of a DistilBERT; field names are those of `config.json`.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
pub struct DistilBertConfig {
    /// Entries of the vocabulary.
    pub vocab_size: usize,
    /// Width of the layers, `d_l`.
    pub dim: usize,
    /// Number of transformer layers.
    pub n_layers: usize,
    /// Attention heads; they divide `dim`.
    pub n_heads: usize,
    /// Width of the feed-forward layers.
    pub hidden_dim: usize,
    /// The longest sequence.
    pub max_position_embeddings: usize,
    /// Dropout after the embeddings and after each feed-forward layer.
    pub dropout: f32,
    /// Dropout of the attention probabilities.
    pub attention_dropout: f32,
}

impl DistilBertConfig {
    /// `distilbert-base-uncased`.
    pub const BASE_UNCASED: Self = Self {
        vocab_size: 30522,
        dim: 768,
        n_layers: 6,
        n_heads: 12,
        hidden_dim: 3072,
        max_position_embeddings: 512,
        dropout: 0.1,
        attention_dropout: 0.1,
    };
    /// `distilbert-base-cased`, whose form `distilbert-cased-grammar` has.
    pub const BASE_CASED: Self = Self { vocab_size: 28996, ..Self::BASE_UNCASED };
}

/// DistilBERT. The embeddings are frozen.
#[derive(Module, Debug)]
pub struct DistilBert {
    embeddings: Embeddings,
    transformer: Transformer,
    #[module(skip)]
    limits: Limits,
    #[module(skip)]
    dropout: f32,
    #[module(skip)]
    pooling: Pooling,
}

impl DistilBert {
    /// With weights yet to be loaded; `name` is what its errors call it.
    pub fn new(name: &str, config: &DistilBertConfig, pooling: Pooling, device: &Device) -> Self {
        Self {
            embeddings: Embeddings::new(config, device),
            transformer: Transformer { layer: (0..config.n_layers).map(|_| Layer::new(config, device)).collect() },
            limits: Limits {
                encoder: name.to_owned(),
                vocab: config.vocab_size,
                positions: config.max_position_embeddings,
                width: config.dim,
            },
            dropout: config.dropout,
            pooling,
        }
    }
}

impl TextEncoder for DistilBert {
    fn embed(&self, tokens: Tensor<2, Int>, mode: &mut Mode) -> Result<Tensor<3>, EncoderError> {
        self.limits.check_tokens(&tokens)?;
        Ok(mode.dropout(self.embeddings.forward(tokens), self.dropout))
    }

    fn encode(&self, embedded: Tensor<3>, mask: Tensor<2>, mode: &mut Mode) -> Result<Tensor<2>, EncoderError> {
        self.limits.check_embedded(&embedded, &mask)?;
        let blocks: Vec<Block> = self.transformer.layer.iter().map(Layer::block).collect();
        Ok(self.pooling.run(&blocks, embedded, mask, mode))
    }

    fn feature_dim(&self) -> usize {
        self.limits.width
    }
}

/// Token and position embeddings, summed and normalised.
#[derive(Module, Debug)]
struct Embeddings {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    LayerNorm: LayerNorm,
}

impl Embeddings {
    fn new(config: &DistilBertConfig, device: &Device) -> Self {
        Self {
            word_embeddings: Embedding::new(config.vocab_size, config.dim, device),
            position_embeddings: Embedding::new(config.max_position_embeddings, config.dim, device),
            LayerNorm: LayerNorm::new(config.dim, EPS, device).no_grad(),
        }
    }

    /// Token ids `[n, l]` to `[n, l, d_l]`.
    fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let [_, l] = tokens.dims();
        self.LayerNorm.forward(self.word_embeddings.rows(tokens) + self.position_embeddings.first_rows(l))
    }
}

#[derive(Module, Debug)]
struct Transformer {
    layer: Vec<Layer>,
}

#[derive(Module, Debug)]
struct Layer {
    attention: Attention,
    sa_layer_norm: LayerNorm,
    ffn: FeedForward,
    output_layer_norm: LayerNorm,
    #[module(skip)]
    form: BlockForm,
}

#[derive(Module, Debug)]
struct Attention {
    q_lin: Linear,
    k_lin: Linear,
    v_lin: Linear,
    out_lin: Linear,
}

#[derive(Module, Debug)]
struct FeedForward {
    lin1: Linear,
    lin2: Linear,
}

impl Layer {
    fn new(config: &DistilBertConfig, device: &Device) -> Self {
        let projection = || Linear::new(config.dim, config.dim, device);
        Self {
            attention: Attention {
                q_lin: projection(),
                k_lin: projection(),
                v_lin: projection(),
                out_lin: projection(),
            },
            sa_layer_norm: LayerNorm::new(config.dim, EPS, device),
            ffn: FeedForward {
                lin1: Linear::new(config.dim, config.hidden_dim, device),
                lin2: Linear::new(config.hidden_dim, config.dim, device),
            },
            output_layer_norm: LayerNorm::new(config.dim, EPS, device),
            form: BlockForm {
                heads: config.n_heads,
                probabilities_dropout: config.attention_dropout,
                attention_dropout: 0.0,
                output_dropout: config.dropout,
            },
        }
    }

    fn block(&self) -> Block<'_> {
        Block {
            query: &self.attention.q_lin,
            key: &self.attention.k_lin,
            value: &self.attention.v_lin,
            attention_output: &self.attention.out_lin,
            attention_norm: &self.sa_layer_norm,
            intermediate: &self.ffn.lin1,
            output: &self.ffn.lin2,
            output_norm: &self.output_layer_norm,
            form: self.form,
        }
    }
}
