//! Text encoders by Hugging Face's `config.json`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::bert::BertConfig;
use super::distilbert::DistilBertConfig;

/// What a `config.json` describes.
#[derive(Clone, Debug, PartialEq)]
pub enum TextConfig {
    /// `"model_type": "bert"`.
    Bert(BertConfig),
    /// `"model_type": "distilbert"`.
    DistilBert(DistilBertConfig),
}

/// Why a `config.json` does not describe an encoder that exists here.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}; check the path", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The file is not JSON, or a field is missing or of another type.
    #[error("{} is not the config.json of a BERT or DistilBERT: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What the parser met.
        source: serde_json::Error,
    },
    /// A value is outside what the encoder supports.
    #[error("{}: {field} = {value} is not supported, it must be {allowed}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        allowed: String,
    },
}

/// The fields that decide which other fields matter.
#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    model_type: String,
    #[serde(alias = "activation", default = "gelu")]
    hidden_act: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
}

fn gelu() -> String {
    "gelu".to_owned()
}

fn absolute() -> String {
    "absolute".to_owned()
}

impl TextConfig {
    /// Reads and checks a `config.json`.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let parse_error = |source| ConfigError::Parse { path: path.into(), source };
        let kind: Kind = serde_json::from_str(text).map_err(parse_error)?;
        let check = Check { path };
        check.one_of("hidden_act", &kind.hidden_act, "gelu")?;
        check.one_of("position_embedding_type", &kind.position_embedding_type, "absolute")?;
        if kind.model_type == "distilbert" {
            let config: DistilBertConfig = serde_json::from_str(text).map_err(parse_error)?;
            check.distilbert(&config)?;
            return Ok(TextConfig::DistilBert(config));
        }
        check.one_of("model_type", &kind.model_type, "bert")?;
        let config: BertConfig = serde_json::from_str(text).map_err(parse_error)?;
        check.bert(&config)?;
        Ok(TextConfig::Bert(config))
    }
}

/// Checks values of the file at `path`.
struct Check<'a> {
    path: &'a Path,
}

impl Check<'_> {
    /// No table or layer of a real network is larger; keeps products of sizes far from overflow.
    const LARGEST: usize = 1 << 24;

    fn bert(&self, c: &BertConfig) -> Result<(), ConfigError> {
        self.size("vocab_size", c.vocab_size)?;
        self.size("hidden_size", c.hidden_size)?;
        self.size("num_hidden_layers", c.num_hidden_layers)?;
        self.size("intermediate_size", c.intermediate_size)?;
        self.size("max_position_embeddings", c.max_position_embeddings)?;
        self.size("type_vocab_size", c.type_vocab_size)?;
        self.heads("num_attention_heads", c.num_attention_heads, c.hidden_size)?;
        self.probability("hidden_dropout_prob", c.hidden_dropout_prob)?;
        self.probability("attention_probs_dropout_prob", c.attention_probs_dropout_prob)?;
        if !(c.layer_norm_eps > 0.0 && c.layer_norm_eps.is_finite()) {
            return Err(self.value("layer_norm_eps", c.layer_norm_eps, "a positive number"));
        }
        Ok(())
    }

    fn distilbert(&self, c: &DistilBertConfig) -> Result<(), ConfigError> {
        self.size("vocab_size", c.vocab_size)?;
        self.size("dim", c.dim)?;
        self.size("n_layers", c.n_layers)?;
        self.size("hidden_dim", c.hidden_dim)?;
        self.size("max_position_embeddings", c.max_position_embeddings)?;
        self.heads("n_heads", c.n_heads, c.dim)?;
        self.probability("dropout", c.dropout)?;
        self.probability("attention_dropout", c.attention_dropout)
    }

    fn one_of(&self, field: &'static str, value: &str, allowed: &str) -> Result<(), ConfigError> {
        if value == allowed { Ok(()) } else { Err(self.value(field, format!("'{value}'"), format!("'{allowed}'"))) }
    }

    fn size(&self, field: &'static str, value: usize) -> Result<(), ConfigError> {
        if (1..=Self::LARGEST).contains(&value) {
            return Ok(());
        }
        Err(self.value(field, value, format!("between 1 and {}", Self::LARGEST)))
    }

    fn heads(&self, field: &'static str, heads: usize, width: usize) -> Result<(), ConfigError> {
        if heads > 0 && width.is_multiple_of(heads) {
            return Ok(());
        }
        Err(self.value(field, heads, format!("a divisor of the width {width}")))
    }

    fn probability(&self, field: &'static str, value: f32) -> Result<(), ConfigError> {
        if (0.0..1.0).contains(&value) { Ok(()) } else { Err(self.value(field, value, "at least 0 and below 1")) }
    }

    fn value(&self, field: &'static str, value: impl ToString, allowed: impl Into<String>) -> ConfigError {
        ConfigError::Value { path: self.path.into(), field, value: value.to_string(), allowed: allowed.into() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const MINILM: &str = r#"{"model_type": "bert", "vocab_size": 30522, "hidden_size": 384, "num_hidden_layers": 6,
        "num_attention_heads": 12, "intermediate_size": 1536, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1, "architectures": ["BertModel"]}"#;

    fn parse(text: &str) -> Result<TextConfig, ConfigError> {
        TextConfig::parse(text, Path::new("config.json"))
    }

    #[test]
    fn the_published_config_of_minilm_is_the_preset() {
        assert_eq!(parse(MINILM).unwrap(), TextConfig::Bert(BertConfig::MINILM_L6));
    }

    #[test]
    fn the_published_config_of_distilbert_is_the_preset() {
        let text = r#"{"activation": "gelu", "attention_dropout": 0.1, "dim": 768, "dropout": 0.1, "hidden_dim": 3072,
            "initializer_range": 0.02, "max_position_embeddings": 512, "model_type": "distilbert", "n_heads": 12,
            "n_layers": 6, "pad_token_id": 0, "vocab_size": 30522}"#;
        assert_eq!(parse(text).unwrap(), TextConfig::DistilBert(DistilBertConfig::BASE_UNCASED));
    }

    #[test]
    fn a_bad_value_is_named_with_what_is_allowed() {
        for (from, to, message) in [
            ("\"gelu\"", "\"relu\"", "config.json: hidden_act = 'relu' is not supported, it must be 'gelu'"),
            ("\"bert\"", "\"t5\"", "config.json: model_type = 't5' is not supported, it must be 'bert'"),
            (
                "\"num_attention_heads\": 12",
                "\"num_attention_heads\": 7",
                "config.json: num_attention_heads = 7 is not supported, it must be a divisor of the width 384",
            ),
            (
                "\"vocab_size\": 30522",
                "\"vocab_size\": 0",
                "config.json: vocab_size = 0 is not supported, it must be between 1 and 16777216",
            ),
            (
                "\"hidden_dropout_prob\": 0.1",
                "\"hidden_dropout_prob\": 1.5",
                "config.json: hidden_dropout_prob = 1.5 is not supported, it must be at least 0 and below 1",
            ),
        ] {
            assert_eq!(parse(&MINILM.replace(from, to)).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_missing_field_and_text_that_is_no_json_are_errors() {
        let missing = parse(r#"{"model_type": "bert"}"#).unwrap_err().to_string();
        assert!(missing.contains("missing field `vocab_size`"), "{missing}");
        assert!(matches!(parse("not json"), Err(ConfigError::Parse { .. })));
        assert!(matches!(TextConfig::read("no/such/config.json"), Err(ConfigError::Read { .. })));
    }
}
