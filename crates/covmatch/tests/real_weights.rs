//! Pretrained weights on real photos and captions, against PyTorch: `python python/goldens/real.py` makes the golden
//! values.
//!
//! Weights are looked for in the folder named by COVMATCH_MODELS (default: models, which scripts/pull-models fills) and,
//! for those that no package holds, in the folder named by COVMATCH_EXTRA_MODELS. A test whose weights are absent says
//! that it is skipped.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod parity;

use burn::tensor::{Device, Int, Tensor, TensorData};
use covmatch::encoders::image::{self, AnyImageEncoder, ChannelOrder, Normalization};
use covmatch::encoders::text::config::TextConfig;
use covmatch::encoders::text::{self, AnyTextEncoder, Pooling};
use covmatch::encoders::weights::{self, KeyMap};
use covmatch::encoders::{ImageEncoder, Mode, TextEncoder};
use covmatch_kernels::plain_ops;
use parity::{Golden, close, values, weights_folder};

/// Largest deviation of the features, relative to the largest feature.
const FEATURES: f64 = 1e-4;
/// Number, height and width of the photos.
const PHOTOS: [usize; 3] = [3, 96, 96];
const CAPTIONS: usize = 3;

/// RGB bytes `[n, h, w, 3]` as the pixels `[n, 3, h, w]` that a network wants.
fn pixels(photos: &[f64], normalization: Normalization, device: &Device) -> Tensor<4> {
    let [n, h, w] = PHOTOS;
    let Normalization { order, mean, std } = normalization;
    let pixel = |i: usize| {
        let (image, channel, place) = (i / (3 * h * w), i / (h * w) % 3, i % (h * w));
        let colour = if order == ChannelOrder::Rgb { channel } else { 2 - channel };
        (photos[(image * h * w + place) * 3 + colour] as f32 / 255.0 - mean[channel]) / std[channel]
    };
    Tensor::from_data(TensorData::new((0..n * 3 * h * w).map(pixel).collect(), [n, 3, h, w]), device)
}

fn check_image(name: &str) {
    let Some(folder) = weights_folder(&[name]) else { return };
    let (golden, device) = (Golden::read("real"), Device::flex());
    let encoder = AnyImageEncoder::new(name, &device).unwrap();
    let encoder = weights::load(encoder, weights::find(folder).unwrap(), KeyMap::Detect).unwrap();
    let pixels = pixels(golden.get("photos"), image::info(name).unwrap().normalization, &device);
    let expected = golden.get(&format!("features.{name}"));
    let encode = || values(encoder.encode(pixels.clone()).unwrap());
    close("features on the CPU kernels", &encode(), expected, FEATURES);
    close("features on plain operations", &plain_ops(encode), expected, FEATURES);
}

fn check_text(name: &str, other_name: &str) {
    let Some(folder) = weights_folder(&[name, other_name]) else { return };
    let (golden, device) = (Golden::read("real"), Device::flex());
    let config = TextConfig::read(folder.join("config.json")).unwrap();
    assert_eq!(config, text::config(name).unwrap());
    let ids: Vec<i64> = golden.get(&format!("tokens.{name}")).iter().map(|&id| id as i64).collect();
    let mask: Vec<f32> = golden.get(&format!("mask.{name}")).iter().map(|&m| m as f32).collect();
    let shape = [CAPTIONS, ids.len() / CAPTIONS];
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(ids, shape), &device);
    let mask = Tensor::<2>::from_data(TensorData::new(mask, shape), &device);
    for (pooling, entry) in [(Pooling::Cls, "cls"), (Pooling::Mean, "mean")] {
        let encoder = AnyTextEncoder::from_config(name, &config, pooling, &device);
        let encoder = weights::load(encoder, weights::find(&folder).unwrap(), KeyMap::Detect).unwrap();
        let encode = || {
            let embedded = encoder.embed(tokens.clone(), &mut Mode::Eval).unwrap();
            values(encoder.encode(embedded, mask.clone(), &mut Mode::Eval).unwrap())
        };
        let expected = golden.get(&format!("{entry}.{name}"));
        close(&format!("{entry} on the CPU kernels"), &encode(), expected, FEATURES);
        close(&format!("{entry} on plain operations"), &plain_ops(encode), expected, FEATURES);
    }
}

#[test]
fn efficientnet_lite0_agrees_with_timm() {
    check_image("efficientnet_lite0");
}

#[test]
fn mobilenetv2_100_agrees_with_torchvision() {
    check_image("mobilenetv2_100");
}

#[test]
fn resnet18_agrees_with_torchvision() {
    check_image("resnet18");
}

#[test]
fn squeezenet1_1_agrees_with_torchvision() {
    check_image("squeezenet1_1");
}

#[test]
fn minilm_l6_agrees_with_transformers() {
    check_text("minilm-l6", "all-MiniLM-L6-v2");
}

#[test]
fn minilm_l3_agrees_with_transformers() {
    check_text("minilm-l3", "paraphrase-MiniLM-L3-v2");
}

#[test]
fn distilbert_cased_grammar_agrees_with_transformers() {
    check_text("distilbert-cased-grammar", "distilbert-cased-grammar");
}

#[test]
fn a_wrong_file_is_told_apart() {
    let Some(folder) = weights_folder(&["efficientnet_lite1"]) else { return };
    let encoder = AnyImageEncoder::new("efficientnet_lite0", &Device::flex()).unwrap();
    let error = weights::load(encoder, weights::find(folder).unwrap(), KeyMap::Detect).unwrap_err().to_string();
    assert!(error.contains("the file looks like efficientnet_lite1: all of its "), "{error}");
}
