//! Blocks of C on AVX-512 BF16: 8 rows by 32 columns of sums in registers.

use std::arch::x86_64::*;

use super::block::{BLOCK, Block};
use super::pack::Tile;

/// Rows of sums that are held in registers, two vectors each.
const ROWS: usize = 8;

/// Pairs of steps, and lines, in a tile.
const PAIRS: usize = 16;

/// Computes a block.
///
/// # Safety
/// The machine has AVX-512 and its BF16 extension; both operands have two panels of `depth` tiles, `init` and `out` the
/// block's rows.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn compute(block: &Block) {
    for row in (0..BLOCK).step_by(ROWS) {
        // SAFETY: the caller's duty.
        unsafe { rows(block, row) };
    }
}

/// Computes `ROWS` rows from `row` on.
///
/// # Safety
/// As [`compute`].
#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
unsafe fn rows(block: &Block, row: usize) {
    let Block { a, b, panel, depth, init, init_row, out, out_row } = *block;
    // SAFETY: the caller vouches for every address.
    unsafe {
        let start = |i: usize, j: usize| _mm512_loadu_ps(init.add((row + i) * init_row + 16 * j));
        let mut sums: [[__m512; 2]; ROWS] = std::array::from_fn(|i| std::array::from_fn(|j| start(i, j)));
        let a = a.add(row / PAIRS * panel).cast::<i32>().add(row % PAIRS * PAIRS);
        for step in 0..depth {
            let at = step * size_of::<Tile>() / 4;
            let (a, b, b_right) = (a.add(at), b.cast::<i32>().add(at), b.add(panel).cast::<i32>().add(at));
            for p in 0..PAIRS {
                let columns = [b, b_right].map(|b| bf16(_mm512_load_si512(b.add(p * PAIRS).cast())));
                for (i, row) in sums.iter_mut().enumerate() {
                    let pair = bf16(_mm512_set1_epi32(*a.add(i * PAIRS + p)));
                    row[0] = _mm512_dpbf16_ps(row[0], pair, columns[0]);
                    row[1] = _mm512_dpbf16_ps(row[1], pair, columns[1]);
                }
            }
        }
        for (i, pair) in sums.into_iter().enumerate() {
            for (j, sums) in pair.into_iter().enumerate() {
                _mm512_storeu_ps(out.add((row + i) * out_row + 16 * j), sums);
            }
        }
    }
}

/// The same bits as bf16 values.
#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
fn bf16(bits: __m512i) -> __m512bh {
    // SAFETY: both are 64 bytes, any of which are a value.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(bits) }
}
