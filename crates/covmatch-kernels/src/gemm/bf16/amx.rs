//! Blocks of C on AMX: four tiles of sums, two of A and two of B fill the eight tile registers.

use std::arch::asm;
use std::marker::PhantomData;

use super::block::Block;
use super::pack::Tile;

/// The shape of the tile registers, as `ldtilecfg` reads it.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Eight tiles of 16 rows of 64 bytes.
static SHAPES: Shapes = Shapes {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// The tile registers of this thread, shaped for [`compute`](Self::compute); given back when it is dropped.
pub(super) struct Tiles {
    /// The registers are this thread's.
    of_this_thread: PhantomData<*const ()>,
}

impl Tiles {
    /// Shapes this thread's tile registers.
    ///
    /// # Safety
    /// [`simd::bf16`](crate::simd::bf16) found AMX and so has the permission to use it; no other `Tiles` of this thread is
    /// alive.
    pub(super) unsafe fn shaped() -> Self {
        // SAFETY: the caller vouches for AMX and for the process's permission; `SHAPES` is a valid configuration.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &SHAPES, options(nostack, readonly, preserves_flags)) };
        Self { of_this_thread: PhantomData }
    }

    /// Computes a block.
    ///
    /// # Safety
    /// Both operands have two panels of `depth` tiles, and `depth` is not zero; `init` and `out` have the block's rows.
    pub(super) unsafe fn compute(&self, block: &Block) {
        let Block { a, b, panel, depth, init, init_row, out, out_row } = *block;
        let panel = panel * size_of::<Tile>();
        // SAFETY: the caller vouches for every address; the registers are shaped as long as `self` lives.
        unsafe {
            asm!(
                "tileloadd tmm0, [{init} + {init_row}]",
                "tileloadd tmm1, [{init} + {init_row} + 64]",
                "tileloadd tmm2, [{init_below} + {init_row}]",
                "tileloadd tmm3, [{init_below} + {init_row} + 64]",
                "2:",
                "tileloadd tmm6, [{b} + {line}]",
                "tileloadd tmm4, [{a} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b_right} + {line}]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{a_below} + {line}]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 1024",
                "add {a_below}, 1024",
                "add {b}, 1024",
                "add {b_right}, 1024",
                "dec {depth}",
                "jnz 2b",
                "tilestored [{out} + {out_row}], tmm0",
                "tilestored [{out} + {out_row} + 64], tmm1",
                "tilestored [{out_below} + {out_row}], tmm2",
                "tilestored [{out_below} + {out_row} + 64], tmm3",
                a = inout(reg) a => _,
                a_below = inout(reg) a.byte_add(panel) => _,
                b = inout(reg) b => _,
                b_right = inout(reg) b.byte_add(panel) => _,
                depth = inout(reg) depth => _,
                line = in(reg) 64_usize,
                init = in(reg) init,
                init_below = in(reg) init.add(16 * init_row),
                init_row = in(reg) 4 * init_row,
                out = in(reg) out,
                out_below = in(reg) out.add(16 * out_row),
                out_row = in(reg) 4 * out_row,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the machine has AMX, or there would be no `Tiles`.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}
