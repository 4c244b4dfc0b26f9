//! Runs of the program that are killed, resumed, evaluated: on the built-in dataset and encoders.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod program;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use program::{DEMO, covmatch, covmatch_with, kill_when, set, succeed};

/// Fields that make the demo's experiment small.
const SMALL: &str = "\
    data.scenes.train=60 data.scenes.val=8 data.scenes.test=10 distill.pairs=8 distill.rounds=6 \
    distill.steps_per_round=4 distill.real_batch=16 evaluate.epochs=2 evaluate.runs=2";

fn small(command: &str, words: &[&str]) -> Command {
    covmatch_with(&[&[command], words, &[DEMO]].concat(), SMALL.split(' '))
}

fn distill(out: &Path) -> Command {
    let mut program = small("distill", &[]);
    program.arg("--out").arg(out);
    program
}

/// A folder with pairs that were chosen at random.
fn random_pairs() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let random = folder.path().join("random");
    let mut select = small("select", &["random"]);
    select.arg("--out").arg(&random);
    succeed(select);
    (folder, random)
}

fn resume(folder: &Path) -> Command {
    let mut program = covmatch(&["distill", "--resume"]);
    program.arg(folder);
    program
}

/// Starts the command and kills it after `delay`. Whether it had ended by itself.
fn kill_after(mut command: Command, delay: Duration) -> bool {
    let mut child = command.spawn().unwrap();
    std::thread::sleep(delay);
    let ended = child.try_wait().unwrap().is_some_and(|status| status.success());
    let _ = child.kill(); // SIGKILL
    child.wait().unwrap();
    ended
}

/// How many pictures the only cache in `folder` holds (the layout is that of `data/cache/file.rs`); 0 if there is none.
fn cached_pictures(folder: &Path) -> usize {
    let mut files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    let Some(path) = files.find(|path| path.extension().is_some_and(|end| end == "cache")) else { return 0 };
    let mut file = std::fs::File::open(path).unwrap();
    let mut number = || {
        let mut bytes = [0; 8];
        std::io::Read::read_exact(&mut file, &mut bytes).unwrap();
        u64::from_ne_bytes(bytes)
    };
    let header: Vec<u64> = (0..8).map(|_| number()).collect();
    (0..header[2]).filter(|_| number() > 0).count()
}

#[test]
fn a_process_that_is_killed_while_it_fills_the_cache_leaves_one_that_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    // So many pictures that a run goes on filling to its end.
    let distill = |out: &str| {
        let mut program = distill(&folder.path().join(out));
        program.args(["--set", "data.scenes.train=2000"]);
        program
    };
    let cached = |out: &str| {
        let mut program = distill(out);
        program.args(["--set", &format!("data.cache='{}'", cache.display()), "--set", "data.cache_gb=0.1"]);
        program
    };
    for enough in [1, 60, 150] {
        let mut child = cached(&format!("killed-{enough}")).spawn().unwrap();
        while cached_pictures(&cache) < enough && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(child.try_wait().unwrap().is_none(), "the run ended before {enough} pictures were cached");
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
    }
    succeed(distill("whole"));
    succeed(cached("last"));
    assert!(cached_pictures(&cache) > 150);
    assert_eq!(set(&folder.path().join("last")), set(&folder.path().join("whole")));
}

#[test]
fn a_run_that_is_killed_at_any_moment_resumes_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let start = Instant::now();
    succeed(distill(&whole));
    let duration = start.elapsed();

    // Moments spread over the run, at fractions that are no multiples of a round's.
    for (number, fractions) in [[0.31, 0.23, 0.47], [0.55, 0.11, 0.37], [0.87, 0.05, 0.19]].iter().enumerate() {
        let part = folder.path().join(format!("part-{number}"));
        let mut ended = kill_after(distill(&part), duration.mul_f64(fractions[0]));
        for fraction in &fractions[1..] {
            if !ended && part.join("run.toml").is_file() {
                ended = kill_after(resume(&part), duration.mul_f64(*fraction));
            }
        }
        if !ended {
            let again = if part.join("run.toml").is_file() { resume(&part) } else { distill(&part) };
            succeed(again);
        }
        assert_eq!(set(&part), set(&whole), "killed after {fractions:?} of {duration:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_run_that_is_asked_to_stop_saves_a_checkpoint_and_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, part) = (folder.path().join("whole"), folder.path().join("part"));
    succeed(distill(&whole));
    let mut slow = distill(&part);
    let child = slow.spawn().unwrap();
    // The first line of metrics says that steps are being taken.
    let metrics = part.join("metrics.jsonl");
    let begun = || std::fs::read_to_string(&metrics).is_ok_and(|text| text.contains('\n'));
    let start = Instant::now();
    while !begun() && start.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(2));
    }
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("interrupted after step") && text.contains("--resume"), "{text}");
    succeed(resume(&part));
    assert_eq!(set(&part), set(&whole));
}

#[test]
fn pairs_are_evaluated_with_a_table_a_card_and_json() {
    let (_folder, random) = random_pairs();

    let mut evaluate = covmatch(&["evaluate"]);
    evaluate.arg(&random);
    let table = String::from_utf8(succeed(evaluate).stdout).unwrap();
    assert!(table.contains("IR@10") && table.contains("±"), "{table}");
    let card = std::fs::read_to_string(random.join("README.md")).unwrap();
    assert!(card.contains("load_file") && card.contains("these pairs"), "{card}");

    let mut again = covmatch(&["evaluate", "--runs", "1", "--size", "48", "--frozen-text", "--json"]);
    again.arg(&random);
    let json: serde_json::Value = serde_json::from_slice(&succeed(again).stdout).unwrap();
    assert_eq!(json["evaluation"]["runs"].as_array().unwrap().len(), 1);
    assert_eq!(json["config"]["image"]["size"], 48);
    // What was measured in another setting is kept beside the set's own result.
    assert_eq!(std::fs::read_to_string(random.join("README.md")).unwrap(), card);
    let own: serde_json::Value =
        serde_json::from_slice(&std::fs::read(random.join("evaluation.json")).unwrap()).unwrap();
    assert_eq!(own["evaluation"]["runs"].as_array().unwrap().len(), 2);
    assert_eq!((&own["differs"], &own["machine"]["device"]), (&serde_json::Value::Null, &"flex".into()));
    let name = "evaluations/runs=1,train_text_encoder=false,image.size=48.json";
    let other: serde_json::Value = serde_json::from_slice(&std::fs::read(random.join(name)).unwrap()).unwrap();
    assert_eq!(other, json);
    assert_eq!(other["differs"][2]["field"], "image.size");
}

#[test]
fn an_evaluation_that_is_killed_goes_on_after_the_last_model_that_was_tested() {
    let (_folder, random) = random_pairs();
    // So many epochs that a second model takes a while.
    let evaluate = |runs: &str| {
        let mut evaluate = covmatch(&["evaluate", "--set", "evaluate.epochs=40", "--runs", runs, "--json"]);
        evaluate.arg(&random);
        evaluate
    };
    let whole = succeed(evaluate("3"));
    let tested = |stderr: &[u8]| String::from_utf8_lossy(stderr).matches("IR@1").count();
    assert_eq!(tested(&whole.stderr), 3);

    let unfinished = random.join("evaluations/epochs=40,runs=3.unfinished.json");
    kill_when(evaluate("3"), &unfinished);
    let again = succeed(evaluate("3"));
    let text = String::from_utf8_lossy(&again.stderr);
    assert!(text.contains("goes on after run"), "{text}");
    assert!(tested(&again.stderr) < 3, "{text}");
    assert_eq!(again.stdout, whole.stdout);
    assert!(!unfinished.exists(), "the result has its models");

    // Another evaluation does not take over its models.
    kill_when(evaluate("3"), &unfinished);
    assert_eq!(tested(&succeed(evaluate("2")).stderr), 2);
}

#[test]
fn coresets_draw_nothing_and_differ() {
    let folder = tempfile::tempdir().unwrap();
    let choose = |method: &str, name: &str, seed: &str| {
        let out = folder.path().join(name);
        let mut select = small("select", &[method]);
        select.args(["--set", seed]).arg("--out").arg(&out);
        succeed(select);
        std::fs::read_to_string(out.join("metadata.jsonl")).unwrap()
    };
    let (herding, k_center) = (choose("herding", "h", "seed=0"), choose("k-center", "k", "seed=0"));
    assert_eq!(herding.lines().count(), 8);
    assert_ne!(herding, k_center);
    assert_ne!(herding, choose("random", "r", "seed=0"));
    let images = |text: &str| -> Vec<String> {
        let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["init_image"].to_string();
        text.lines().map(line).collect()
    };
    assert_eq!(images(&herding), images(&choose("herding", "h7", "seed=7")), "another seed chooses the same");
    let mut distinct = images(&k_center);
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 8, "an image is taken once");
}

#[test]
fn a_selection_that_looks_at_a_training_is_a_function_of_the_seed() {
    let folder = tempfile::tempdir().unwrap();
    let choose = |method: &str, name: &str, fields: &[&str]| {
        let out = folder.path().join(name);
        let mut select = small("select", &[method]);
        for field in [&["select.batch=16", "select.forgetting_epochs=3"], fields].concat() {
            select.args(["--set", field]);
        }
        select.arg("--out").arg(&out);
        succeed(select);
        std::fs::read(out.join("distilled.safetensors")).unwrap()
    };
    let forgetting = choose("forgetting", "f", &[]);
    assert_eq!(forgetting, choose("forgetting", "f-again", &[]));
    assert_ne!(forgetting, choose("forgetting", "f-7", &["seed=7"]));
    let warm = choose("herding", "w", &["select.warmup_epochs=1"]);
    assert_eq!(warm, choose("herding", "w-again", &["select.warmup_epochs=1"]));
    assert_ne!(warm, choose("herding", "h", &[]));

    let mut wild =
        small("select", &["forgetting", "--set", "select.rates.lr_encoder=1e30", "--set", "select.batch=16"]);
    let out = folder.path().join("wild");
    let output = wild.arg("--out").arg(&out).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("select.rates") && !out.join("run.toml").exists(), "{text}");
}

#[test]
fn training_on_everything_prints_the_same_table_and_goes_on_if_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let train = |out: &str, words: &[&str]| {
        let few = ["--runs", "3", "--set", "train.epochs=2", "--set", "train.batch=16", "--json"];
        let mut train = small("train", &[&few, words].concat());
        train.arg("--out").arg(folder.path().join(out));
        train
    };
    let whole = succeed(train("whole", &[]));
    let json: serde_json::Value = serde_json::from_slice(&whole.stdout).unwrap();
    assert_eq!(json["evaluation"]["last"]["mean"].as_array().unwrap().len(), 7, "{json}");
    assert!(json["evaluation"]["chosen"].is_object(), "{json}");
    let result = |out: &str| std::fs::read(folder.path().join(out).join("evaluation.json")).unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&result("whole")).unwrap(), json);

    let unfinished = folder.path().join("killed/evaluation.unfinished.json");
    kill_when(train("killed", &[]), &unfinished);
    let again = succeed(train("killed", &[]));
    let text = String::from_utf8_lossy(&again.stderr);
    assert!(text.contains("goes on after run"), "{text}");
    assert_eq!((again.stdout, result("killed")), (whole.stdout, result("whole")));
    assert!(!unfinished.exists(), "the result has its models");

    // The results of a set are of its pairs.
    std::fs::write(folder.path().join("whole/run.toml"), "").unwrap();
    let output = train("whole", &[]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("whole already holds a run"), "{text}");
}

#[test]
fn a_dataset_is_inspected_as_text_json_and_picture() {
    let folder = tempfile::tempdir().unwrap();
    let sheet = folder.path().join("sheet.png");
    let data = folder.path().join("pairs.csv");
    for name in ["a.png", "b.png"] {
        let picture = covmatch::data::RgbImage { width: 40, height: 30, pixels: vec![90; 40 * 30 * 3] };
        covmatch::data::inspect::save_png(&picture, &folder.path().join(name)).unwrap();
    }
    std::fs::write(&data, "image,caption,split\na.png,a grey wall,train\nb.png,the same wall,test\n").unwrap();
    let mut inspect = covmatch(&["inspect"]);
    inspect.arg(&data).arg("--sheet").arg(&sheet);
    let text = String::from_utf8(succeed(inspect).stdout).unwrap();
    assert!(text.contains("train") && text.contains("40"), "{text}");
    assert!(std::fs::read(&sheet).unwrap().starts_with(b"\x89PNG"));

    let mut inspect = covmatch(&["inspect"]);
    inspect.arg(&data).arg("--json");
    let json: serde_json::Value = serde_json::from_slice(&succeed(inspect).stdout).unwrap();
    assert_eq!((json["images"].as_u64(), json["captions"].as_u64()), (Some(2), Some(2)));

    std::fs::remove_file(folder.path().join("b.png")).unwrap();
    let mut inspect = covmatch(&["inspect"]);
    let output = inspect.arg(&data).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("b.png"));
}
