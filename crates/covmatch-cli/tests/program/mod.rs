//! Runs the program under test; each file of tests uses some of this.
#![allow(dead_code, clippy::unwrap_used)]

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The experiment of the demo.
pub const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../presets/demo.toml");

/// `covmatch WORDS`, its output kept for the test.
pub fn covmatch(words: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("covmatch"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).args(words);
    command
}

/// `covmatch WORDS --set OVERRIDE ..`.
pub fn covmatch_with(words: &[&str], overrides: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = covmatch(words);
    for pair in overrides {
        command.arg("--set").arg(pair);
    }
    command
}

/// What a command that must succeed printed.
pub fn succeed(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// What a command that must fail with `code` says.
pub fn fail(mut command: Command, code: i32) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// The distilled set of a run, byte by byte.
pub fn set(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("distilled.safetensors")).unwrap()
}

/// Starts the command and kills it as soon as `path` is there.
pub fn kill_when(mut command: Command, path: &Path) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !path.exists() && start.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(2));
    }
    let ended = child.try_wait().unwrap();
    assert!(path.exists() && ended.is_none(), "{} was not there in time: {ended:?}", path.display());
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
}
