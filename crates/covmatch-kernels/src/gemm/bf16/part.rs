//! Blocks that reach beyond C, or are clamped on the way into it: their sums are made aside.

use super::block::BLOCK;
use crate::gemm::Clamp;

/// Room for the sums of a block.
#[repr(C, align(64))]
pub(super) struct Aside([f32; BLOCK * BLOCK]);

impl Aside {
    /// Zeros.
    pub(super) fn new() -> Self {
        Self([0.0; BLOCK * BLOCK])
    }

    /// The sums, `BLOCK` in a row.
    pub(super) fn values(&mut self) -> *mut f32 {
        self.0.as_mut_ptr()
    }
}

/// The part of a block that lies in C.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// Its first element.
    pub(super) c: *mut f32,
    /// Elements from one row of C to the next.
    pub(super) c_row: usize,
    /// Its rows.
    pub(super) height: usize,
    /// Its columns.
    pub(super) width: usize,
}

impl Part {
    /// Whether it is the whole block.
    pub(super) fn is_whole(&self) -> bool {
        self.height == BLOCK && self.width == BLOCK
    }

    /// Copies what C holds.
    ///
    /// # Safety
    /// The part lies within C, holds values, and nobody writes to it meanwhile.
    pub(super) unsafe fn read(&self, aside: &mut Aside) {
        for (i, row) in aside.0.chunks_exact_mut(BLOCK).take(self.height).enumerate() {
            // SAFETY: the caller's duty.
            let c = unsafe { std::slice::from_raw_parts(self.c.add(i * self.c_row), self.width) };
            row[..self.width].copy_from_slice(c);
        }
    }

    /// Stores the sums, clamped.
    ///
    /// # Safety
    /// The part lies within C, and is the caller's.
    pub(super) unsafe fn write(&self, aside: &Aside, clamp: Clamp) {
        for (i, row) in aside.0.chunks_exact(BLOCK).take(self.height).enumerate() {
            for (j, sum) in row[..self.width].iter().enumerate() {
                // SAFETY: the caller's duty.
                unsafe { self.c.add(i * self.c_row + j).write(clamp.apply(*sum)) };
            }
        }
    }
}
