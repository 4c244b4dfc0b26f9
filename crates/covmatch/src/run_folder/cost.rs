//! `cost.json`: what making the pairs of a folder took.

use std::fs;

use serde::{Deserialize, Serialize};

use super::RunFolder;
use crate::engine::peak_memory;
use crate::files::{self, WriteError};

/// What making a set took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Steps of distillation; 0 where nothing is learned.
    pub steps: u64,
    /// Seconds of a step, in the mean; none without steps.
    pub seconds_per_step: Option<f64>,
    /// Seconds of all steps, over all processes that took them; without steps, of choosing and writing the pairs.
    pub seconds: f64,
    /// The most memory that the process held while the set was made, in bytes; none where it had held as much before,
    /// for other sets, where another process made the set, or where the system does not say.
    pub peak_memory: Option<u64>,
    /// Seconds of training the experts that the method matches; none where it has none.
    pub expert_seconds: Option<f64>,
    /// Bytes of those experts on the disk.
    pub expert_bytes: Option<u64>,
}

impl Cost {
    /// That of `steps` steps in `seconds` seconds, without experts.
    pub fn new(steps: u64, seconds: f64) -> Self {
        let seconds_per_step = (steps > 0).then(|| seconds / steps as f64);
        Self { steps, seconds_per_step, seconds, peak_memory: None, expert_seconds: None, expert_bytes: None }
    }

    /// That of the pairs in `folder`; none if they are not whole.
    pub fn read(folder: &RunFolder) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.path().join("cost.json")).ok()?).ok()
    }

    /// Writes the file into `folder`.
    pub fn write(&self, folder: &RunFolder) -> Result<(), WriteError> {
        let path = folder.path().join("cost.json");
        let text = serde_json::to_string_pretty(self).map_err(|cause| WriteError::new(&path, cause.into()))?;
        files::write(&path, (text + "\n").as_bytes())
    }
}

/// The most memory that the process held, if that is more than `before`.
pub fn new_peak(before: Option<u64>) -> Option<u64> {
    peak_memory().filter(|&peak| before.is_none_or(|before| peak > before))
}
