//! Both records of a run's steps, `metrics.jsonl` and TensorBoard's, and how they are read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::error::DistillError;
use crate::methods::StepReport;
use crate::metrics::{EventFile, JsonLines, MetricsError, unix_time};
use crate::run_folder::RunFolder;

/// Names of values in lines of version 0.1, and in those of this one.
const RENAMED: [(&str, &str); 10] = [
    ("feat_v", "feat_image"),
    ("feat_l", "feat_text"),
    ("grad_img", "grad_image"),
    ("grad_txt", "grad_text"),
    ("rms_img", "rms_image"),
    ("rms_txt", "rms_text"),
    ("trajectory_v", "trajectory_image"),
    ("trajectory_l", "trajectory_text"),
    ("eta_v", "eta_image"),
    ("eta_l", "eta_text"),
];

/// Both records of a run's steps.
pub(super) struct Metrics {
    lines: JsonLines,
    events: EventFile,
}

impl Metrics {
    /// The records of the run in `folder` before step `done`.
    pub(super) fn open(folder: &RunFolder, done: u64) -> Result<Self, DistillError> {
        let before = |line: &Value| line["step"].as_u64().is_some_and(|step| step < done);
        let lines = JsonLines::resume(folder.metrics(), before)?;
        let mut events = EventFile::create(folder.tensorboard())?;
        if done > 0 {
            events.restart(done as i64, unix_time())?;
        }
        Ok(Self { lines, events })
    }

    pub(super) fn write(&mut self, report: &StepReport) -> Result<(), DistillError> {
        self.lines.write(report)?;
        let (step, now) = (report.step as i64, unix_time());
        for (tag, value) in report.curves() {
            self.events.scalar(tag, step, value, now)?;
        }
        Ok(self.events.scalar("seconds/step", step, report.total_seconds() as f32, now)?)
    }
}

/// The steps on record in `metrics.jsonl`, a JSON object each, whose values have the names of this version.
pub fn read_metrics(path: &Path) -> Result<Vec<Value>, MetricsError> {
    let read = fs::read_to_string(path);
    let text = read.map_err(|cause| MetricsError::Read { path: path.display().to_string(), cause })?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).map(renamed).collect())
}

fn renamed(mut step: Value) -> Value {
    if let Some(line) = step.as_object_mut() {
        for (old, new) in RENAMED {
            if let Some(value) = line.remove(old) {
                line.insert(new.to_owned(), value);
            }
        }
    }
    step
}

/// The seconds of all steps on record, by phase.
pub(super) fn phase_seconds(path: &Path) -> Result<BTreeMap<String, f64>, MetricsError> {
    let mut sums = BTreeMap::new();
    for step in read_metrics(path)? {
        for (phase, seconds) in step["seconds"].as_object().into_iter().flatten() {
            *sums.entry(phase.clone()).or_insert(0.0) += seconds.as_f64().unwrap_or_default();
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lines_of_version_0_1_are_read_with_the_names_of_this_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let lines = "{\"step\":0,\"feat_v\":1.5,\"seconds\":{\"real\":0.5}}\n{\"step\":1,\"feat_image\":2.5,\"seconds\":{\"real\":1.0}}\n";
        fs::write(&path, lines).unwrap();
        let steps = read_metrics(&path).unwrap();
        let values: Vec<f64> = steps.iter().map(|step| step["feat_image"].as_f64().unwrap()).collect();
        assert_eq!(values, [1.5, 2.5]);
        assert_eq!(phase_seconds(&path).unwrap()["real"], 1.5);
    }
}
