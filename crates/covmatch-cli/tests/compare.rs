//! `covmatch compare` on the built-in dataset and encoders: killed, run again, shared, refused.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod program;

use std::path::{Path, PathBuf};
use std::process::Command;

use program::{covmatch_with, fail, kill_when, succeed};
use serde_json::Value;

const PRESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../presets/compare-scenes.toml");

/// Fields that make the preset's experiment small.
const SMALL: &str = "\
    data.scenes.train=40 data.scenes.val=8 data.scenes.test=10 compare.methods=[\"random\",\"herding\",\"covmatch\"] \
    compare.pairs=[4] distill.rounds=4 distill.steps_per_round=3 distill.real_batch=16 select.batch=16 \
    select.forgetting_epochs=2 evaluate.epochs=2 evaluate.runs=3 evaluate.val_every=1 train.epochs=1 train.batch=16";

/// The cells of the small comparison.
const CELLS: [&str; 4] = ["random-4", "herding-4", "covmatch-4", "full"];

fn compare(out: &Path, words: &[&str]) -> Command {
    let mut program = covmatch_with(&["compare", PRESET], SMALL.split(' '));
    program.arg("--out").arg(out).args(words);
    program
}

/// The table as programs read it, without what depends on the machine's speed.
fn table(out: &Path) -> (Value, Vec<String>) {
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let mut json: Value = serde_json::from_str(&read("table.json")).unwrap();
    for cell in json["cells"].as_array_mut().unwrap() {
        cell.as_object_mut().unwrap().remove("cost");
    }
    let without_costs = |line: &str| line.split(',').take(4 + 14).collect::<Vec<_>>().join(",");
    (json, read("table.csv").lines().map(without_costs).collect())
}

/// `table.md` without its last section, the costs.
fn markdown(out: &Path) -> String {
    let text = std::fs::read_to_string(out.join("table.md")).unwrap();
    text.split_once("## Costs").unwrap().0.to_owned()
}

/// The files that say that the cells are filled, with the time that each was written.
fn filled(out: &Path) -> Vec<(PathBuf, std::time::SystemTime, Vec<u8>)> {
    let files = CELLS.iter().flat_map(|cell| ["evaluation.json", "cost.json"].map(|name| out.join(cell).join(name)));
    let there = files.filter(|path| path.is_file());
    there
        .map(|path| (path.clone(), path.metadata().unwrap().modified().unwrap(), std::fs::read(&path).unwrap()))
        .collect()
}

#[test]
fn a_comparison_that_is_killed_goes_on_to_the_same_table() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, part) = (folder.path().join("whole"), folder.path().join("part"));
    let text = String::from_utf8(succeed(compare(&whole, &[])).stdout).unwrap();
    for word in ["4 pairs", "Random", "Herding", "CovMatch", "All train pairs", "validation", "Seconds a step", "±"] {
        assert!(text.contains(word), "no '{word}' in:\n{text}");
    }

    // In the middle of choosing, of distilling and of evaluating.
    kill_when(compare(&part, &[]), &part.join("random-4/run.toml"));
    kill_when(compare(&part, &[]), &part.join("covmatch-4/checkpoints/step-00000003"));
    let before = filled(&part);
    assert_eq!(before.len(), 4, "random and herding are there: {before:?}");
    kill_when(compare(&part, &[]), &part.join("covmatch-4/cost.json"));
    // With the first of three models trained and tested.
    let runs = part.join("covmatch-4/evaluation.unfinished.json");
    kill_when(compare(&part, &[]), &runs);
    let first: Value = serde_json::from_slice(&std::fs::read(&runs).unwrap()).unwrap();
    let text = String::from_utf8(succeed(compare(&part, &[])).stderr).unwrap();
    assert!(text.contains("random-4 is there") && text.contains("herding-4 is there"), "{text}");
    assert!(!text.contains("covmatch-4 goes on being made"), "{text}");
    let evaluation: Value =
        serde_json::from_slice(&std::fs::read(part.join("covmatch-4/evaluation.json")).unwrap()).unwrap();
    assert_eq!(first["runs"][0], evaluation["evaluation"]["runs"][0]);
    assert!(!runs.exists(), "evaluation.json has its runs");
    let evaluated = text.split_once("covmatch-4 is being evaluated").unwrap().1;
    let tested = evaluated.lines().find(|line| line.contains("IR@1")).unwrap();
    assert!(!tested.contains("run 1:"), "the first model was trained again: {tested}");
    assert_eq!(filled(&part)[..4], before, "what was there was not made again");

    assert_eq!(table(&part), table(&whole));
    assert_eq!(markdown(&part), markdown(&whole));
    let set = |out: &Path| std::fs::read(out.join("covmatch-4/distilled.safetensors")).unwrap();
    assert_eq!(set(&part), set(&whole));
    // A learned set has its report, with what was measured of it.
    let report = std::fs::read_to_string(part.join("covmatch-4/report.html")).unwrap();
    assert!(report.contains("These pairs alone") && report.contains("over 3 runs"), "{report}");
    assert!(!part.join("random-4/report.html").exists(), "a selection has no steps to report on");

    // With everything there, another configuration is refused and the same one only prints.
    let before = filled(&whole);
    let error = fail(compare(&whole, &["--set", "evaluate.epochs=3"]), 1);
    for word in ["random-4", "evaluate.epochs", "2", "3", "--out"] {
        assert!(error.contains(word), "no '{word}' in: {error}");
    }
    let json: Value = serde_json::from_slice(&succeed(compare(&whole, &["--json"])).stdout).unwrap();
    assert_eq!(json["cells"].as_array().unwrap().len(), 4);
    assert_eq!(filled(&whole), before);
}

#[test]
fn shards_fill_their_cells_and_the_table_shows_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("shared");
    let methods = ["--set", "compare.methods=[\"k-center\", \"forgetting\"]", "--set", "compare.full=false"];
    let warm = ["--set", "select.warmup_epochs=1"];
    let shard = |shard: &str| {
        let words = [&methods[..], &warm, &["--shard", shard]].concat();
        String::from_utf8(succeed(compare(&out, &words)).stdout).unwrap()
    };
    let text = shard("2/2");
    assert!(text.contains("Not filled yet: k-center-4"), "{text}");
    assert!(!out.join("k-center-4").exists() && out.join("forgetting-4/evaluation.json").is_file());
    let text = shard("1/2");
    assert!(!text.contains("Not filled yet"), "{text}");
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("refused");
    for (field, words) in [
        ("compare.methods=[\"randon\"]", ["randon", "herding"]),
        ("compare.pairs=[4, 41]", ["41", "at most 40"]),
        ("compare.pairs=[4, 4]", ["compare.pairs", "twice"]),
    ] {
        let error = fail(compare(&out, &["--set", field]), 1);
        assert!(words.iter().all(|word| error.contains(word)), "{field}: {error}");
    }
    assert!(fail(compare(&out, &["--shard", "3/2"]), 2).contains("1/4"));
    assert!(!out.exists());
}
