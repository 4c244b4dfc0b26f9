//! Text encoders: captions to features `[n, d_l]`, in the two parts of [`TextEncoder`].
//!
//! [`AnyTextEncoder`] picks one by the name that configurations and flags use, or by a `config.json`.

pub mod bert;
mod block;
mod by_length;
pub mod config;
pub mod distilbert;
mod embeddings;
mod pooling;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use super::{EncoderError, Mode, TextEncoder, macs};
pub(crate) use bert::SCENES_VOCABULARY;
use bert::{Bert, BertConfig};
pub use by_length::encode_by_length;
use config::TextConfig;
use distilbert::{DistilBert, DistilBertConfig};
pub use pooling::{Pooling, UnknownPooling};

const NAMES: [&str; 6] = [
    "bert-base-uncased",
    "distilbert-base-uncased",
    "distilbert-cased-grammar",
    "minilm-l6",
    "minilm-l3",
    "bert_scenes",
];

/// The names of all text encoders.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter()
}

/// The form of the text encoder `name`.
pub fn config(name: &str) -> Result<TextConfig, EncoderError> {
    Ok(match name {
        "bert-base-uncased" => TextConfig::Bert(BertConfig::BASE_UNCASED),
        "distilbert-base-uncased" => TextConfig::DistilBert(DistilBertConfig::BASE_UNCASED),
        "distilbert-cased-grammar" => TextConfig::DistilBert(DistilBertConfig::BASE_CASED),
        "minilm-l6" => TextConfig::Bert(BertConfig::MINILM_L6),
        "minilm-l3" => TextConfig::Bert(BertConfig::MINILM_L3),
        "bert_scenes" => TextConfig::Bert(BertConfig::SCENES),
        _ => {
            return Err(EncoderError::Unknown { kind: "text", name: name.to_owned(), known: NAMES.join(", ") });
        }
    })
}

/// Multiply-adds of `encode` of the encoder `name` over one caption of `tokens` tokens.
///
/// It is counted in a pass over zeros on `device`.
pub fn macs(name: &str, tokens: usize, pooling: Pooling, device: &Device) -> Result<u64, EncoderError> {
    let encoder = AnyTextEncoder::new(name, pooling, device)?;
    let embedded = Tensor::zeros([1, tokens, encoder.feature_dim()], device);
    let mask = Tensor::ones([1, tokens], device);
    let (features, multiply_adds) = macs::count(|| encoder.encode(embedded, mask, &mut Mode::Eval));
    features.map(|_| multiply_adds)
}

/// Any of the text encoders. The variant is no part of a parameter's key.
#[derive(Module, Debug)]
pub enum AnyTextEncoder {
    /// BERT or MiniLM.
    Bert(Bert),
    /// DistilBERT.
    DistilBert(DistilBert),
}

impl AnyTextEncoder {
    /// The encoder `name` with weights yet to be loaded.
    pub fn new(name: &str, pooling: Pooling, device: &Device) -> Result<Self, EncoderError> {
        Ok(Self::from_config(name, &config(name)?, pooling, device))
    }

    /// The encoder that `config` describes, with weights yet to be loaded; `name` is what its errors call it.
    pub fn from_config(name: &str, config: &TextConfig, pooling: Pooling, device: &Device) -> Self {
        match config {
            TextConfig::Bert(config) => Self::Bert(Bert::new(name, config, pooling, device)),
            TextConfig::DistilBert(config) => Self::DistilBert(DistilBert::new(name, config, pooling, device)),
        }
    }
}

impl TextEncoder for AnyTextEncoder {
    fn embed(&self, tokens: Tensor<2, Int>, mode: &mut Mode) -> Result<Tensor<3>, EncoderError> {
        match self {
            Self::Bert(encoder) => encoder.embed(tokens, mode),
            Self::DistilBert(encoder) => encoder.embed(tokens, mode),
        }
    }

    fn encode(&self, embedded: Tensor<3>, mask: Tensor<2>, mode: &mut Mode) -> Result<Tensor<2>, EncoderError> {
        match self {
            Self::Bert(encoder) => encoder.encode(embedded, mask, mode),
            Self::DistilBert(encoder) => encoder.encode(embedded, mask, mode),
        }
    }

    fn feature_dim(&self) -> usize {
        match self {
            Self::Bert(encoder) => encoder.feature_dim(),
            Self::DistilBert(encoder) => encoder.feature_dim(),
        }
    }
}
