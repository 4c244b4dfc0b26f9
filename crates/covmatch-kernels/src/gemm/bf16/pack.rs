//! Rounds a matrix to bf16 and cuts it into tiles.
//!
//! Both operands are packed line by line, a line being a row of A or a column of B, the values a sum runs over. A tile
//! holds 16 lines by 32 steps of the reduction, 1 KB, in the order in which the instructions read it:
//! ```text
//! A:  [16 lines][16 pairs of steps][2]
//! B:  [16 pairs of steps][16 lines][2]
//! ```
//! The tiles of 16 lines follow each other, `[16 lines][steps / 32]`. Lines are padded with zeros to [`BLOCK`], steps to
//! whole tiles. Rounding is to the nearest value, to even between two of them.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use rayon::prelude::*;

use super::super::Matrix;
use super::super::pack::transposed;
use super::BLOCK;

/// Lines in a tile.
const LINES: usize = 16;

/// Steps of the reduction in a tile.
pub(super) const STEPS: usize = 32;

/// 16 lines by 32 steps, a line of the cache after the other.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Tile([u16; LINES * STEPS]);

/// The order of a tile's values.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Order {
    /// All steps of a line together, for A.
    Lines,
    /// Two steps of all lines together, for B.
    Pairs,
}

/// Tiles that hold `steps` steps.
pub(super) fn depth(steps: usize) -> usize {
    steps.div_ceil(STEPS)
}

/// The rows of `lines` as tiles.
///
/// # Safety
/// The machine has AVX-512 and its BF16 extension.
pub(super) unsafe fn tiles(lines: Matrix, order: Order) -> Vec<Tile> {
    let (panels, depth) = (lines.rows.div_ceil(BLOCK) * (BLOCK / LINES), depth(lines.cols));
    let mut tiles: Vec<Tile> = Vec::with_capacity(panels * depth);
    // Wide enough that whole lines of the cache are read where steps lie apart, and work for every thread.
    let group = (panels / (4 * rayon::current_num_threads())).clamp(2, 8);
    let room = &mut tiles.spare_capacity_mut()[..panels * depth];
    room.par_chunks_mut(group * depth).enumerate().for_each(|(i, out)| {
        // SAFETY: the caller vouches for the instructions.
        unsafe { pack_group(lines, group * i * LINES, depth, order, out) };
    });
    // SAFETY: every tile was written: the chunks cover them all, and `pack_group` writes each tile of its own.
    unsafe { tiles.set_len(panels * depth) };
    tiles
}

/// Packs the lines from `first` on into `out`, a whole number of times `depth` tiles, in the order in which they lie in
/// memory.
///
/// # Safety
/// As [`tiles`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn pack_group(lines: Matrix, first: usize, depth: usize, order: Order, out: &mut [MaybeUninit<Tile>]) {
    let panels = out.len() / depth;
    let mut pack = |panel: usize, step: usize| {
        out[panel * depth + step].write(tile(lines, first + panel * LINES, step * STEPS, order));
    };
    if lines.col_stride == 1 {
        (0..panels).for_each(|panel| (0..depth).for_each(|step| pack(panel, step)));
    } else {
        (0..depth).for_each(|step| (0..panels).for_each(|panel| pack(panel, step)));
    }
}

/// The tile of 16 lines from `line` and 32 steps from `step` on.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
fn tile(lines: Matrix, line: usize, step: usize, order: Order) -> Tile {
    let (vectors, read) = if lines.col_stride == 1 {
        (whole_lines(lines, line, step), Order::Lines)
    } else {
        (pairs_of_steps(lines, line, step), Order::Pairs)
    };
    let vectors = if read == order {
        vectors
    } else {
        transposed(vectors.map(|v| _mm512_castsi512_ps(v))).map(|v| _mm512_castps_si512(v))
    };
    // SAFETY: 16 vectors of 64 bytes are a tile, any bytes of which are a value.
    unsafe { std::mem::transmute::<[__m512i; LINES], Tile>(vectors) }
}

/// 32 steps of each of 16 lines, whose values lie together.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
fn whole_lines(lines: Matrix, line: usize, step: usize) -> [__m512i; LINES] {
    let (low, high) = (lanes(lines.cols, step), lanes(lines.cols, step + 16));
    std::array::from_fn(|i| {
        if line + i >= lines.rows {
            return _mm512_setzero_si512();
        }
        let values = lines.data.as_ptr().wrapping_add((line + i) * lines.row_stride + step);
        // SAFETY: the masks leave the steps of this line that the matrix has; no other lane is read.
        let (low, high) =
            unsafe { (_mm512_maskz_loadu_ps(low, values), _mm512_maskz_loadu_ps(high, values.wrapping_add(16))) };
        rounded(low, high)
    })
}

/// 16 lines of each of 16 pairs of steps, whose values lie together.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
fn pairs_of_steps(lines: Matrix, line: usize, step: usize) -> [__m512i; LINES] {
    debug_assert_eq!(lines.row_stride, 1);
    let mask = lanes(lines.rows, line);
    let load = |step: usize| {
        let mask = if step < lines.cols { mask } else { 0 };
        let values = lines.data.as_ptr().wrapping_add(step * lines.col_stride + line);
        // SAFETY: the mask leaves the lines of this step that the matrix has; no other lane is read.
        unsafe { _mm512_maskz_loadu_ps(mask, values) }
    };
    // Word 2i is the first step's of line i, word 2i + 1 the second's.
    let interleave: [u16; 32] = std::array::from_fn(|i| (i / 2 + i % 2 * 16) as u16);
    // SAFETY: 64 bytes, any of which are a value.
    let interleave = unsafe { std::mem::transmute::<[u16; 32], __m512i>(interleave) };
    std::array::from_fn(|p| {
        let (first, second) = (load(step + 2 * p), load(step + 2 * p + 1));
        _mm512_permutexvar_epi16(interleave, rounded(first, second))
    })
}

/// Those of 16 lanes from `first` on that are below `end`.
fn lanes(end: usize, first: usize) -> __mmask16 {
    (0xffff_u32 >> (16 - end.saturating_sub(first).min(16))) as u16
}

/// 16 values and 16 more in bf16.
#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
fn rounded(first: __m512, second: __m512) -> __m512i {
    // SAFETY: both are 64 bytes, any of which are a value.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first)) }
}
