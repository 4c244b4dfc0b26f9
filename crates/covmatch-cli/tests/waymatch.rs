//! WayMatch on the built-in dataset and encoders: teachers and pairs are made, killed, resumed, evaluated.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod program;

use std::path::PathBuf;
use std::process::Command;

use program::{DEMO, covmatch, covmatch_with, fail, kill_when, set, succeed};

/// Fields that make the demo's experiment small.
const SMALL: [&str; 16] = [
    "distill.method=waymatch",
    "data.scenes.train=60",
    "data.scenes.val=8",
    "data.scenes.test=10",
    "distill.pairs=6",
    "distill.rounds=3",
    "distill.steps_per_round=8",
    "waymatch.teachers=2",
    "waymatch.waypoints=[0, 2, 5]",
    "waymatch.batch=16",
    "waymatch.stay=2",
    "waymatch.tested=40",
    "waymatch.info_nce=0.1",
    "evaluate.epochs=2",
    "evaluate.runs=2",
    "evaluate.batch=4",
];

/// A temporary folder.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Learns pairs in the folder `out` with the teachers of the folder `teachers`.
    fn distill(&self, teachers: &str, more: &[&str], out: &str) -> Command {
        let folder = format!("waymatch.folder='{}'", self.path(teachers).display());
        let fields: Vec<&str> = SMALL.iter().chain(more).copied().chain([folder.as_str()]).collect();
        let mut command = covmatch_with(&["distill", DEMO], fields);
        command.arg("--out").arg(self.path(out));
        command
    }

    fn resume(&self, out: &str) -> Command {
        covmatch(&["distill", "--resume", self.path(out).to_str().unwrap()])
    }
}

#[test]
fn pairs_are_learned_at_the_waypoints_of_teachers_and_evaluated() {
    let bench = Bench::new();
    let said = succeed(bench.distill("teachers", &[], "run"));
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(text.contains("teacher 1") && text.contains("6 waypoints"), "{text}");
    for waypoint in ["step-00000", "step-00002", "step-00005"] {
        assert!(bench.path(&format!("teachers/teacher-01/{waypoint}.safetensors")).is_file(), "{waypoint}");
    }
    let folder = bench.path("run");
    let losses: Vec<f64> = std::fs::read_to_string(folder.join("metrics.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["fitted"].as_f64().unwrap())
        .collect();
    assert_eq!(losses.len(), 24);
    // Both halves of the run are two steps at each of the six waypoints.
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(mean(&losses[12..]) < mean(&losses[..12]), "{losses:?}");
    let text = String::from_utf8(succeed(covmatch(&["evaluate", folder.to_str().unwrap(), "--json"])).stdout).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["evaluation"]["runs"].as_array().unwrap().len(), 2);

    // Another run finds the teachers, and begins with the pairs of the first.
    let init = format!("distill.init='set:{}'", folder.display());
    let said = succeed(bench.distill("teachers", &[&init], "further"));
    assert!(!String::from_utf8_lossy(&said.stderr).contains("teacher 1  step"));
    assert_ne!(set(&bench.path("further")), set(&folder));
}

#[test]
fn a_run_that_is_killed_among_its_teachers_or_its_steps_ends_in_the_same_bytes() {
    let bench = Bench::new();
    succeed(bench.distill("whole", &[], "a"));
    kill_when(bench.distill("part", &[], "b"), &bench.path("part/teacher-00/step-00002.safetensors"));
    kill_when(bench.resume("b"), &bench.path("b/metrics.jsonl"));
    succeed(bench.resume("b"));
    assert_eq!(set(&bench.path("b")), set(&bench.path("a")));
    let last = "teacher-01/step-00005.safetensors";
    let weights = |folder: &str| {
        let bytes = std::fs::read(bench.path(folder).join(last)).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec() // the header has the seconds
    };
    assert_eq!(weights("part"), weights("whole"));
}

#[test]
fn mistakes_are_named() {
    let bench = Bench::new();
    succeed(bench.distill("teachers", &[], "run"));
    let text = fail(bench.distill("teachers", &["waymatch.batch=8"], "other"), 1);
    assert!(text.contains("teachers") && text.contains("batch") && text.contains("waymatch.folder"), "{text}");
    let text = fail(bench.distill("teachers", &["waymatch.waypoints=[3, 2]"], "falling"), 1);
    assert!(text.contains("waymatch.waypoints") && text.contains("rising"), "{text}");
    let init = format!("distill.init='set:{}'", bench.path("run").display());
    let text = fail(bench.distill("teachers", &[&init, "distill.pairs=5"], "fewer"), 1);
    assert!(text.contains("cannot start at") && text.contains("6 pairs") && text.contains("5 pairs"), "{text}");
    let text = fail(bench.distill("teachers", &["distill.init=reel"], "misspelt"), 1);
    assert!(text.contains("reel") && text.contains("set:FOLDER"), "{text}");
}
