//! A small experiment for tests.
#![allow(clippy::unwrap_used)]

use super::Config;

/// The built-in dataset and encoders, with `overrides`.
pub(crate) fn small(overrides: &[&str]) -> Config {
    let text = "[data.scenes]\n[image]\nencoder = 'nfnet_scenes'\nweights = 'built-in'\n\
                [text]\nencoder = 'bert_scenes'\nweights = 'built-in'\n";
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    Config::parse("small.toml", text, &overrides).unwrap()
}
