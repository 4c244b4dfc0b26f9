//! Rates in relative units on every pair of pretrained encoders at hand, without tuning; and what the paper's absolute
//! rates do to encoders they were not made for.
//!
//! Weights are looked for as in `real_weights.rs`; a test whose weights are absent says that it is skipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod parity;

use std::path::Path;

use burn::tensor::Device;
use covmatch::config::Config;
use covmatch::experiment::Experiment;
use covmatch::methods::covmatch::CovMatch;
use covmatch::methods::{Learner, MethodError, StepReport};
use parity::weights_folder;

/// Steps of a trial.
const STEPS: usize = 16;

fn experiment(image: (&str, &Path), text: (&str, &Path), overrides: &[&str]) -> Experiment {
    let document = format!(
        r#"
        [data.scenes]
        train = 200
        val = 0
        test = 0
        size = 64
        [image]
        encoder = {:?}
        weights = {:?}
        size = 64
        colours = "encoder"
        [text]
        encoder = {:?}
        weights = {:?}
        pooling = "mean"
        [head]
        width = 256
        [distill]
        pairs = 16
        real_batch = 32
        rounds = 1
        steps_per_round = {STEPS}
        "#,
        image.0, image.1, text.0, text.1
    );
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    Experiment::open(Config::parse("trial", &document, &overrides).unwrap(), &Device::flex()).unwrap()
}

/// The steps of a trial, up to the first that fails.
fn steps(experiment: Experiment) -> (Vec<StepReport>, Option<MethodError>) {
    let all = experiment.config.distill.steps();
    let mut learner = CovMatch::begin(experiment).unwrap();
    let mut reports = Vec::new();
    while learner.done() < all {
        match learner.step() {
            Ok(report) => reports.push(report),
            Err(error) => return (reports, Some(error)),
        }
    }
    (reports, None)
}

/// `L_cov` over the first and over the last quarter of the steps.
fn first_and_last(reports: &[StepReport]) -> (f32, f32) {
    let quarter = STEPS / 4;
    let mean =
        |part: &[StepReport]| part.iter().map(|report| report.value("cov").unwrap()).sum::<f32>() / part.len() as f32;
    (mean(&reports[..quarter]), mean(&reports[reports.len() - quarter..]))
}

fn check_relative(image: &str, text: (&str, &[&str])) {
    let (Some(image_weights), Some(text_weights)) = (weights_folder(&[image]), weights_folder(text.1)) else { return };
    // The model stays as it is, so that nothing but the pairs moves L_cov.
    let experiment = experiment((image, &image_weights), (text.0, &text_weights), &["online.update=none"]);
    let (reports, error) = steps(experiment);
    assert!(error.is_none(), "{image} + {}: {error:?}", text.0);
    let ((first, last), rms) = (first_and_last(&reports), |at: usize| {
        let of = |name: &str| reports[at].value(name).unwrap();
        (of("rms_image"), of("rms_text"))
    });
    let grown = [rms(STEPS - 1).0 / rms(0).0, rms(STEPS - 1).1 / rms(0).1];
    println!("{image} + {}: L_cov {first:.4} -> {last:.4}, pairs grown by {grown:.3?}", text.0);
    assert!(last < 0.8 * first, "{image} + {}: L_cov {first} -> {last}", text.0);
    assert!(grown.iter().all(|ratio| (0.67..1.5).contains(ratio)), "{image} + {}: {grown:?}", text.0);
}

const MINILM_L6: (&str, &[&str]) = ("minilm-l6", &["minilm-l6"]);
const MINILM_L3: (&str, &[&str]) = ("minilm-l3", &["minilm-l3", "paraphrase-MiniLM-L3-v2"]);

#[test]
fn relative_rates_suit_every_image_encoder_with_minilm_l6() {
    for image in ["efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2", "mobilenetv2_100", "squeezenet1_1"]
    {
        check_relative(image, MINILM_L6);
    }
}

#[test]
fn relative_rates_suit_every_image_encoder_with_minilm_l3() {
    for image in ["efficientnet_lite0", "mobilenetv2_100", "squeezenet1_1"] {
        check_relative(image, MINILM_L3);
    }
}

/// With EfficientNet-Lite0 the pixels' gradient of `L_cov` is about as large as the pixels: a rate of 1 throws them away.
#[test]
fn the_paper_s_absolute_rates_wreck_pairs_of_other_encoders() {
    let (Some(image), Some(text)) = (weights_folder(&["efficientnet_lite0"]), weights_folder(&["minilm-l6"])) else {
        return;
    };
    let changes = ["distill.units=absolute", "distill.lr_image=1.0", "distill.lr_text=1.0", "distill.lambda=0.1"];
    let experiment = experiment(("efficientnet_lite0", &image), ("minilm-l6", &text), &changes);
    let (reports, error) = steps(experiment);
    let size = |report: &StepReport| report.value("rms_image").unwrap();
    let grown = size(reports.last().unwrap()) / size(&reports[0]);
    println!("absolute rates: pixels grown by {grown} after {} steps, {error:?}", reports.len());
    assert!(error.is_some() || grown > 1.5, "{grown}");
}
