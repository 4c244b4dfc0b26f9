//! The pretrained encoders that every model of an experiment starts from, loaded once.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::built_in;
use super::visual::AnyVisualEncoder;
use crate::data::DataError;
use crate::data::tokens::Tokenizer;
use crate::encoders::text::{AnyTextEncoder, Pooling, config::TextConfig};
use crate::encoders::weights::{self, KeyMap, WeightsError, generated};
use crate::encoders::{EncoderError, TextEncoder};

/// Where an encoder's weights come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Weights {
    /// A file of weights, or a folder that holds one.
    Path(PathBuf),
    /// The weights of a formula, for tests and benchmarks.
    Generated,
    /// The weights inside this program, which the encoders of the demo have.
    BuiltIn,
}

impl From<String> for Weights {
    fn from(text: String) -> Self {
        match text.as_str() {
            "generated" => Weights::Generated,
            "built-in" => Weights::BuiltIn,
            path => Weights::Path(path.into()),
        }
    }
}

impl From<Weights> for String {
    fn from(weights: Weights) -> String {
        weights.to_string()
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weights::Path(path) => write!(f, "{}", path.display()),
            Weights::Generated => f.write_str("generated"),
            Weights::BuiltIn => f.write_str("built-in"),
        }
    }
}

/// An encoder by name, with its weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncoderSpec {
    /// A name that `covmatch encoders` lists.
    pub name: String,
    /// Its weights.
    pub weights: Weights,
}

/// Why a model cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The encoder does not exist, or refuses its input.
    #[error(transparent)]
    Encoder(#[from] EncoderError),
    /// The encoder has no weights inside this program.
    #[error("'{name}' has no built-in weights (only {known} have): set weights to a file")]
    NotBuiltIn {
        /// The encoder.
        name: String,
        /// The encoders that have.
        known: String,
    },
    /// Its weights cannot be loaded.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// `config.json` beside the weights cannot be used.
    #[error(transparent)]
    Config(#[from] crate::encoders::text::config::ConfigError),
    /// No tokenizer was named and there is none beside the weights.
    #[error(
        "the text encoder '{name}' needs a tokenizer: set text.tokenizer to a tokenizer.json or vocab.txt, \
         or put one beside its weights"
    )]
    NoTokenizer {
        /// The text encoder.
        name: String,
    },
    /// Its tokenizer cannot be loaded.
    #[error(transparent)]
    Tokenizer(#[from] DataError),
}

/// Encoders with their pretrained weights, and the tokenizer.
#[derive(Clone, Debug)]
pub struct Pretrained {
    /// Image or video encoder.
    pub visual: AnyVisualEncoder,
    /// Text encoder.
    pub text: AnyTextEncoder,
    /// Tokenizer of the text encoder.
    pub tokenizer: Arc<Tokenizer>,
    /// Where the weights live.
    pub device: Device,
}

impl Pretrained {
    /// Loads both encoders and the tokenizer.
    pub fn load(
        visual: &EncoderSpec,
        text: &EncoderSpec,
        pooling: Pooling,
        tokenizer: Option<&Path>,
        device: &Device,
    ) -> Result<Self, ModelError> {
        Ok(Self {
            visual: load_visual(visual, device)?,
            text: load_text(text, pooling, device)?,
            tokenizer: Arc::new(load_tokenizer(text, tokenizer)?),
            device: device.clone(),
        })
    }

    /// `d_l`, the width of embedded captions.
    pub fn text_width(&self) -> usize {
        self.text.feature_dim()
    }
}

fn load_visual(spec: &EncoderSpec, device: &Device) -> Result<AnyVisualEncoder, ModelError> {
    let encoder = AnyVisualEncoder::new(&spec.name, device)?;
    match &spec.weights {
        Weights::Generated => Ok(generated::fill(encoder)),
        Weights::Path(path) => Ok(weights::load(encoder, file_of(path)?, KeyMap::Detect)?),
        Weights::BuiltIn => Ok(weights::load_built_in(encoder, &spec.name, built_in::weights(&spec.name)?)?),
    }
}

fn load_text(spec: &EncoderSpec, pooling: Pooling, device: &Device) -> Result<AnyTextEncoder, ModelError> {
    let encoder = || AnyTextEncoder::new(&spec.name, pooling, device);
    match &spec.weights {
        Weights::Generated => Ok(generated::fill(encoder()?)),
        Weights::Path(path) => {
            let config = path.join("config.json");
            let encoder = match path.is_dir() && config.is_file() {
                true => AnyTextEncoder::from_config(&spec.name, &TextConfig::read(config)?, pooling, device),
                false => encoder()?,
            };
            Ok(weights::load(encoder, file_of(path)?, KeyMap::Detect)?)
        }
        Weights::BuiltIn => Ok(weights::load_built_in(encoder()?, &spec.name, built_in::weights(&spec.name)?)?),
    }
}

fn load_tokenizer(text: &EncoderSpec, tokenizer: Option<&Path>) -> Result<Tokenizer, ModelError> {
    if let Some(path) = tokenizer {
        return Ok(Tokenizer::open(path)?);
    }
    match &text.weights {
        Weights::Path(path) => {
            let folder = if path.is_dir() { path.as_path() } else { path.parent().unwrap_or(Path::new(".")) };
            let beside = ["tokenizer.json", "vocab.txt"].map(|name| folder.join(name));
            let found = beside.iter().find(|file| file.is_file());
            Ok(Tokenizer::open(found.ok_or_else(|| ModelError::NoTokenizer { name: text.name.clone() })?)?)
        }
        Weights::BuiltIn => Ok(built_in::tokenizer()?),
        Weights::Generated => Err(ModelError::NoTokenizer { name: text.name.clone() }),
    }
}

/// The file of weights that `path` names or, if it is a folder, holds.
fn file_of(path: &Path) -> Result<PathBuf, WeightsError> {
    if path.is_dir() { weights::find(path) } else { Ok(path.to_owned()) }
}
