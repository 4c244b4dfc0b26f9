//! BERT (Devlin et al. 2019, <https://arxiv.org/abs/1810.04805>) as Hugging Face transformers has it.
//!
//! MiniLM is the same network with fewer and narrower layers. The pooler, which no feature here uses, is left out.
//! Weights: `bert-base-uncased`, `sentence-transformers/all-MiniLM-L6-v2`,
//! `sentence-transformers/paraphrase-MiniLM-L3-v2`; `bert_scenes` is a small one with weights of our own.

#![allow(non_snake_case)] // `LayerNorm` is upstream's name of a field

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use super::block::{Block, BlockForm};
use super::embeddings::{Embedding, Limits};
use super::pooling::{self, Pooling};
use crate::encoders::layers::{LayerNorm, Linear};
use crate::encoders::{EncoderError, Mode, TextEncoder};

/// The form of a BERT; field names are those of `config.json`.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
pub struct BertConfig {
    /// Entries of the vocabulary.
    pub vocab_size: usize,
    /// Width of the layers, `d_l`.
    pub hidden_size: usize,
    /// Number of transformer layers.
    pub num_hidden_layers: usize,
    /// Attention heads; they divide `hidden_size`.
    pub num_attention_heads: usize,
    /// Width of the feed-forward layers.
    pub intermediate_size: usize,
    /// The longest sequence.
    #[serde(default = "default_positions")]
    pub max_position_embeddings: usize,
    /// Number of segment embeddings; captions are all segment 0.
    #[serde(default = "default_segments")]
    pub type_vocab_size: usize,
    /// Epsilon of the layer norms.
    #[serde(default = "default_eps")]
    pub layer_norm_eps: f32,
    /// Dropout after the embeddings and after each sub-layer.
    #[serde(default = "default_dropout")]
    pub hidden_dropout_prob: f32,
    /// Dropout of the attention probabilities.
    #[serde(default = "default_dropout")]
    pub attention_probs_dropout_prob: f32,
}

fn default_positions() -> usize {
    512
}

fn default_segments() -> usize {
    2
}

fn default_eps() -> f32 {
    1e-12
}

fn default_dropout() -> f32 {
    0.1
}

impl BertConfig {
    /// `bert-base-uncased`.
    pub const BASE_UNCASED: Self = Self {
        vocab_size: 30522,
        hidden_size: 768,
        num_hidden_layers: 12,
        num_attention_heads: 12,
        intermediate_size: 3072,
        max_position_embeddings: 512,
        type_vocab_size: 2,
        layer_norm_eps: 1e-12,
        hidden_dropout_prob: 0.1,
        attention_probs_dropout_prob: 0.1,
    };
    /// `all-MiniLM-L6-v2`.
    pub const MINILM_L6: Self =
        Self { hidden_size: 384, num_hidden_layers: 6, intermediate_size: 1536, ..Self::BASE_UNCASED };
    /// `paraphrase-MiniLM-L3-v2`.
    pub const MINILM_L3: Self = Self { num_hidden_layers: 3, ..Self::MINILM_L6 };
    /// A small one of our own, whose vocabulary is the words of the built-in dataset: the text encoder of the demo.
    pub const SCENES: Self = Self {
        vocab_size: lines(SCENES_VOCABULARY),
        hidden_size: 128,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        intermediate_size: 512,
        max_position_embeddings: 64,
        ..Self::BASE_UNCASED
    };
}

/// The vocabulary of [`BertConfig::SCENES`]: the words of the built-in dataset, one token a line.
pub(crate) const SCENES_VOCABULARY: &[u8] = include_bytes!("../../../assets/scenes/vocab.txt");

/// The number of line ends in `text`.
const fn lines(text: &[u8]) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < text.len() {
        count += (text[at] == b'\n') as usize;
        at += 1;
    }
    count
}

/// BERT without its pooler. The embeddings are frozen.
#[derive(Module, Debug)]
pub struct Bert {
    embeddings: Embeddings,
    encoder: Encoder,
    #[module(skip)]
    limits: Limits,
    #[module(skip)]
    dropout: f32,
    #[module(skip)]
    pooling: Pooling,
}

impl Bert {
    /// With weights yet to be loaded; `name` is what its errors call it.
    pub fn new(name: &str, config: &BertConfig, pooling: Pooling, device: &Device) -> Self {
        Self {
            embeddings: Embeddings::new(config, device),
            encoder: Encoder { layer: (0..config.num_hidden_layers).map(|_| Layer::new(config, device)).collect() },
            limits: Limits {
                encoder: name.to_owned(),
                vocab: config.vocab_size,
                positions: config.max_position_embeddings,
                width: config.hidden_size,
            },
            dropout: config.hidden_dropout_prob,
            pooling,
        }
    }

    /// The last layer at every position, `[n, l, d_l]`: what masked language modelling predicts tokens from.
    pub fn positions(&self, embedded: Tensor<3>, mask: Tensor<2>, mode: &mut Mode) -> Result<Tensor<3>, EncoderError> {
        self.limits.check_embedded(&embedded, &mask)?;
        Ok(pooling::forward(&self.blocks(), embedded, &mask, mode))
    }

    fn blocks(&self) -> Vec<Block<'_>> {
        self.encoder.layer.iter().map(Layer::block).collect()
    }
}

impl TextEncoder for Bert {
    fn embed(&self, tokens: Tensor<2, Int>, mode: &mut Mode) -> Result<Tensor<3>, EncoderError> {
        self.limits.check_tokens(&tokens)?;
        Ok(mode.dropout(self.embeddings.forward(tokens), self.dropout))
    }

    fn encode(&self, embedded: Tensor<3>, mask: Tensor<2>, mode: &mut Mode) -> Result<Tensor<2>, EncoderError> {
        self.limits.check_embedded(&embedded, &mask)?;
        Ok(self.pooling.run(&self.blocks(), embedded, mask, mode))
    }

    fn feature_dim(&self) -> usize {
        self.limits.width
    }
}

/// Token, position and segment embeddings, summed and normalised.
#[derive(Module, Debug)]
struct Embeddings {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Embedding,
    LayerNorm: LayerNorm,
}

impl Embeddings {
    fn new(config: &BertConfig, device: &Device) -> Self {
        let width = config.hidden_size;
        Self {
            word_embeddings: Embedding::new(config.vocab_size, width, device),
            position_embeddings: Embedding::new(config.max_position_embeddings, width, device),
            token_type_embeddings: Embedding::new(config.type_vocab_size, width, device),
            LayerNorm: LayerNorm::new(width, config.layer_norm_eps, device).no_grad(),
        }
    }

    /// Token ids `[n, l]` to `[n, l, d_l]`.
    fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let [_, l] = tokens.dims();
        let segment = self.token_type_embeddings.first_rows(1); // [1, 1, d_l]
        let sum = self.word_embeddings.rows(tokens) + segment + self.position_embeddings.first_rows(l);
        self.LayerNorm.forward(sum)
    }
}

#[derive(Module, Debug)]
struct Encoder {
    layer: Vec<Layer>,
}

#[derive(Module, Debug)]
struct Layer {
    attention: Attention,
    intermediate: Dense,
    output: Output,
    #[module(skip)]
    form: BlockForm,
}

/// `self_` is upstream's `self`.
#[derive(Module, Debug)]
struct Attention {
    self_: SelfAttention,
    output: Output,
}

#[derive(Module, Debug)]
struct SelfAttention {
    query: Linear,
    key: Linear,
    value: Linear,
}

#[derive(Module, Debug)]
struct Dense {
    dense: Linear,
}

#[derive(Module, Debug)]
struct Output {
    dense: Linear,
    LayerNorm: LayerNorm,
}

impl Output {
    fn new(inputs: usize, config: &BertConfig, device: &Device) -> Self {
        Self {
            dense: Linear::new(inputs, config.hidden_size, device),
            LayerNorm: LayerNorm::new(config.hidden_size, config.layer_norm_eps, device),
        }
    }
}

impl Layer {
    fn new(config: &BertConfig, device: &Device) -> Self {
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let projection = || Linear::new(width, width, device);
        Self {
            attention: Attention {
                self_: SelfAttention { query: projection(), key: projection(), value: projection() },
                output: Output::new(width, config, device),
            },
            intermediate: Dense { dense: Linear::new(width, inner, device) },
            output: Output::new(inner, config, device),
            form: BlockForm {
                heads: config.num_attention_heads,
                probabilities_dropout: config.attention_probs_dropout_prob,
                attention_dropout: config.hidden_dropout_prob,
                output_dropout: config.hidden_dropout_prob,
            },
        }
    }

    fn block(&self) -> Block<'_> {
        let SelfAttention { query, key, value } = &self.attention.self_;
        Block {
            query,
            key,
            value,
            attention_output: &self.attention.output.dense,
            attention_norm: &self.attention.output.LayerNorm,
            intermediate: &self.intermediate.dense,
            output: &self.output.dense,
            output_norm: &self.output.LayerNorm,
            form: self.form,
        }
    }
}
