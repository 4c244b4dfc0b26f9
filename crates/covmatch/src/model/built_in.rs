//! The weights inside this program: the two small encoders of the demo.
//!
//! `examples/pretrain_scenes.rs` made them, each from its own modality alone; its header has the commands and the seed.

use super::ModelError;
use crate::data::DataError;
use crate::data::tokens::Tokenizer;
use crate::encoders::text::SCENES_VOCABULARY;

const FILES: [(&str, &[u8]); 2] = [
    ("nfnet_scenes", include_bytes!("../../assets/scenes/nfnet_scenes.safetensors")),
    ("bert_scenes", include_bytes!("../../assets/scenes/bert_scenes.safetensors")),
];

/// The safetensors file of the encoder `name`.
pub(super) fn weights(name: &str) -> Result<&'static [u8], ModelError> {
    let found = FILES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes);
    found.ok_or_else(|| ModelError::NotBuiltIn {
        name: name.to_owned(),
        known: FILES.map(|(known, _)| known).join(" and "),
    })
}

/// The tokenizer of `bert_scenes`.
pub(super) fn tokenizer() -> Result<Tokenizer, DataError> {
    Tokenizer::from_vocabulary("the built-in vocabulary", SCENES_VOCABULARY)
}
