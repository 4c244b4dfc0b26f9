//! The program as a user runs it.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use assert_cmd::Command;
use serde_json::Value;

fn covmatch(args: &[&str]) -> std::process::Output {
    Command::cargo_bin("covmatch").unwrap().args(args).output().unwrap()
}

fn stdout(output: &std::process::Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = covmatch(args);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_demo_distils_compares_and_reports() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("new/folder");
    let demo = ["demo", "--smoke", "--out", out.to_str().unwrap()];
    let output = covmatch(&demo);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "Random: 8 real pairs",
        "CovMatch: 8 distilled pairs",
        "WayMatch: 8 distilled pairs",
        "IR@1",
        "Avg",
        "report.html",
        "next:",
    ] {
        assert!(text.contains(part), "no '{part}' in:\n{text}");
    }
    let numbers: Value = serde_json::from_str(&std::fs::read_to_string(out.join("demo.json")).unwrap()).unwrap();
    for ratio in ["ratio", "ratio_waymatch"] {
        assert!(numbers[ratio].as_f64().unwrap() > 0.0, "{numbers}");
    }
    assert!(out.join("waymatch/report.html").is_file() && out.join("waymatch/distilled.safetensors").is_file());
    let report = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(report.contains("As many real pairs alone") && report.contains("These pairs alone"));
    let set = || std::fs::read(out.join("distilled.safetensors")).unwrap();
    let first = set();
    assert_eq!(covmatch(&demo).status.code(), Some(0), "an earlier demo is replaced");
    assert_eq!(set(), first);
}

#[test]
fn a_demo_leaves_what_is_not_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.toml");
    std::fs::write(&file, "precious").unwrap();
    for out in [file.as_path(), dir.path()] {
        let output = covmatch(&["demo", "--smoke", "--out", out.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(out.to_str().unwrap()), "{}", stderr(&output));
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn every_encoder_is_listed() {
    let list = json(&["encoders", "--json"]);
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    for name in [
        "nfnet_l0",
        "efficientnet_lite2",
        "squeezenet1_1",
        "r3d_18",
        "bert-base-uncased",
        "nfnet_scenes",
        "bert_scenes",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let table = stdout(&covmatch(&["encoders"]));
    assert_eq!(table.lines().count(), names.len() + 1);
    assert!(names.iter().all(|name| table.contains(name)), "{table}");
}

#[test]
fn bench_prints_one_object_with_every_key() {
    let cases = [["squeezenet1_1", "--batch", "1", "--size", "32"], ["minilm-l3", "--batch", "2", "--tokens", "4"]];
    for case in cases {
        let mut args = vec!["bench", "encoder"];
        args.extend(case);
        args.extend(["--iterations", "1", "--warmup", "0", "--threads", "1", "--device", "flex", "--json"]);
        let report = json(&args);
        let mut keys = vec!["forward", "backward_input", "backward_weights", "gflops"];
        if cfg!(target_os = "linux") {
            keys.extend(["peak_mb", "base_mb"]);
        }
        for key in keys {
            assert!(report[key].as_f64().is_some_and(|number| number > 0.0), "{key} in {report}");
        }
        assert_eq!(report["name"], case[0]);
        assert_eq!(report["threads"], 1);
        assert_eq!(report["device"], "flex");
        assert_eq!(report["precision"], "f32");
        assert!(["portable", "avx2", "avx512"].contains(&report["simd"].as_str().unwrap()), "{report}");
    }
}

#[test]
fn a_precision_that_cannot_be_had_is_an_error_that_says_what_to_do() {
    let bench = ["bench", "encoder", "minilm-l3", "--batch", "1", "--tokens", "2", "--iterations", "1", "--json"];
    let run = |precision: &str| {
        let mut program = Command::cargo_bin("covmatch").unwrap();
        program.env("COVMATCH_SIMD", "avx2").args(bench).args(["--precision", precision]).output().unwrap()
    };
    let output = run("bf16");
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("avx512_bf16") && text.contains("--precision f32"), "{text}");
    let output = run("fp16");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("f32, bf16 or auto"), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&run("auto").stdout).unwrap();
    assert_eq!(report["precision"], "f32");
}

#[test]
fn bench_can_measure_one_phase_only() {
    let report = json(&[
        "bench",
        "encoder",
        "minilm-l3",
        "--batch",
        "1",
        "--tokens",
        "2",
        "--only",
        "backward_input",
        "--iterations",
        "1",
        "--json",
    ]);
    assert!(report["backward_input"].as_f64().unwrap() > 0.0);
    assert!(report.get("forward").is_none() && report.get("backward_weights").is_none(), "{report}");
}

#[test]
fn bench_measures_once_for_every_line_it_is_given() {
    let once = ["--iterations", "1", "--warmup", "0", "--threads", "1", "--device", "flex", "--json", "--serve"];
    let encoder = ["bench", "encoder", "minilm-l3", "--batch", "1", "--tokens", "2", "--only", "forward"];
    let step = ["bench", "step", "--image-encoder", "nfnet_scenes", "--text-encoder", "bert_scenes", "--size", "32"];
    let small = ["--real", "2", "--synthetic", "2", "--tokens", "2", "--width", "8"];
    for (what, key) in [(encoder.to_vec(), "forward"), ([&step[..], &small].concat(), "step_s")] {
        let mut program = Command::cargo_bin("covmatch").unwrap();
        let output = program.args(what).args(once).write_stdin("\n\n").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let reports: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(reports.len(), 2);
        assert!(reports.iter().all(|report| report[key].as_f64().unwrap() > 0.0), "{reports:?}");
    }
}

#[test]
fn an_unknown_encoder_is_an_error_that_lists_the_names() {
    let output = covmatch(&["bench", "encoder", "resnet9000"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    let text = stderr(&output);
    assert!(text.starts_with("error: "), "{text}");
    for name in ["resnet9000", "nfnet_l0", "r3d_18", "minilm-l6"] {
        assert!(text.contains(name), "no '{name}' in: {text}");
    }
}

#[test]
fn an_option_of_another_kind_of_encoder_is_an_error() {
    for args in [
        ["bench", "encoder", "nfnet_l0", "--tokens", "4"],
        ["bench", "encoder", "minilm-l3", "--size", "32"],
        ["bench", "encoder", "nfnet_l0", "--frames", "4"],
    ] {
        let output = covmatch(&args);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(args[3]), "{}", stderr(&output));
    }
}

#[test]
fn an_input_that_does_not_fit_is_an_error_not_a_panic() {
    for args in [["bench", "encoder", "nfnet_l0", "--size", "8"], ["bench", "encoder", "minilm-l3", "--tokens", "513"]]
    {
        let output = covmatch(&args);
        assert_eq!(output.status.code(), Some(1));
        let text = stderr(&output);
        assert!(text.contains("error: ") && text.contains(args[2]) && !text.contains("panicked"), "{text}");
    }
}

#[test]
fn a_folder_without_a_run_says_what_makes_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for args in [&["evaluate", path][..], &["distill", "--resume", path]] {
        let output = covmatch(args);
        assert_eq!(output.status.code(), Some(1));
        let text = stderr(&output);
        for part in ["error: ", path, "run.toml", "covmatch distill", "covmatch select"] {
            assert!(text.contains(part), "no '{part}' in: {text}");
        }
    }
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_device_that_is_not_compiled_in_says_which_feature_to_build_with() {
    let output = covmatch(&["bench", "encoder", "minilm-l3", "--device", "cuda:1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cargo build --release --features cuda"), "{}", stderr(&output));
}

#[test]
fn wrong_usage_exits_with_2() {
    for args in [
        &[][..],
        &["distil"],
        &["bench", "encoder"],
        &["bench", "encoder", "nfnet_l0", "--device", "gpu"],
        &["bench", "encoder", "nfnet_l0", "--batch", "0"],
        &["bench", "encoder", "nfnet_l0", "--only", "sideways"],
    ] {
        assert_eq!(covmatch(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn help_and_version_go_to_stdout() {
    let help = covmatch(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for part in ["demo", "encoders", "bench", "Start here"] {
        assert!(stdout(&help).contains(part), "{}", stdout(&help));
    }
    assert_eq!(stdout(&covmatch(&["--version"])), format!("covmatch {}\n", env!("CARGO_PKG_VERSION")));
}
