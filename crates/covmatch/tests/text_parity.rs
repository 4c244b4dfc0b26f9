//! Text encoders against Hugging Face transformers and projection heads against PyTorch:
//! `python python/goldens/text.py` and `python python/goldens/projection.py` make the golden values.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod parity;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use covmatch::encoders::projection::{Depth, Projection, ProjectionConfig};
use covmatch::encoders::text::{self, AnyTextEncoder, Pooling};
use covmatch::encoders::weights::{generated, keys};
use covmatch::encoders::{EncoderError, Mode, TextEncoder};
use covmatch::engine::Seed;
use covmatch_kernels::plain_ops;
use parity::{Golden, close, values};

fn encoder(name: &str, pooling: Pooling, device: &Device) -> AnyTextEncoder {
    AnyTextEncoder::new(name, pooling, device).unwrap()
}

fn mask(golden: &Golden, device: &Device) -> Tensor<2> {
    let [n, l, _] = golden.input_shape();
    let mask: Vec<f32> = golden.get("mask").iter().map(|&m| m as f32).collect();
    Tensor::from_data(TensorData::new(mask, [n, l]), device)
}

fn tokens(golden: &Golden, device: &Device) -> Tensor<2, Int> {
    let [n, l, _] = golden.input_shape();
    let ids: Vec<i64> = golden.get("tokens").iter().map(|&id| id as i64).collect();
    Tensor::from_data(TensorData::new(ids, [n, l]), device)
}

/// Features and gradients of the transformer layers.
fn check_encode(file: &str, name: &str, pooling: Pooling) {
    let golden = Golden::read(file);
    let device = Device::flex().autodiff();
    let encoder = generated::fill(encoder(name, pooling, &device));
    let embedded = golden.input::<3>(&device);
    let features = encoder.encode(embedded.clone(), mask(&golden, &device), &mut Mode::Eval).unwrap();
    golden.check(&encoder, &embedded, features);
}

/// The embeddings, and the whole network from token ids to features.
fn check_tokens(name: &str) {
    let golden = Golden::read(&format!("text_{name}"));
    let device = Device::flex();
    let encoder = generated::fill(encoder(name, Pooling::Cls, &device));
    let embedded = encoder.embed(tokens(&golden, &device), &mut Mode::Eval).unwrap();
    close("embedded", &values(embedded.clone()), golden.get("embedded"), 1e-5);
    let features = encoder.encode(embedded, mask(&golden, &device), &mut Mode::Eval).unwrap();
    close("features of tokens", &values(features), golden.get("features.tokens"), 1e-4);
}

fn check_encoder(name: &str) {
    check_encode(&format!("text_{name}"), name, Pooling::Cls);
    check_encode(&format!("text_{name}_mean"), name, Pooling::Mean);
    check_tokens(name);
}

fn check_projection(depth: usize) {
    let golden = Golden::read(&format!("projection_{depth}"));
    let device = Device::flex().autodiff();
    let config = ProjectionConfig { inputs: 48, width: 40, depth: Depth::try_from(depth).unwrap(), dropout: 0.1 };
    let head = generated::fill(Projection::new(config, &mut Seed(0).stream("init", 0), &device));
    assert_eq!(head.num_params(), golden.get("num_params")[0] as usize);
    let x = golden.input::<2>(&device);
    golden.check(&head, &x, head.forward(x.clone(), &mut Mode::Eval).unwrap());
}

macro_rules! cases {
    ($($case:ident: $check:expr;)*) => {
        $(mod $case {
            use super::*;

            #[test]
            fn agrees_with_upstream_on_the_cpu_kernels() {
                $check;
            }

            #[test]
            fn agrees_with_upstream_on_plain_operations() {
                plain_ops(|| $check);
            }
        })*
    };
}

cases!(
    bert_base_uncased: check_encoder("bert-base-uncased");
    distilbert_base_uncased: check_encoder("distilbert-base-uncased");
    distilbert_cased_grammar: check_encoder("distilbert-cased-grammar");
    minilm_l6: check_encoder("minilm-l6");
    minilm_l3: check_encoder("minilm-l3");
    projection_of_depth_1: check_projection(1);
    projection_of_depth_2: check_projection(2);
    projection_of_depth_3: check_projection(3);
);

/// Number of parameters of `encoder` whose key starts, or does not start, with `embeddings.`.
fn num_params(encoder: &AnyTextEncoder, embeddings: bool) -> usize {
    let entries = keys(encoder).into_iter().filter(|entry| entry.key.starts_with("embeddings.") == embeddings);
    entries.map(|entry| entry.shape.iter().product::<usize>()).sum()
}

#[test]
fn parameter_counts_are_the_upstream_ones() {
    for name in parity::upstream(text::names()) {
        let golden = Golden::read(&format!("text_{name}"));
        let encoder = encoder(name, Pooling::Cls, &Device::flex());
        assert_eq!(num_params(&encoder, true), golden.get("num_params.embeddings")[0] as usize, "{name}");
        assert_eq!(num_params(&encoder, false), golden.get("num_params.encoder")[0] as usize, "{name}");
    }
}

#[test]
fn bert_base_has_the_published_parameter_counts() {
    let bert = encoder("bert-base-uncased", Pooling::Cls, &Device::flex());
    assert_eq!((num_params(&bert, true), num_params(&bert, false)), (23_837_184, 85_054_464));
}

#[test]
fn multiply_adds_are_what_pytorch_counts() {
    for name in parity::upstream(text::names()) {
        let golden = Golden::read(&format!("text_{name}_mean"));
        let [n, l, _] = golden.input_shape();
        let counted = n as u64 * text::macs(name, l, Pooling::Mean, &Device::flex()).unwrap();
        let expected = golden.get("macs")[0]; // rounded to f32
        assert!((counted as f64 - expected).abs() <= 1e-6 * expected, "{name}: {counted}, PyTorch {expected}");
        assert!(text::macs(name, l, Pooling::Cls, &Device::flex()).unwrap() * (n as u64) < counted, "{name}");
    }
}

#[test]
fn embeddings_are_frozen_and_layers_are_trained() {
    let device = Device::flex().autodiff();
    for name in ["minilm-l3", "distilbert-base-uncased"] {
        let golden = Golden::read(&format!("text_{name}"));
        let encoder = generated::fill(encoder(name, Pooling::Cls, &device));
        let embedded = encoder.embed(tokens(&golden, &device), &mut Mode::Eval).unwrap();
        assert!(!embedded.is_require_grad());
        let features = encoder.encode(embedded, mask(&golden, &device), &mut Mode::Eval).unwrap();
        let gradients = features.sum().backward();
        let mut expected: Vec<String> = keys(&encoder).into_iter().map(|k| k.key).collect();
        expected.retain(|key| !key.starts_with("embeddings."));
        expected.sort();
        assert_eq!(parity::keys_with_gradient(&encoder, &gradients), expected, "{name}");
    }
}

#[test]
fn padding_changes_nothing() {
    let device = Device::flex();
    for pooling in [Pooling::Cls, Pooling::Mean] {
        let encoder = generated::fill(encoder("minilm-l3", pooling, &device));
        let ids = |ids: &[i64]| Tensor::<2, Int>::from_data(TensorData::new(ids.to_vec(), [1, ids.len()]), &device);
        let run = |tokens, mask: Vec<f32>| {
            let l = mask.len();
            let mask = Tensor::from_data(TensorData::new(mask, [1, l]), &device);
            let embedded = encoder.embed(tokens, &mut Mode::Eval).unwrap();
            values(encoder.encode(embedded, mask, &mut Mode::Eval).unwrap())
        };
        let short = run(ids(&[101, 2048, 102]), vec![1.0; 3]);
        let padded = run(ids(&[101, 2048, 102, 0, 0]), vec![1.0, 1.0, 1.0, 0.0, 0.0]);
        close("features of the padded caption", &padded, &short, 1e-5);
    }
}

#[test]
fn train_mode_drops_reproducibly_and_about_the_evaluation_features() {
    let device = Device::flex();
    for name in ["minilm-l3", "distilbert-base-uncased"] {
        let encoder = generated::fill(encoder(name, Pooling::Cls, &device));
        let width = encoder.feature_dim();
        let embedded: Tensor<3> = parity::uniform("input", [2, 5, width], &device);
        let run =
            |mode: &mut Mode| values(encoder.encode(embedded.clone(), Tensor::ones([2, 5], &device), mode).unwrap());
        let train = |step| run(&mut Mode::Train(&mut Seed(5).stream("dropout", step)));
        let (eval, first) = (run(&mut Mode::Eval), train(0));
        assert_eq!(first, train(0), "{name}");
        assert_ne!(first, train(1), "{name}");
        assert_ne!(first, eval, "{name}");
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let cosine = dot(&first, &eval) / (dot(&first, &first) * dot(&eval, &eval)).sqrt();
        assert!(cosine > 0.7, "{name}: {cosine}");
    }
}

#[test]
fn embedding_dropout_zeroes_a_tenth_in_train_mode() {
    let device = Device::flex();
    let encoder = generated::fill(encoder("minilm-l3", Pooling::Cls, &device));
    let tokens = Tensor::<2, Int>::ones([4, 20], &device);
    let embedded = encoder.embed(tokens, &mut Mode::Train(&mut Seed(5).stream("dropout", 0))).unwrap();
    let embedded = values(embedded);
    let zeros = embedded.iter().filter(|&&x| x == 0.0).count() as f64 / embedded.len() as f64;
    assert!((zeros - 0.1).abs() < 0.01, "{zeros}");
}

#[test]
fn an_unknown_name_is_refused_with_the_list_of_names() {
    let error = AnyTextEncoder::new("gpt2", Pooling::Cls, &Device::flex()).unwrap_err();
    assert!(error.to_string().starts_with("there is no text encoder 'gpt2'; known names: bert-base-uncased, "));
    for name in text::names() {
        assert!(error.to_string().contains(name), "{error}");
    }
    let error = "max".parse::<Pooling>().unwrap_err();
    assert_eq!(error.to_string(), "there is no pooling 'max'; known names: cls, mean");
    assert_eq!("mean".parse(), Ok(Pooling::Mean));
}

#[test]
fn token_ids_that_do_not_fit_are_refused() {
    let device = Device::flex();
    for name in parity::upstream(text::names()) {
        let encoder = encoder(name, Pooling::Cls, &device);
        let embed = |ids: Vec<i64>, shape: [usize; 2]| {
            encoder.embed(Tensor::from_data(TensorData::new(ids, shape), &device), &mut Mode::Eval).unwrap_err()
        };
        let vocab = if name.contains("-cased-") { 28996 } else { 30522 };
        let id = vocab as i64;
        assert_eq!(embed(vec![1, id], [1, 2]), EncoderError::Token { id, vocab });
        assert_eq!(embed(vec![-1, 5], [2, 1]), EncoderError::Token { id: -1, vocab });
        assert_eq!(embed(vec![], [0, 4]), EncoderError::EmptyBatch);
        for shape in [[1, 513], [2, 0]] {
            let error = embed(vec![0; shape[0] * shape[1]], shape);
            assert!(matches!(&error, EncoderError::Shape { got, .. } if got == &shape), "{error}");
        }
    }
}

#[test]
fn embedded_captions_and_masks_that_do_not_fit_are_refused() {
    let device = Device::flex();
    let encoder = encoder("minilm-l3", Pooling::Mean, &device);
    let encode = |embedded: [usize; 3], mask: Tensor<2>| {
        encoder.encode(Tensor::zeros(embedded, &device), mask, &mut Mode::Eval).unwrap_err()
    };
    let ones = |shape: [usize; 2]| Tensor::<2>::ones(shape, &device);
    assert_eq!(encode([0, 3, 384], ones([0, 3])), EncoderError::EmptyBatch);
    for embedded in [[1, 3, 383], [1, 513, 384], [1, 0, 384]] {
        let error = encode(embedded, ones([embedded[0], embedded[1]]));
        assert!(matches!(&error, EncoderError::Shape { got, .. } if got == &embedded), "{error}");
    }
    let error = encode([2, 3, 384], ones([2, 4]));
    assert_eq!(error.to_string(), "minilm-l3 takes a mask [2, 3] for embedded [2, 3, 384], got [2, 4]");
    for bad in [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [1.0, 0.5, 1.0, 1.0, 1.0, 1.0]] {
        let mask = Tensor::from_data(TensorData::new(bad.to_vec(), [2, 3]), &device);
        let error = encode([2, 3, 384], mask).to_string();
        assert!(error.contains("a mask of zeros and ones with at least one 1 a row"), "{error}");
    }
}
