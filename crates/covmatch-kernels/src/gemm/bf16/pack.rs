//! Rounds a matrix to bf16 and puts its values into the order in which the instructions read them.
//!
//! Both operands are packed line by line, a line being a row of A or a column of B, the values a sum runs over. The unit is
//! a tile of 16 lines by 32 steps of the reduction, in one of two orders:
//! ```text
//! Lines:  [16 lines][16 pairs of steps][2]
//! Pairs:  [16 pairs of steps][16 lines][2]
//! ```
//! [`pack_lines`] lays the rows of tiles where AVX-512 BF16 reads them. For AMX, [`tiles`] keeps them whole, 1 KB each, A's
//! as lines and B's as pairs; those of 16 lines follow each other, `[16 lines][steps / 32]`. Lines are padded with zeros to
//! [`BLOCK`], steps to whole tiles. Rounding is to the nearest value, to even between two of them.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

use rayon::prelude::*;

use super::super::pack::transposed;
use super::Matrix;
use super::block::BLOCK;

/// Lines in a tile.
const LINES: usize = 16;

/// Steps of the reduction in a tile.
pub(super) const STEPS: usize = 32;

/// 16 lines by 32 steps, a line of the cache after the other.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Tile([u16; LINES * STEPS]);

/// A row of a tile, a line of the cache: 16 pairs of values.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line([u16; STEPS]);

impl Line {
    /// Room for `len` lines.
    pub(crate) fn room(len: usize) -> Room {
        Box::new_uninit_slice(len)
    }
}

/// Memory for lines that are yet to be packed.
pub(crate) type Room = Box<[MaybeUninit<Line>]>;

/// The order of a tile's values.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Order {
    /// All steps of a line together.
    Lines,
    /// Two steps of all lines together.
    Pairs,
}

/// Rounds `steps` of the rows `lines` of a matrix, in whole tiles, into `out`.
///
/// Rows of tiles are `stride` apart: with [`Order::Lines`], 32 steps of line `i` from `32 s` on are `out[stride i + s]`; with
/// [`Order::Pairs`], pair `p` of steps of 16 lines from `16 v` on is `out[stride p + v]`. What fills up the last tiles is
/// the matrix's next values, and zero beyond it.
///
/// # Safety
/// The machine has AVX-512 and its BF16 extension.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(crate) unsafe fn pack_lines(
    matrix: Matrix,
    lines: Range<usize>,
    steps: Range<usize>,
    order: Order,
    stride: usize,
    out: &mut [MaybeUninit<Line>],
) {
    let (panels, depth) = (lines.len().div_ceil(LINES), depth(steps.len()));
    let mut pack = |panel: usize, step: usize| {
        let first = match order {
            Order::Lines => panel * LINES * stride + step,
            Order::Pairs => step * LINES * stride + panel,
        };
        let rows = tile(matrix, lines.start + panel * LINES, steps.start + step * STEPS, order);
        for (row, out) in rows.into_iter().zip(out[first..].iter_mut().step_by(stride)) {
            // SAFETY: a row of a tile is 64 bytes, any of which are a value.
            out.write(unsafe { std::mem::transmute::<__m512i, Line>(row) });
        }
    };
    // In the order in which the values lie in memory.
    if matrix.col_stride == 1 {
        (0..panels).for_each(|panel| (0..depth).for_each(|step| pack(panel, step)));
    } else {
        (0..depth).for_each(|step| (0..panels).for_each(|panel| pack(panel, step)));
    }
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
        let rows = tile(lines, first + panel * LINES, step * STEPS, order);
        // SAFETY: 16 rows of 64 bytes are a tile, any bytes of which are a value.
        out[panel * depth + step].write(unsafe { std::mem::transmute::<[__m512i; LINES], Tile>(rows) });
    };
    if lines.col_stride == 1 {
        (0..panels).for_each(|panel| (0..depth).for_each(|step| pack(panel, step)));
    } else {
        (0..depth).for_each(|step| (0..panels).for_each(|panel| pack(panel, step)));
    }
}

/// The rows of the tile of 16 lines from `line` and 32 steps from `step` on.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
fn tile(lines: Matrix, line: usize, step: usize, order: Order) -> [__m512i; LINES] {
    let (rows, read) = if lines.col_stride == 1 {
        (whole_lines(lines, line, step), Order::Lines)
    } else {
        (pairs_of_steps(lines, line, step), Order::Pairs)
    };
    if read == order { rows } else { other_order(rows) }
}

/// The rows of a tile in the other order: the pairs as a matrix, transposed.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
fn other_order(rows: [__m512i; LINES]) -> [__m512i; LINES] {
    // SAFETY: both are 16 vectors of 64 bytes, any of which are a value.
    unsafe {
        let columns = transposed(std::mem::transmute::<[__m512i; LINES], [__m512; LINES]>(rows));
        std::mem::transmute::<[__m512; LINES], [__m512i; LINES]>(columns)
    }
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
        // The next lines are on their way while these are rounded: a product of few columns waits for nothing else.
        let ahead = values.wrapping_add(LINES * lines.row_stride).cast();
        _mm_prefetch::<_MM_HINT_T0>(ahead);
        _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(64));
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
    std::array::from_fn(|p| interleaved(load(step + 2 * p), load(step + 2 * p + 1)))
}

/// 16 values and 16 more in bf16, as pairs of one of either.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[inline]
pub(super) fn interleaved(first: __m512, second: __m512) -> __m512i {
    // Word 2i is the first's value i, word 2i + 1 the second's.
    let order: [u16; 32] = std::array::from_fn(|i| (i / 2 + i % 2 * 16) as u16);
    // SAFETY: 64 bytes, any of which are a value.
    let order = unsafe { std::mem::transmute::<[u16; 32], __m512i>(order) };
    _mm512_permutexvar_epi16(order, rounded(first, second))
}

/// Those of 16 lanes from `first` on that are below `end`.
pub(super) fn lanes(end: usize, first: usize) -> __mmask16 {
    (0xffff_u32 >> (16 - end.saturating_sub(first).min(16))) as u16
}

/// 16 values and 16 more in bf16.
#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
fn rounded(first: __m512, second: __m512) -> __m512i {
    // SAFETY: both are 64 bytes, any of which are a value.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first)) }
}
