//! The two forms of the innermost loop.

use super::amx::Tiles;
use super::block::Block;
use super::dot;
use crate::simd::Bf16;

/// The instructions that compute a block, ready on this thread.
pub(super) enum Kernel {
    /// Vectors.
    Dot,
    /// Tiles.
    Amx(Tiles),
}

impl Kernel {
    /// The kernel of `form`.
    ///
    /// # Safety
    /// The machine has `form`, and [`simd::bf16`](crate::simd::bf16) was called; no other `Kernel` of this thread is alive.
    pub(super) unsafe fn ready(form: Bf16) -> Self {
        match form {
            Bf16::Avx512 => Self::Dot,
            // SAFETY: the caller's duty.
            Bf16::Amx => Self::Amx(unsafe { Tiles::shaped() }),
        }
    }

    /// Computes a block.
    ///
    /// # Safety
    /// Both operands have two panels of `depth` tiles, and `depth` is not zero; `init` and `out` have the block's rows.
    pub(super) unsafe fn compute(&self, block: &Block) {
        match self {
            // SAFETY: the machine has the instructions, or there would be no such kernel; the caller vouches for the rest.
            Self::Dot => unsafe { dot::compute(block) },
            // SAFETY: as above.
            Self::Amx(tiles) => unsafe { tiles.compute(block) },
        }
    }
}
