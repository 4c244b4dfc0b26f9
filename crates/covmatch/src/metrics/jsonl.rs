//! Metrics as lines of JSON: one object a line, in the order in which they were measured.
//!
//! Each line reaches the operating system in one write, so a run that is killed tears at most its last line.
//! [`JsonLines::resume`] drops a torn line, and with it the lines that the caller no longer wants: those of steps after
//! the checkpoint, which the resumed run takes again.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::MetricsError;
use crate::files::write_whole;

/// A file of JSON objects that only grows.
#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    file: File,
}

impl JsonLines {
    /// Opens `path`, makes it if it is not there, and appends to what it holds.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, MetricsError> {
        Self::resume(path, |_| true)
    }

    /// Opens `path` with only those of its lines that are JSON objects and that `keep` wants.
    ///
    /// The shortened file takes the place of the old one in one step; a file that loses nothing is left as it is.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn resume(path: impl Into<PathBuf>, keep: impl Fn(&Value) -> bool) -> Result<Self, MetricsError> {
        let path = path.into();
        let old = read_or_empty(&path)?;
        let kept = kept_lines(&old, keep);
        if kept != old {
            write_whole(&path, |out| out.write_all(&kept)).map_err(MetricsError::write(&path))?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(MetricsError::write(&path))?;
        Ok(Self { path, file })
    }

    /// Appends `record` as one line. Numbers that are not finite become `null`, as JSON has none.
    ///
    /// # Errors
    /// When `record` is not an object, or the file cannot be written.
    pub fn write(&mut self, record: &(impl Serialize + ?Sized)) -> Result<(), MetricsError> {
        let mut line = object(record).map_err(|cause| {
            let path = self.path.display().to_string();
            MetricsError::Record { path, cause }
        })?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(MetricsError::write(&self.path))
    }

    /// Where the lines go.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// `record` as JSON. Only an object is known to be whole from its text: a torn `12.5` is still a number.
fn object(record: &(impl Serialize + ?Sized)) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string(record)?;
    if text.starts_with('{') { Ok(text) } else { Err(serde::ser::Error::custom(format!("{text} is not an object"))) }
}

fn read_or_empty(path: &Path) -> Result<Vec<u8>, MetricsError> {
    match fs::read(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(|cause| MetricsError::Read { path: path.display().to_string(), cause }),
    }
}

/// The lines of `bytes` that are objects and wanted, each with its line end.
fn kept_lines(bytes: &[u8], keep: impl Fn(&Value) -> bool) -> Vec<u8> {
    let wanted = |line: &&[u8]| serde_json::from_slice(line).is_ok_and(|v: Value| v.is_object() && keep(&v));
    bytes.split(|&byte| byte == b'\n').filter(wanted).flat_map(|line| [line, b"\n"].concat()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn step_of(line: &Value) -> i64 {
        line["step"].as_i64().unwrap()
    }

    fn with_content(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        fs::write(&path, content).unwrap();
        (folder, path)
    }

    #[test]
    fn every_record_is_one_line_and_on_disk_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut lines = JsonLines::open(folder.path().join("metrics.jsonl")).unwrap();
        lines.write(&json!({ "step": 0, "note": "two\nlines" })).unwrap();
        assert_eq!(fs::read_to_string(lines.path()).unwrap(), "{\"note\":\"two\\nlines\",\"step\":0}\n");
        lines.write(&json!({ "step": 1 })).unwrap();
        assert_eq!(fs::read_to_string(lines.path()).unwrap().lines().count(), 2);
    }

    #[test]
    fn opening_again_appends_behind_a_whole_last_line_even_if_it_lacks_its_end() {
        for content in [&b"{\"step\":0}\n"[..], b"{\"step\":0}"] {
            let (_folder, path) = with_content(content);
            JsonLines::open(&path).unwrap().write(&json!({ "step": 1 })).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "{\"step\":0}\n{\"step\":1}\n");
        }
    }

    #[test]
    fn a_torn_last_line_is_dropped_and_the_next_one_is_whole() {
        let (_folder, path) = with_content(b"{\"step\":0}\n{\"step\":1,\"loss\":0.\xc3");
        JsonLines::resume(&path, |_| true).unwrap().write(&json!({ "step": 1 })).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"step\":0}\n{\"step\":1}\n");
    }

    #[test]
    fn resuming_keeps_only_what_is_wanted_and_leaves_no_partial_file() {
        let (folder, path) = with_content(b"{\"step\":0}\n{\"step\":1}\nnonsense\n12\n{\"step\":2}\n");
        JsonLines::resume(&path, |line| step_of(line) < 2).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"step\":0}\n{\"step\":1}\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_record_that_is_no_object_is_refused_and_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut lines = JsonLines::open(folder.path().join("metrics.jsonl")).unwrap();
        let error = lines.write(&12.5).unwrap_err().to_string();
        assert!(error.contains("metrics.jsonl") && error.contains("12.5 is not an object"), "{error}");
        assert_eq!(fs::read(lines.path()).unwrap(), b"");
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing").join("metrics.jsonl");
        let error = JsonLines::open(&missing).unwrap_err();
        assert!(matches!(error, MetricsError::Write { .. }), "{error}");
        assert!(error.to_string().contains(&missing.display().to_string()), "{error}");
        let error = JsonLines::open(folder.path()).unwrap_err();
        assert!(matches!(error, MetricsError::Read { .. }), "{error}");
    }
}
