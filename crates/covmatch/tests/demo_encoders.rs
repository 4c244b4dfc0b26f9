//! The two small encoders inside the program, and distillation with them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use covmatch::config::Config;
use covmatch::data::Split;
use covmatch::data::loader::Augment;
use covmatch::data::scenes::{Form, SceneConfig, SceneId, captions};
use covmatch::encoders::{Mode, TextEncoder};
use covmatch::experiment::Experiment;
use covmatch::methods::covmatch::CovMatch;
use covmatch::methods::{Learner, StepReport, Synthetic};
use covmatch::model::{Model, ModelError, ModelOptimizer, TrainRates};

/// The demo's experiment, smaller.
fn experiment(overrides: &[&str]) -> Experiment {
    let text = r#"
        seed = 5
        [data.scenes]
        train = 200
        val = 0
        test = 0
        [image]
        encoder = "nfnet_scenes"
        weights = "built-in"
        size = 64
        [text]
        encoder = "bert_scenes"
        weights = "built-in"
        pooling = "mean"
        [head]
        width = 64
        [distill]
        pairs = 20
        rounds = 2
        steps_per_round = 12
        real_batch = 48
        augment = false
    "#;
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    Experiment::open(Config::parse("test", text, &overrides).unwrap(), &Device::flex()).unwrap()
}

/// The smallest distance between two rows, over the mean length of a row.
fn closest(features: &Tensor<2>) -> f32 {
    let [n, width] = features.dims();
    let values: Vec<f32> = features.clone().into_data().iter::<f32>().collect();
    let rows: Vec<&[f32]> = values.chunks(width).collect();
    let length = |row: &[f32]| row.iter().map(|x| x * x).sum::<f32>().sqrt();
    let mean = rows.iter().map(|row| length(row)).sum::<f32>() / n as f32;
    let distance = |a: usize, b: usize| rows[a].iter().zip(rows[b]).map(|(x, y)| (x - y).powi(2)).sum::<f32>().sqrt();
    let pairs = (0..n).flat_map(|a| (0..a).map(move |b| (a, b)));
    pairs.map(|(a, b)| distance(a, b)).fold(f32::INFINITY, f32::min) / mean
}

#[test]
fn every_word_of_every_caption_is_in_the_vocabulary() {
    let tokenizer = experiment(&[]).tokenizer();
    let unknown = 1;
    for seed in [0, 7] {
        let config = SceneConfig { seed, ..SceneConfig::default() };
        for number in 0..1500 {
            for form in [Form::Picture, Form::Clip] {
                for caption in captions(&config, SceneId { form, split: Split::Test, number }.index()) {
                    let ids = tokenizer.ids(&caption).unwrap();
                    assert!(!ids.contains(&unknown), "{caption}: {ids:?}");
                    assert!(ids.len() <= 64, "{caption}");
                }
            }
        }
    }
}

#[test]
fn different_scenes_have_different_features() {
    let experiment = experiment(&[]);
    let loader = experiment.train_loader(experiment.config.seed(), "test", 24, Augment::None).unwrap();
    let model = experiment.model(experiment.config.seed(), 0);
    let inputs = model.inputs(loader.batch(0, 2).unwrap(), &mut Mode::Eval, &experiment.device).unwrap();
    assert_eq!(inputs.text.dims()[2], model.text.feature_dim());
    let features = model.features(inputs, &mut Mode::Eval).unwrap();
    assert_eq!((features.image.dims()[1], features.text.dims()[1]), (256, 128));
    assert!(closest(&features.image) > 0.02, "{}", closest(&features.image));
    assert!(closest(&features.text) > 0.02, "{}", closest(&features.text));
}

#[test]
fn a_branch_with_nothing_to_train_stays_as_it_is_while_the_other_learns() {
    let experiment = experiment(&["head.image=false", "head.width=256"]);
    let loader = experiment.train_loader(experiment.config.seed(), "test", 24, Augment::None).unwrap();
    let model = experiment.model(experiment.config.seed(), 0);
    let model = Model { visual: model.visual.no_grad(), ..model };
    let inputs = model.inputs(loader.batch(0, 2).unwrap(), &mut Mode::Eval, &experiment.device).unwrap();
    let features = |model: &Model| {
        let h = model.features(inputs.clone(), &mut Mode::Eval).unwrap();
        let z = model.project(h, &mut Mode::Eval).unwrap();
        [z.image, z.text].map(|z| z.into_data().iter::<f32>().collect::<Vec<_>>())
    };
    let [image, text] = features(&model);
    let (optimizer, rates) = (&mut ModelOptimizer::default(), TrainRates::default());
    let (model, loss) = model.train_step(inputs.clone(), 0.07, rates, optimizer, &mut Mode::Eval).unwrap();
    assert!(loss.is_finite());
    let [image_after, text_after] = features(&model);
    assert!(image_after == image && text_after != text);
}

#[test]
fn other_encoders_have_no_built_in_weights() {
    let config = experiment(&[]).config;
    let mut config = config.clone();
    config.image.encoder = "nfnet_l0".to_owned();
    match Experiment::open(config, &Device::flex()).err() {
        Some(covmatch::experiment::ExperimentError::Model(error @ ModelError::NotBuiltIn { .. })) => {
            assert!(error.to_string().contains("nfnet_scenes and bert_scenes"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

/// All steps of a distillation; those before the first that fails.
fn steps(overrides: &[&str]) -> Vec<StepReport> {
    let experiment = experiment(overrides);
    let all = experiment.config.distill.steps();
    let mut learner = CovMatch::begin(experiment).unwrap();
    let mut steps = Vec::new();
    while learner.done() < all {
        match learner.step() {
            Ok(step) => steps.push(step),
            Err(_) => break,
        }
    }
    steps
}

fn mean(steps: &[StepReport], name: &str) -> f32 {
    steps.iter().map(|step| value(step, name)).sum::<f32>() / steps.len() as f32
}

fn value(step: &StepReport, name: &str) -> f32 {
    step.value(name).unwrap()
}

/// The losses of two rounds start alike, as each starts from the pretrained encoders: the second round's are lower.
#[test]
fn relative_units_need_no_tuning_on_this_pair() {
    let steps = steps(&[]);
    assert_eq!(steps.len(), 24);
    let (first, second) = steps.split_at(12);
    let (before, after) = (mean(first, "cov"), mean(second, "cov"));
    assert!(after < 0.95 * before, "L_cov {before} -> {after}");
    let (began, ended) = (value(&first[0], "rms_image"), value(&second[11], "rms_image"));
    assert!(ended < 2.0 * began && began < 2.0 * ended, "pixels' rms {began} -> {ended}");
}

/// The pixels that a learner starts from.
fn pixels_before(experiment: &Experiment) -> Tensor<5> {
    Synthetic::init(experiment, &experiment.model(experiment.config.seed(), 0)).unwrap().inputs.pixels
}

/// The pixels after twenty steps, less those before.
fn movement_in_twenty_steps() -> Vec<f64> {
    let experiment = experiment(&["distill.rounds=2", "distill.steps_per_round=10"]);
    let before = pixels_before(&experiment);
    let mut learner = CovMatch::begin(experiment).unwrap();
    (0..20).for_each(|_| assert!(learner.step().is_ok()));
    let moved = learner.synthetic().inputs.pixels.clone() - before;
    moved.into_data().iter::<f32>().map(f64::from).collect()
}

#[test]
fn twenty_steps_on_the_kernels_and_on_plain_operations_end_alike() {
    let (fast, plain) = (movement_in_twenty_steps(), covmatch_kernels::plain_ops(movement_in_twenty_steps));
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let apart = norm(&mut fast.iter().zip(&plain).map(|(a, b)| a - b)) / norm(&mut plain.iter().copied());
    assert!(norm(&mut plain.iter().copied()) > 0.0 && apart < 1e-3, "apart by {apart:e} of the way");
}

/// The paper's rate of 1 is made for its encoders; here the pixels are blown up within one round.
#[test]
fn absolute_units_are_plain_rates() {
    let steps = steps(&["distill.units=absolute", "distill.rounds=1"]);
    let last = steps.last().expect("the first step is finite");
    eprintln!(
        "absolute units, rate 1: {} of 12 steps finite, L_cov {:.3e} -> {:.3e}, pixels' rms {:.2} -> {:.2}",
        steps.len(),
        value(&steps[0], "cov"),
        value(last, "cov"),
        value(&steps[0], "rms_image"),
        value(last, "rms_image")
    );
    assert!(steps.len() < 12 || value(last, "rms_image") > 10.0 * value(&steps[0], "rms_image"), "{last:?}");
    let step = |rate: &str| {
        let experiment = experiment(&["distill.units=absolute", &format!("distill.lr_image={rate}")]);
        let before = pixels_before(&experiment);
        let mut learner = CovMatch::begin(experiment).unwrap();
        learner.step().unwrap();
        (learner.synthetic().inputs.pixels.clone() - before).powi_scalar(2).mean().into_scalar::<f32>().sqrt()
    };
    let (small, large) = (step("1e-3"), step("1e-2"));
    assert!((large / small - 10.0).abs() < 0.5, "a step is the rate times the gradient: {small} {large}");
}
