//! What a method of distillation offers. [`run()`](super::run()) gives it a folder, checkpoints, metrics and the card.
//!
//! A method of one's own is one type: how it begins, one step, its state as files, its pairs.
//! [`run_method()`](super::run_method()) then runs it like those that are built in.

use std::path::Path;

use serde::Serialize;

use super::DistillError;
use crate::distilled::DistilledSet;
use crate::experiment::Experiment;

/// A way of learning synthetic pairs, between two steps.
///
/// A step is a function of the state and of (seed, purpose, step), so that a resumed run ends in the same pairs.
pub trait Method: Sized {
    /// What a step did: a line of `metrics.jsonl`, with fields `step` and `seconds`, the latter by phase.
    type Report: Report + Serialize;

    /// The method on `experiment`, before its first step.
    fn begin(experiment: Experiment) -> Result<Self, DistillError>;

    /// The method on `experiment` as [`save`](Self::save) left it in the folder `checkpoint`.
    fn load(checkpoint: &Path, experiment: &Experiment) -> Result<Self, DistillError>;

    /// Writes the state into the folder `checkpoint`.
    fn save(&self, checkpoint: &Path) -> Result<(), DistillError>;

    /// Takes one step. After an error the state is that before the step.
    fn step(&mut self) -> Result<Self::Report, DistillError>;

    /// Steps that are done.
    fn done(&self) -> u64;

    /// What is distilled.
    fn experiment(&self) -> &Experiment;

    /// The constants of the run, in words.
    fn constants(&self) -> String;

    /// The pairs as they are now.
    fn set(&self) -> Result<DistilledSet, DistillError>;

    /// The captions of the train split that the pairs started from, indices into `Dataset::captions`.
    fn captions(&self) -> &[u32];
}

/// What a step did, of any method.
pub trait Report {
    /// Number of the step, from 0.
    fn step(&self) -> u64;

    /// The loss that is minimised.
    fn loss(&self) -> f32;

    /// Seconds of the step.
    fn seconds(&self) -> f64;

    /// The step in a few words, for a line of progress.
    fn summary(&self) -> String;

    /// What TensorBoard plots: a tag and a value.
    fn curves(&self) -> Vec<(&'static str, f32)>;

    /// What looks wrong after the step, and what to try; not said again while it stays the same.
    fn warning(&self) -> Option<String> {
        None
    }
}
