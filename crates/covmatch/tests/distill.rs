//! Distillation as a whole, on the built-in dataset and encoders with generated weights.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use covmatch::config::Config;
use covmatch::distill::{DistillError, Event, Observer, Outcome, Quiet};
use covmatch::distilled::DistilledSet;
use covmatch::evaluate::{Run, evaluate_pairs};
use covmatch::experiment::Experiment;
use covmatch::methods::{MethodError, Methods, Synthetic, random, selection};
use covmatch::run_folder::{Content, RunFolder};

const VOCABULARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens/data_vocab.txt");

/// A small experiment, with some fields changed.
fn config(overrides: &[&str]) -> Config {
    let text = format!(
        r#"
        seed = 3
        [data.scenes]
        train = 40
        val = 10
        test = 12
        size = 32
        [image]
        encoder = "efficientnet_lite0"
        weights = "generated"
        size = 32
        [text]
        encoder = "minilm-l3"
        weights = "generated"
        tokenizer = {VOCABULARY:?}
        [head]
        width = 32
        [distill]
        pairs = 6
        rounds = 2
        steps_per_round = 3
        real_batch = 8
        [evaluate]
        runs = 2
        epochs = 2
        val_every = 1
        "#
    );
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    Config::parse("test", &text, &overrides).unwrap()
}

/// Distils what `config` says into the new folder `out`.
fn run(config: Config, out: &Path, device: &Device, observer: &mut dyn Observer) -> Result<Outcome, DistillError> {
    let experiment = Experiment::open(config, device)?;
    covmatch::distill::run(&Methods::built_in(), experiment, &RunFolder::new(out), observer)
}

/// Goes on with the run in `folder`.
fn resume(folder: &Path, device: &Device, observer: &mut dyn Observer) -> Result<Outcome, DistillError> {
    let folder = RunFolder::new(folder);
    let (config, _) = folder.require_learner()?;
    covmatch::distill::resume(&Methods::built_in(), Experiment::open(config, device)?, &folder, observer)
}

fn distilled(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("distilled.safetensors")).unwrap()
}

/// Stops a run after some steps of this process.
struct StopAfter(usize);

impl Observer for StopAfter {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Step(_) = event {
            self.0 -= 1;
        }
    }

    fn stop(&mut self) -> bool {
        self.0 == 0
    }
}

/// The steps and warnings of a run.
#[derive(Default)]
struct Record {
    steps: Vec<u64>,
    losses: Vec<f32>,
    warnings: Vec<String>,
}

impl Observer for Record {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Step(report) => {
                self.steps.push(report.step);
                self.losses.push(report.loss);
            }
            Event::Warning(text) => self.warnings.push(text),
            _ => {}
        }
    }
}

#[test]
fn a_run_leaves_a_folder_with_everything_and_the_same_bytes_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b, other) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("other"));
    let device = Device::flex();
    let outcome = run(config(&[]), &a, &device, &mut Quiet).unwrap();
    assert_eq!(outcome.steps, 6);
    run(config(&[]), &b, &device, &mut Quiet).unwrap();
    run(config(&["seed=4"]), &other, &device, &mut Quiet).unwrap();
    assert_eq!(distilled(&a), distilled(&b));
    assert_ne!(distilled(&a), distilled(&other));

    for name in ["run.toml", "metadata.jsonl", "README.md", "metrics.jsonl", "images/0000.png", "images/0005.png"] {
        assert!(a.join(name).is_file(), "{name}");
    }
    assert_eq!(fs::read_to_string(a.join("metrics.jsonl")).unwrap().lines().count(), 6);
    assert_eq!(fs::read_to_string(a.join("metadata.jsonl")).unwrap().lines().count(), 6);
    assert_eq!(fs::read(a.join("metadata.jsonl")).unwrap(), fs::read(b.join("metadata.jsonl")).unwrap());

    let set = DistilledSet::load(&a, &device).unwrap();
    assert_eq!(set.pairs.pixels.dims(), [6, 3, 1, 32, 32]);
    assert_eq!(set.pairs.text.dims()[2], 384);
    assert_eq!((set.about.step, set.about.text_encoder.as_str()), (6, "minilm-l3"));
}

#[test]
fn an_interrupted_run_goes_on_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    let whole = folder.path().join("whole");
    let changes = ["distill.synthetic_batch=4", "distill.steps_per_round=4"];
    run(config(&changes), &whole, &device, &mut Quiet).unwrap();
    // In the middle of the first round, at its end (the checkpoint is the round's), in the second.
    for steps in [1, 3, 4, 6] {
        let part = folder.path().join(format!("part-{steps}"));
        let stopped = run(config(&changes), &part, &device, &mut StopAfter(steps));
        match stopped {
            Err(DistillError::Interrupted { step, .. }) => assert!(step >= steps as u64),
            other => panic!("{other:?}"),
        }
        let mut record = Record::default();
        resume(&part, &device, &mut record).unwrap();
        assert!(record.steps.len() < 8, "{:?}", record.steps);
        assert_eq!(distilled(&part), distilled(&whole), "after {steps} steps");
        let lines = fs::read_to_string(part.join("metrics.jsonl")).unwrap();
        assert_eq!(lines.lines().count(), 8);
    }
}

#[test]
fn a_damaged_checkpoint_is_left_out_for_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    let (whole, part) = (folder.path().join("whole"), folder.path().join("part"));
    run(config(&["distill.rounds=3"]), &whole, &device, &mut Quiet).unwrap();
    assert!(run(config(&["distill.rounds=3"]), &part, &device, &mut StopAfter(7)).is_err());
    let mut checkpoints: Vec<PathBuf> =
        fs::read_dir(part.join("checkpoints")).unwrap().map(|entry| entry.unwrap().path()).collect();
    checkpoints.sort();
    assert_eq!(checkpoints.len(), 2, "{checkpoints:?}");
    let newest = checkpoints[1].join("state.safetensors");
    let bytes = fs::read(&newest).unwrap();
    fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap();

    let mut record = Record::default();
    resume(&part, &device, &mut record).unwrap();
    assert_eq!(record.steps.first(), Some(&6));
    assert!(record.warnings[0].contains("step-00000007"), "{:?}", record.warnings);
    assert_eq!(distilled(&part), distilled(&whole));
}

#[test]
fn pairs_that_diverge_stop_with_the_state_before_saved() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let changes = ["distill.units=absolute", "distill.lr_image=1e30", "distill.lr_text=1e30"];
    let error = run(config(&changes), &out, &Device::flex(), &mut Quiet).unwrap_err();
    match &error {
        DistillError::Method(error) => match **error {
            MethodError::NotFinite { step, .. } => assert!(step > 0),
            ref other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
    assert!(error.to_string().contains("smaller rates") && error.to_string().contains("1e30"), "{error}");
    assert!(fs::read_dir(out.join("checkpoints")).unwrap().count() > 0);
}

#[test]
fn only_the_chosen_modality_is_learned() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    let learn = |target: &str| {
        let out = folder.path().join(target);
        run(config(&[&format!("distill.learn={target}"), "distill.rounds=1"]), &out, &device, &mut Quiet).unwrap();
        let set = DistilledSet::load(&out, &device).unwrap();
        let vector = |data: burn::tensor::TensorData| data.iter::<f32>().collect::<Vec<_>>();
        (vector(set.pairs.pixels.into_data()), vector(set.pairs.text.into_data()))
    };
    let (both, image, text) = (learn("both"), learn("image"), learn("text"));
    assert!(image.0 != text.0 && image.1 != text.1);
    assert!(both.0 != text.0 && both.1 != image.1);
}

#[test]
fn every_form_of_online_update_and_init_runs() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    let cases: [&[&str]; 8] = [
        &["distill.share_real_batch=true"],
        &["distill.real_batch=16", "online.batch=4"],
        &["head.image=false", "head.width=1280"],
        &["online.update=none"],
        &["online.update=synthetic"],
        &["distill.init=noise"],
        &["online.train_text_encoder=false", "data.augment=false"],
        &["distill.steps_per_round=1", "head.depth=1"],
    ];
    let mut sets = Vec::new();
    for (number, changes) in cases.iter().enumerate() {
        let out = folder.path().join(number.to_string());
        let mut record = Record::default();
        run(config(changes), &out, &device, &mut record).unwrap();
        assert!(record.losses.iter().all(|loss| loss.is_finite()), "{changes:?}: {:?}", record.losses);
        sets.push(distilled(&out));
    }
    sets.sort();
    sets.dedup();
    assert_eq!(sets.len(), cases.len());
}

#[test]
fn clips_are_distilled_like_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    let out = folder.path().join("clips");
    let changes = ["data.frames=4", "image.encoder=r3d_18", "distill.rounds=1", "distill.steps_per_round=2"];
    run(config(&changes), &out, &device, &mut Quiet).unwrap();
    let set = DistilledSet::load(&out, &device).unwrap();
    assert_eq!(set.pairs.pixels.dims(), [6, 3, 4, 32, 32]);
}

#[test]
fn mistakes_around_a_run_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    let out = folder.path().join("run");
    run(config(&["distill.rounds=1"]), &out, &device, &mut Quiet).unwrap();
    let again = run(config(&[]), &out, &device, &mut Quiet).unwrap_err();
    assert!(again.to_string().contains("pairs that CovMatch learned"), "{again}");
    let nothing = resume(folder.path(), &device, &mut Quiet).unwrap_err();
    assert!(nothing.to_string().contains("run.toml"), "{nothing}");
    let changed = fs::read_to_string(out.join("run.toml")).unwrap().replace("train = 40", "train = 41");
    fs::write(out.join("run.toml"), changed).unwrap();
    let other = resume(&out, &device, &mut Quiet).unwrap_err();
    assert!(other.to_string().contains("dataset has changed"), "{other}");
    let few = run(config(&["distill.pairs=1000"]), &folder.path().join("few"), &device, &mut Quiet).unwrap_err();
    assert!(few.to_string().contains("1000"), "{few}");
}

#[test]
fn a_folder_knows_what_made_it_and_refuses_what_belongs_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let (device, methods) = (Device::flex(), Methods::built_in());
    let open = |overrides: &[&str]| Experiment::open(config(overrides), &device).unwrap();
    let chosen = RunFolder::new(folder.path().join("chosen"));
    let select = || covmatch::distill::select(&methods, "random", open(&[]), &chosen, &mut |_| {});
    let pairs = select().unwrap();
    assert_eq!(pairs.len(), 6);
    let Content::Pairs(content) = Content::of(chosen.path()) else { panic!("no pairs") };
    assert_eq!((content.maker.method.as_str(), content.maker.learns, content.made), ("random", false, true));
    let machine = content.maker.machine;
    assert_eq!((machine.device.as_str(), machine.threads), ("flex", covmatch::engine::threads()));
    let card = fs::read_to_string(chosen.card()).unwrap();
    assert!(card.contains("# 6 real image-text pairs") && card.contains("covmatch select random run.toml"), "{card}");

    // Neither learning nor choosing begins over it, and there is nothing to go on with.
    let before = fs::read(chosen.set()).unwrap();
    for error in [
        resume(chosen.path(), &device, &mut Quiet).unwrap_err(),
        run(config(&[]), chosen.path(), &device, &mut Quiet).unwrap_err(),
        select().unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("pairs that Random chose") && text.contains("covmatch evaluate"), "{text}");
    }
    assert_eq!(fs::read(chosen.set()).unwrap(), before);

    // A folder of version 0.1, which wrote neither its maker nor its cost.
    let text = fs::read_to_string(chosen.config_file()).unwrap();
    let old = text.split("[run.maker]").next().unwrap().to_owned();
    fs::write(chosen.config_file(), old.replace("augment = true\n", "")).unwrap();
    fs::remove_file(chosen.path().join("cost.json")).unwrap();
    let Content::Pairs(content) = Content::of(chosen.path()) else { panic!("no pairs") };
    assert_eq!((content.maker.title.as_str(), content.maker.learns, content.made), ("Random", false, true));
    assert!(resume(chosen.path(), &device, &mut Quiet).unwrap_err().to_string().contains("pairs that Random chose"));
}

#[test]
fn random_pairs_are_those_that_a_learner_starts_from() {
    let device = Device::flex();
    let experiment = Experiment::open(config(&["data.augment=false"]), &device).unwrap();
    let captions = random::random(&experiment).unwrap();
    let real = selection::real_pairs(&experiment, &captions).unwrap();
    let start = Synthetic::init(&experiment, &experiment.model(experiment.config.seed(), 0)).unwrap();
    let vector = |data: burn::tensor::TensorData| data.iter::<f32>().collect::<Vec<_>>();
    assert_eq!(captions, start.captions);
    assert_eq!(vector(real.pixels.into_data()), vector(start.inputs.pixels.into_data()));
}

#[test]
fn an_evaluation_repeats_and_its_runs_differ() {
    let device = Device::flex();
    let experiment = Experiment::open(config(&[]), &device).unwrap();
    let pairs = Synthetic::init(&experiment, &experiment.model(experiment.config.seed(), 0)).unwrap().inputs;
    let after =
        |experiment: &Experiment, done: Vec<Run>| evaluate_pairs(experiment, &pairs, None, done, &mut |_| {}).unwrap();
    let evaluate = |experiment: &Experiment| after(experiment, Vec::new());
    let (once, twice) = (evaluate(&experiment), evaluate(&experiment));
    assert_eq!(once, twice);
    assert_eq!(once.runs.len(), 2);
    assert_ne!(once.runs[0].loss, once.runs[1].loss);
    assert!(once.chosen.is_some());
    assert_eq!(after(&experiment, vec![once.runs[0]]), once, "the second run does not depend on the first");

    let frozen = Experiment::open(config(&["evaluate.train_text_encoder=false"]), &device).unwrap();
    assert_ne!(evaluate(&frozen).runs[0].loss, once.runs[0].loss);
}
