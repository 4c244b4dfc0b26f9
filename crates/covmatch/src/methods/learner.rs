//! What a method that learns pairs offers: how it begins, one step, its state as files, its pairs.
//!
//! [`distill::run`](crate::distill::run()) gives it a folder, checkpoints, metrics and the card.

use std::path::Path;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{MethodError, Synthetic};
use crate::distilled::Learned;
use crate::experiment::Experiment;
use crate::model::Inputs;

/// A way of learning pairs, between two steps.
///
/// A step is a function of the state and of (seed, purpose, step), so that a resumed run ends in the same pairs.
pub trait Learner {
    /// The learner on `experiment`, before its first step.
    fn begin(experiment: Experiment) -> Result<Self, MethodError>
    where
        Self: Sized;

    /// The learner on `experiment` as [`save`](Self::save) left it in the folder `checkpoint`.
    fn resume(experiment: Experiment, checkpoint: &Path) -> Result<Self, MethodError>
    where
        Self: Sized;

    /// Writes the state into the folder `checkpoint`.
    fn save(&self, checkpoint: &Path) -> Result<(), MethodError>;

    /// Takes one step. After an error the state is that before the step.
    fn step(&mut self) -> Result<StepReport, MethodError>;

    /// Steps that are done.
    fn done(&self) -> u64;

    /// The constants of the run, in words.
    fn constants(&self) -> String;

    /// The pairs as they are.
    fn synthetic(&self) -> &Synthetic;

    /// The pairs that are kept of them: they themselves, or their running means.
    fn pairs(&self) -> Inputs {
        self.synthetic().inputs.clone()
    }

    /// What was learned beside them, for models that are trained on them.
    fn learned(&self) -> Result<Option<Learned>, MethodError> {
        Ok(None)
    }
}

/// What a step did: a line of `metrics.jsonl` and a point of each curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepReport {
    /// Number of the step, from 0.
    pub step: u64,
    /// The loss that is minimised.
    pub loss: f32,
    /// What else was measured.
    pub values: Vec<Value>,
    /// Where the time went: seconds by phase.
    pub seconds: Vec<(&'static str, f64)>,
    /// The step in a few words, for a line of progress.
    pub summary: String,
    /// What looks wrong after the step, and what to try; not said again while it stays the same.
    pub warning: Option<String>,
}

/// Something that a step measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The name in `metrics.jsonl`.
    pub name: &'static str,
    /// The tag in TensorBoard.
    pub tag: &'static str,
    /// The value; none where the step left it out.
    pub value: Option<f32>,
}

impl Value {
    /// A value that was measured.
    pub fn new(name: &'static str, tag: &'static str, value: f32) -> Self {
        Self { name, tag, value: Some(value) }
    }
}

impl StepReport {
    /// Seconds of the whole step.
    pub fn total_seconds(&self) -> f64 {
        self.seconds.iter().map(|(_, seconds)| seconds).sum()
    }

    /// The value `name`, if it was measured.
    pub fn value(&self, name: &str) -> Option<f32> {
        self.values.iter().find(|value| value.name == name)?.value
    }

    /// What TensorBoard plots: a tag and a value.
    pub fn curves(&self) -> impl Iterator<Item = (&'static str, f32)> {
        let measured = self.values.iter().filter_map(|value| Some((value.tag, value.value?)));
        std::iter::once(("loss/total", self.loss)).chain(measured)
    }
}

impl Serialize for StepReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("step", &self.step)?;
        line.serialize_entry("loss", &self.loss)?;
        for Value { name, value, .. } in &self.values {
            line.serialize_entry(name, value)?;
        }
        let seconds: serde_json::Map<String, serde_json::Value> =
            self.seconds.iter().map(|(phase, seconds)| ((*phase).to_owned(), (*seconds).into())).collect();
        line.serialize_entry("seconds", &seconds)?;
        line.end()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_report_is_a_flat_object_and_what_was_left_out_is_null() {
        let report = StepReport {
            step: 7,
            loss: 0.5,
            values: vec![
                Value::new("cov", "loss/cov", 2.0),
                Value { name: "info_nce", tag: "loss/info_nce", value: None },
            ],
            seconds: vec![("data", 0.25), ("real", 1.0)],
            ..StepReport::default()
        };
        let line = serde_json::to_string(&report).unwrap();
        assert_eq!(line, r#"{"step":7,"loss":0.5,"cov":2.0,"info_nce":null,"seconds":{"data":0.25,"real":1.0}}"#);
        assert_eq!(report.curves().collect::<Vec<_>>(), [("loss/total", 0.5), ("loss/cov", 2.0)]);
        assert_eq!((report.value("cov"), report.value("info_nce"), report.total_seconds()), (Some(2.0), None, 1.25));
    }
}
