//! Experts, MTT-VL and LoRS on the built-in dataset and encoders: trained, killed, resumed, evaluated.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod program;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use program::{DEMO, covmatch, covmatch_with, fail, set, succeed};

/// Fields that make the demo's experiment small.
///
/// The rates are low: at the defaults, 60 pictures train chaotically, and rounding alone decides whether a run diverges.
const SMALL: &str = "\
    data.scenes.train=60 data.scenes.val=8 data.scenes.test=10 distill.pairs=6 distill.rounds=3 \
    distill.steps_per_round=2 experts.count=2 experts.epochs=2 experts.batch=16 experts.lr_image=0.01 \
    experts.lr_text=0.01 trajectory.student_lr_image=0.01 trajectory.student_lr_text=0.01 trajectory.student_steps=2 \
    trajectory.student_batch=4 trajectory.rank=2 evaluate.epochs=2 evaluate.runs=2 evaluate.batch=4";

/// Fields that train, and match, the text encoder too.
const BOTH_ENCODERS: [&str; 2] = ["experts.train_text_encoder=true", "trajectory.text=inputs"];

/// A temporary folder with the experts of the small experiment.
struct Bench {
    folder: tempfile::TempDir,
    /// Fields of its experiment beside the small ones.
    own: &'static [&'static str],
}

impl Bench {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(own: &'static [&'static str]) -> Self {
        let bench = Self::without_experts(own);
        succeed(bench.small("experts", &[]));
        bench
    }

    fn without_experts(own: &'static [&'static str]) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), own }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn overrides(&self, more: &[&str]) -> Vec<String> {
        let more = self.own.iter().chain(more).copied();
        let mut overrides: Vec<String> = SMALL.split(' ').chain(more).map(str::to_owned).collect();
        overrides.push(format!("experts.folder='{}'", self.path("experts").display()));
        overrides
    }

    fn small(&self, command: &str, more: &[&str]) -> Command {
        covmatch_with(&[command, DEMO], self.overrides(more))
    }

    fn distill(&self, more: &[&str], out: &str) -> Command {
        let mut command = self.small("distill", more);
        command.arg("--out").arg(self.path(out));
        command
    }

    /// Learns pairs with `method`, looks for the files of the folder `name` and evaluates them.
    fn learn_and_evaluate(&self, method: &str, more: &[&str], name: &str) {
        let method = format!("distill.method={method}");
        let said = succeed(self.distill(&[more, &[method.as_str()]].concat(), name));
        assert!(String::from_utf8_lossy(&said.stdout).contains("students and derivatives"));
        let folder = self.path(name);
        for file in ["distilled.safetensors", "metadata.jsonl", "run.toml", "README.md", "metrics.jsonl", "report.html"]
        {
            assert!(folder.join(file).is_file(), "{name} has no {file}");
        }
        let evaluate = covmatch(&["evaluate", &folder.display().to_string(), "--json"]);
        let text = String::from_utf8(succeed(evaluate).stdout).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["evaluation"]["runs"].as_array().unwrap().len(), 2, "{name}");
    }

    /// Whether the file of an expert's first epoch has weights of the text encoder's layers.
    fn experts_have_text_layers(&self) -> bool {
        let file = std::fs::read(self.path("experts/expert-0000/epoch-01.safetensors")).unwrap();
        let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        String::from_utf8_lossy(&file[8..8 + header]).contains("\"text.encoder.layer.0.")
    }
}

/// Every file of the experts in `folder` with its length, in order of the names.
fn epochs(folder: &Path) -> Vec<(PathBuf, usize)> {
    let mut found: Vec<(PathBuf, usize)> = Vec::new();
    for expert in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        for file in std::fs::read_dir(expert).unwrap().map(|entry| entry.unwrap().path()) {
            let length = std::fs::metadata(&file).unwrap().len() as usize;
            found.push((file.strip_prefix(folder).unwrap().to_owned(), length));
        }
    }
    found.sort();
    found
}

#[test]
fn each_method_learns_pairs_that_can_be_evaluated() {
    let bench = Bench::new();
    assert_eq!(epochs(&bench.path("experts")).len(), 2 * 3);
    for (method, more) in [
        ("lors", vec![]),
        ("mtt-vl", vec![]),
        ("lors", vec!["trajectory.text=inputs", "trajectory.merge_branches=true", "trajectory.loss=bce"]),
        (
            "mtt-vl",
            vec![
                "trajectory.text=inputs",
                "trajectory.rank=0",
                "distill.units=absolute",
                "distill.lr_image=0.01",
                "distill.lr_text=0.01",
            ],
        ),
    ] {
        bench.learn_and_evaluate(method, &more, &format!("{method}-{}", more.len()));
    }
    assert!(!bench.experts_have_text_layers());
}

#[test]
fn the_trajectories_of_both_encoders_are_matched() {
    let bench = Bench::with(&BOTH_ENCODERS);
    assert!(bench.experts_have_text_layers());
    for method in ["mtt-vl", "lors"] {
        bench.learn_and_evaluate(method, &["trajectory.lr_rates=0"], method);
    }
}

#[test]
fn a_trajectory_run_that_is_killed_resumes_to_the_same_bytes() {
    let bench = Bench::new();
    let lors = ["distill.method=lors"];
    succeed(bench.distill(&lors, "whole"));
    let part = bench.path("part");
    let mut child = bench.distill(&lors, "part").spawn().unwrap();
    let begun = || std::fs::read_to_string(part.join("metrics.jsonl")).is_ok_and(|text| text.lines().count() > 2);
    while !begun() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill(); // SIGKILL
    child.wait().unwrap();
    succeed(covmatch(&["distill", "--resume", &part.display().to_string()]));
    assert_eq!(set(&part), set(&bench.path("whole")));
}

#[test]
fn students_whose_rates_are_at_their_lower_bound_are_told_of_once() {
    let bench = Bench::new();
    let said = |name: &str, more: &[&str]| {
        let output = succeed(bench.distill(&[&["distill.method=mtt-vl"], more].concat(), name));
        String::from_utf8_lossy(&output.stderr).matches("trajectory.min_rate").count()
    };
    assert_eq!(said("free", &["trajectory.lr_rates=0"]), 0);
    assert_eq!(said("bound", &["trajectory.lr_rates=0", "trajectory.min_rate=0.011"]), 1, "rates begin at 0.01");
}

#[test]
fn experts_are_the_same_in_one_go_in_shares_and_after_a_kill() {
    let bench = Bench::new();
    let elsewhere = bench.path("shares");
    let folder = format!("experts.folder='{}'", elsewhere.display());
    let share = |which: &str| {
        let mut command = bench.small("experts", &[]);
        command.args(["--set", &folder, "--shard", which]);
        command
    };
    let mut child = share("2/2").spawn().unwrap();
    let begun = || elsewhere.join("expert-0001/epoch-01.safetensors").is_file();
    while !begun() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill(); // SIGKILL
    child.wait().unwrap();
    succeed(share("2/2"));
    assert!(!elsewhere.join("expert-0000").exists());
    succeed(share("1/2"));

    let whole = bench.path("experts");
    assert_eq!(epochs(&whole).len(), epochs(&elsewhere).len());
    // The same pairs are learned from both.
    let lors = ["distill.method=lors"];
    succeed(bench.distill(&lors, "from-whole"));
    let mut other = bench.distill(&lors, "from-shares");
    other.args(["--set", &folder]);
    succeed(other);
    assert_eq!(set(&bench.path("from-whole")), set(&bench.path("from-shares")));
}

#[test]
fn a_comparison_trains_the_experts_that_are_missing_and_tells_their_cost() {
    let bench = Bench::without_experts(&[]);
    let more = ["compare.methods=['lors']", "compare.pairs=[6]", "compare.full=false"];
    let mut compare = bench.small("compare", &more);
    compare.arg("--out").arg(bench.path("table"));
    let text = String::from_utf8(succeed(compare).stdout).unwrap();
    assert!(text.contains("LoRS") && text.to_lowercase().contains("expert"), "{text}");
    assert_eq!(epochs(&bench.path("experts")).len(), 2 * 3);
}

#[test]
fn a_distillation_trains_the_experts_that_are_missing() {
    let bench = Bench::without_experts(&[]);
    let text = String::from_utf8(succeed(bench.distill(&["distill.method=lors"], "a")).stderr).unwrap();
    assert!(text.contains("experts first") && text.contains("expert 1  epoch 2"), "{text}");
    assert_eq!(epochs(&bench.path("experts")).len(), 2 * 3);
}

#[test]
fn mistakes_are_named() {
    let bench = Bench::new();
    let method = "distill.method=lors";
    let text = fail(bench.distill(&[method, "head.width=64"], "b"), 1);
    assert!(text.contains("head_width = 256") && text.contains("64"), "{text}");
    let text = fail(bench.distill(&[method, "trajectory.max_start_epoch=3"], "c"), 1);
    assert!(text.contains("raise experts.epochs"), "{text}");
    let text = fail(bench.small("experts", &["experts.count=1000000", "experts.epochs=2"]), 1);
    assert!(text.contains("GB free"), "{text}");
}
