//! Scratch memory that starts a cache line.

use super::uninit;

/// Scratch memory whose first element starts a cache line.
pub(crate) struct Aligned {
    memory: Vec<f32>,
    start: usize,
}

impl Aligned {
    /// Room for `len` values, to be written before they are read.
    pub(crate) fn new(len: usize) -> Self {
        let memory = uninit(len + 16);
        let start = memory.as_ptr().align_offset(64).min(16);
        Self { memory, start }
    }

    /// The values.
    pub(crate) fn values(&self) -> &[f32] {
        &self.memory[self.start..]
    }

    /// The values, to be written.
    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.memory[self.start..]
    }
}
