//! What a run tells while it goes on.

use std::path::Path;

use crate::methods::{Prepared, StepReport};

/// Something that happened.
#[non_exhaustive]
pub enum Event<'a> {
    /// What the method needs first is being made.
    Preparing {
        /// What it is, in a word.
        what: &'static str,
        /// How far it is.
        prepared: &'a Prepared,
    },
    /// The run begins, or goes on, at this step of so many.
    Started {
        /// Steps that are done.
        done: u64,
        /// Steps of the whole run.
        total: u64,
        /// Steps of a round.
        steps_per_round: u64,
        /// Its constants, in words.
        constants: String,
    },
    /// A step is done.
    Step(&'a StepReport),
    /// A checkpoint is on the disk.
    Saved(&'a Path),
    /// Something that the user should know.
    Warning(String),
}

/// Listens to a run and may ask it to stop.
pub trait Observer {
    /// Called for everything that happens.
    fn event(&mut self, event: Event<'_>);

    /// Asked after every step; `true` saves a checkpoint and stops.
    fn stop(&mut self) -> bool {
        false
    }
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Observer for Quiet {
    fn event(&mut self, _event: Event<'_>) {}
}
