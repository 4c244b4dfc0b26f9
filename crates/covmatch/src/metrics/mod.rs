//! What a run measures, step by step, written while it runs.
//!
//! [`JsonLines`] is the record that programs read and that a resumed run goes on with; [`EventFile`] is the same for
//! TensorBoard. Both hand every value to the operating system at once: what was measured before a kill is on disk.
//!
//! ```no_run
//! use covmatch::metrics::{EventFile, JsonLines, unix_time};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let checkpoint = 1500;
//! let mut lines = JsonLines::resume("run/metrics.jsonl", |line| line["step"].as_i64() < Some(checkpoint))?;
//! let mut events = EventFile::create("run/tensorboard")?;
//! events.restart(checkpoint, unix_time())?;
//! lines.write(&serde_json::json!({ "step": checkpoint, "loss": 0.25 }))?;
//! events.scalar("loss", checkpoint, 0.25, unix_time())?;
//! # Ok(()) }
//! ```

mod jsonl;
mod tensorboard;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub use jsonl::JsonLines;
pub use tensorboard::EventFile;

/// Why metrics cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// The file exists but cannot be read.
    #[error("cannot read {path}: {cause}; check that it is a file and that you may read it")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// The file or folder cannot be written.
    #[error("cannot write {path}: {cause}; check that the folder exists, may be written to and has space left")]
    Write {
        /// The file or folder.
        path: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// A record has no form as a JSON object.
    #[error("cannot add a record to {path}: {cause}; pass a struct or a map with text keys")]
    Record {
        /// The file.
        path: String,
        /// What the encoder says.
        cause: serde_json::Error,
    },
}

impl MetricsError {
    fn write(path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |cause| Self::Write { path: path.display().to_string(), cause }
    }
}

/// Seconds since 1970, the wall time of an event; 0 on a machine whose clock is before that.
pub fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
