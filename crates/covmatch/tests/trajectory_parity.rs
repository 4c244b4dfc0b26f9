//! Trajectory matching by central differences against PyTorch's double backward: `python python/goldens/trajectory.py`
//! makes the golden values and says what each file holds.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod parity;

use burn::tensor::{Device, Tensor, TensorData};
use covmatch::config::Unroll;
use covmatch::losses::PairLoss;
use covmatch::methods::trajectory::point::{point_of, trained_keys};
use covmatch::methods::trajectory::student::Student;
use covmatch::methods::trajectory::{Denominator, Factors, Followed, Pairs, Point, StudentStep, follow};
use covmatch::methods::waymatch::{Way, turn};
use covmatch::model::{Branches, Inputs, Model, TextLevel};
use parity::model::{Case, EFFICIENTNET_LITE0, NFNET_L0, batch};
use parity::{Golden, sampled, uniform, values};

const PAIRS: usize = 6;
/// Least cosine of a gradient with PyTorch's, and largest deviation of its norm.
const COSINE: f64 = 0.999;
const NORM: f64 = 0.02;

fn scaled<const D: usize>(key: &str, shape: [usize; D], factor: f32, device: &Device) -> Tensor<D> {
    uniform(key, shape, device).mul_scalar(factor)
}

/// The weights that the student is to reach.
fn expert(model: &Model, start: &Point, distance: f64) -> Point {
    let mut target = start.clone();
    let mut rest = Branches { image: target.image.iter_mut(), text: target.text.iter_mut() };
    for (key, _) in trained_keys(model) {
        let image = key.starts_with("visual.") || key.starts_with("image_head.");
        let weight = if image { rest.image.next() } else { rest.text.next() }.unwrap();
        let from = values(weight.clone());
        let rms = (from.iter().map(|w| w * w).sum::<f64>() / from.len() as f64).sqrt();
        let direction = covmatch::encoders::weights::generated::uniform(&format!("target.{key}"), from.len());
        let to: Vec<f32> =
            from.iter().zip(direction).map(|(w, u)| (w + distance * rms * f64::from(u)) as f32).collect();
        *weight = Tensor::from_data(TensorData::new(to, weight.dims()), &weight.device());
    }
    target
}

fn low_rank_pairs(golden: &Golden, model: &Model, device: &Device) -> Pairs {
    let inputs = batch("synthetic", golden.get("mask"), PAIRS, model, device);
    let width = inputs.text.dims()[2];
    let inputs = Inputs {
        text: uniform("synthetic.features", [PAIRS, 1, width], device),
        mask: Tensor::ones([PAIRS, 1], device),
        level: TextLevel::Features,
        ..inputs
    };
    let similarity = Factors {
        diagonal: scaled("a", [PAIRS], 0.25, device).add_scalar(1.0),
        left: uniform("L", [PAIRS, 2], device),
        right: scaled("R", [PAIRS, 2], 0.5, device),
    };
    Pairs { inputs, similarity: Some(similarity) }
}

/// What a golden file is about.
struct Setting {
    model: Model,
    pairs: Pairs,
    loss: PairLoss,
    unroll: Unroll,
    denominator: Denominator,
}

fn followed(golden: &Golden, setting: &Setting, device: &Device) -> Followed {
    let Setting { model, pairs, loss, unroll, denominator } = setting;
    let &[distance, tau, alpha] = golden.get("constants") else { panic!("three constants") };
    let &[image, text] = golden.get("eta") else { panic!("two rates") };
    let start = point_of(model);
    let target = expert(model, &start, distance);
    let step = |rows: &[f64]| {
        let rows: Vec<i64> = rows.iter().map(|&row| row as i64).collect();
        StudentStep { rows: Tensor::from_data(TensorData::new(rows, [4]), device), dropout: None }
    };
    let plan: Vec<StudentStep> = golden.get("rows").chunks(4).map(step).collect();
    let student = Student { model, tau: tau as f32, loss: *loss, alpha: alpha as f32 };
    let eta = Branches { image: image as f32, text: text as f32 };
    follow(&student, [&start, &target], pairs, &plan, eta, *unroll, *denominator).unwrap()
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Fails unless the direction and the length of both agree.
fn agree(what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let product: f64 = found.iter().zip(expected).map(|(a, b)| a * b).sum();
    let (cosine, ratio) = (product / norm(found) / norm(expected), norm(found) / norm(expected));
    assert!(cosine >= COSINE, "{what}: cosine {cosine:.6}, norm {ratio:.4} of PyTorch's");
    assert!((ratio - 1.0).abs() <= NORM, "{what}: norm {ratio:.4} of PyTorch's, cosine {cosine:.6}");
}

fn check<const D: usize>(golden: &Golden, name: &str, found: Tensor<D>) {
    let (n, found) = (found.dims()[0], values(found));
    let expected = golden.get(&format!("grad.{name}"));
    agree(&format!("gradient of {name}"), &sampled(&found, expected.len()), expected);
    if ["pixels", "text"].contains(&name) {
        let norms: Vec<f64> = found.chunks(found.len() / n).map(norm).collect();
        agree(&format!("norms of the gradient of {name}"), &norms, golden.get(&format!("norm.{name}")));
    }
}

/// The cosines with a way, and the gradients of their mean distance from 1.
fn compare_way(name: &str, case: Case) {
    let (golden, device) = (Golden::read(&format!("trajectory_{name}")), Device::flex());
    let model = case.model(&device);
    let inputs = batch("synthetic", golden.get("mask"), PAIRS, &model, &device);
    let &[distance, tau] = golden.get("constants") else { panic!("two constants") };
    let from = point_of(&model);
    let way = expert(&model, &from, distance).minus(&from);
    let of = |side: &str| trained_keys(&model).iter().filter(|(key, _)| key.starts_with(side)).count();
    let way = Way { from, way, of_encoder: Branches { image: of("visual."), text: of("text.") } };
    let student = Student { model: &model, tau: tau as f32, loss: PairLoss::InfoNce, alpha: 0.0 };
    let turned = turn(&student, &way, &Pairs { inputs, similarity: None }, None).unwrap();
    let Branches { image, text } = turned.cosines;
    let cosines: Vec<f64> = image.into_iter().chain(text).map(Option::unwrap).collect();
    for (part, (found, expected)) in cosines.iter().zip(golden.get("cosines")).enumerate() {
        assert!((found - expected).abs() <= 1e-5, "{name}, part {part}: cosine {found}, PyTorch's {expected}");
    }
    assert!((f64::from(turned.loss()) - golden.get("loss")[0]).abs() <= 1e-5, "{name}: {}", turned.loss());
    check(&golden, "pixels", turned.gradient.pixels);
    check(&golden, "text", turned.gradient.text);
}

#[test]
fn what_the_way_of_a_teacher_says_of_the_pairs_agrees_with_pytorch() {
    compare_way("way", NFNET_L0);
    compare_way("way_relu6", EFFICIENTNET_LITE0);
}

fn compare(name: &str, setting: Setting) {
    let (golden, device) = (Golden::read(&format!("trajectory_{name}")), Device::flex());
    let Followed { loss, pairs, rates, .. } = followed(&golden, &setting, &device);
    parity::close("loss", &[loss.image, loss.text], golden.get("loss"), 1e-3);
    parity::close("gradient of the rates", &[rates.image, rates.text], golden.get("grad.rates"), 1e-2);
    check(&golden, "pixels", pairs.pixels);
    check(&golden, "text", pairs.text);
    if let Some(Factors { diagonal, left, right }) = pairs.similarity {
        check(&golden, "a", diagonal);
        check(&golden, "L", left);
        check(&golden, "R", right);
    }
}

fn bi_trajectory(name: &str, model: Model) {
    let (golden, device) = (Golden::read(&format!("trajectory_{name}")), Device::flex());
    let inputs = batch("synthetic", golden.get("mask"), PAIRS, &model, &device);
    let pairs = Pairs { inputs, similarity: None };
    let (loss, unroll, denominator) = (PairLoss::InfoNce, Unroll::Full, Denominator::OfEachSide);
    compare(name, Setting { model, pairs, loss, unroll, denominator });
}

fn low_rank(name: &str, case: Case, denominator: Denominator) {
    let (golden, device) = (Golden::read(&format!("trajectory_{name}")), Device::flex());
    let model = case.model(&device).with_frozen_text();
    let pairs = low_rank_pairs(&golden, &model, &device);
    compare(name, Setting { model, pairs, loss: PairLoss::WeightedBce, unroll: Unroll::Constant, denominator });
}

#[test]
fn gradients_through_all_steps_agree_with_double_backward() {
    bi_trajectory("mtt", NFNET_L0.model(&Device::flex()).with_frozen_text());
}

#[test]
fn gradients_agree_when_both_encoders_are_trained() {
    bi_trajectory("mtt_both", NFNET_L0.model(&Device::flex()));
}

#[test]
fn gradients_of_each_step_alone_and_of_the_similarity_agree() {
    low_rank("lors", NFNET_L0, Denominator::OfEachSide);
}

#[test]
fn gradients_agree_with_one_denominator() {
    low_rank("lors_merged", NFNET_L0, Denominator::OfBoth);
}

#[test]
fn gradients_through_all_steps_agree_in_a_network_with_kinks() {
    bi_trajectory("mtt_relu6", EFFICIENTNET_LITE0.model(&Device::flex()).with_frozen_text());
}

#[test]
fn gradients_of_each_step_alone_agree_in_a_network_with_kinks() {
    low_rank("lors_relu6", EFFICIENTNET_LITE0, Denominator::OfEachSide);
}
