//! The product on AVX-512 BF16: the blocked product of f32 ([`blocked`](super::blocked)) with operands that are rounded
//! on the way into the caches.
//!
//! # Loop nest
//! ```text
//! task: a tile of rows of C x a range of panels                    (rayon)
//!   block of up to 512 steps of the reduction: A's rows rounded    stay in L2
//!     panel of up to 64 columns: B rounded [pairs][64]             streams from L2
//!       block of 6 rows: 6 x 64 accumulators in registers          (rows)
//! ```
//! Where several tiles of rows read the same panels, these are rounded once for all of them, before.
//!
//! Of a small C the reduction is cut into [`PARTS`], which are added in order: each value of A and B is then rounded once.

use std::ops::Range;

use rayon::prelude::*;

use super::blocked::{block_steps, split, tiles};
use super::micro::{Init, Width};
use super::pack::{Line, Order, Room, pack_lines};
use super::rows::Rows;
use super::stream::{finish_streaming, should_stream};
use super::{Clamp, Matrix, SharedMut, Start, uninit};

/// Vectors of 16 columns in a full panel.
const PANEL: usize = 4;

/// Reductions of at most this many steps are bound by the traffic of a large C.
const SHORT: usize = 512;

/// In how many parts a long reduction is cut.
const PARTS: usize = 8;

/// Whether rounding the operands of `m` x `n` sums of `k` steps takes less time than it saves.
pub(super) fn pays(m: usize, n: usize, k: usize) -> bool {
    m.min(n) >= 16 && k >= 16 && m * n * k >= 1 << 19
}

/// `start + A B`, clamped. No dimension is zero.
///
/// # Safety
/// The machine has AVX-512 and its BF16 extension.
pub(super) unsafe fn product(a: Matrix, b: Matrix, start: Start, clamp: Clamp) -> Vec<f32> {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    if matches!(start, Start::Zero) && clamp == Clamp::NONE && is_long(m, n, k) {
        // SAFETY: the caller's duty.
        return unsafe { summed_parts(a, b) };
    }
    let mut c = uninit(m * n);
    let out = SharedMut(c.as_mut_ptr());
    let (row_tiles, panel_tiles) = tiles(m, n, k, rayon::current_num_threads());
    // SAFETY: the caller's duty.
    let packed = if row_tiles > 1 { unsafe { all_panels(b) } } else { Vec::new() };
    // A thread that runs out of tasks takes over single ones.
    (0..row_tiles * panel_tiles).into_par_iter().with_max_len(1).for_each(|task| {
        let rows = split(m, row_tiles, task / panel_tiles);
        let panels = split(panels(n), panel_tiles, task % panel_tiles);
        // SAFETY: the caller vouches for the instructions. `split` gives each task its own rows and panels, all within
        // C's m x n elements.
        unsafe { Tile { a, b, packed: &packed, start, clamp, rows, panels, c: out }.compute() };
    });
    c
}

/// Whether the reduction is cut: C stays in L2, and its sums are long.
fn is_long(m: usize, n: usize, k: usize) -> bool {
    m * n <= 1 << 16 && k >= 1 << 12
}

/// `A B` with the reduction cut into [`PARTS`], which are added in order.
///
/// # Safety
/// As [`product`].
unsafe fn summed_parts(a: Matrix, b: Matrix) -> Vec<f32> {
    let (m, n) = (a.rows, b.cols);
    let results: Vec<Vec<f32>> = (0..PARTS)
        .into_par_iter()
        .with_max_len(1)
        .map(|i| {
            let k = split(a.cols, PARTS, i);
            let part_a = Matrix { data: &a.data[k.start * a.col_stride..], cols: k.len(), ..a };
            let part_b = Matrix { data: &b.data[k.start * b.row_stride..], rows: k.len(), ..b };
            let (start, clamp, mut c) = (Start::Zero, Clamp::NONE, uninit(m * n));
            let out = SharedMut(c.as_mut_ptr());
            let (packed, rows, panels) = (&[][..], 0..m, 0..panels(n));
            let whole = Tile { a: part_a, b: part_b, packed, start, clamp, rows, panels, c: out };
            // SAFETY: the caller vouches for the instructions; the whole of a freshly allocated C is this task's.
            unsafe { whole.compute() };
            c
        })
        .collect();
    let add = |mut sum: Vec<f32>, part: Vec<f32>| {
        sum.iter_mut().zip(part).for_each(|(s, p)| *s += p);
        sum
    };
    results.into_iter().reduce(add).unwrap_or_default()
}

/// Panels of `n` columns.
fn panels(n: usize) -> usize {
    n.div_ceil(16 * PANEL)
}

/// The columns of panel `p` of `n`: nearly equal panels of whole vectors.
fn columns(p: usize, n: usize) -> Range<usize> {
    let vectors = split(n.div_ceil(16), panels(n), p);
    16 * vectors.start..(16 * vectors.end).min(n)
}

/// All panels of B, each over the whole reduction.
///
/// # Safety
/// The machine has AVX-512 BF16.
unsafe fn all_panels(b: Matrix) -> Vec<Room> {
    let pack = |p: usize| {
        let cols = columns(p, b.cols);
        let mut room = panel_room(b.rows);
        // SAFETY: the caller's duty.
        unsafe { pack_lines(b.t(), cols.clone(), 0..b.rows, Order::Pairs, cols.len().div_ceil(16), &mut room) };
        room
    };
    (0..panels(b.cols)).into_par_iter().map(pack).collect()
}

/// Room for a panel of `steps` steps.
fn panel_room(steps: usize) -> Room {
    Line::room(steps.next_multiple_of(32) / 2 * PANEL)
}

/// A part of C, and what it is computed from.
struct Tile<'a> {
    a: Matrix<'a>,
    b: Matrix<'a>,
    /// All of B's panels, or none: they are packed as they are needed.
    packed: &'a [Room],
    start: Start<'a>,
    clamp: Clamp,
    rows: Range<usize>,
    panels: Range<usize>,
    c: SharedMut,
}

impl Tile<'_> {
    /// Computes `rows` x `panels` of C.
    ///
    /// # Safety
    /// The machine has AVX-512 BF16; `c` has `a.rows` rows of `b.cols` elements, and those of the tile are the caller's.
    unsafe fn compute(&self) {
        let (k, n) = (self.a.cols, self.b.cols);
        let step = block_steps(k);
        let mut room_a = Line::room(Packed::lines(self.a, self.rows.len(), step));
        let mut room_b = panel_room(if self.packed.is_empty() { step } else { 0 });
        let streamed = k <= SHORT && should_stream(self.c.0, n, self.a.rows * n);
        for k0 in (0..k).step_by(step) {
            let steps = k0..(k0 + step).min(k);
            // SAFETY: the caller vouches for the instructions; both rooms hold a block.
            let a = unsafe { Packed::rows(self.a, self.rows.clone(), steps.clone(), &mut room_a) };
            for p in self.panels.clone() {
                let cols = columns(p, n);
                let width = Width::of(cols.len());
                let (init, clamp) = self.ends(&steps, &cols);
                // SAFETY: A has the tile's rows and B the panel's columns, both for these steps, and the panel's elements
                // of C's rows are this task's. Rows of a streamed C are whole cache lines, and so are its panels'.
                unsafe {
                    let c = self.c.at(self.rows.start * n + cols.start);
                    let b = match self.packed.get(p) {
                        Some(panel) => panel[k0 / 2 * width.vectors()..].as_ptr().cast(),
                        None => {
                            pack_lines(self.b.t(), cols, steps.clone(), Order::Pairs, width.vectors(), &mut room_b);
                            room_b.as_ptr().cast()
                        }
                    };
                    let Packed { values: a, row: a_row, step: a_step } = a;
                    let (n, pairs, c_row) = (self.rows.len(), steps.len().div_ceil(2), n);
                    Rows { n, width, pairs, a, a_row, a_step, b, c, c_row, init, clamp, streamed }.compute();
                }
            }
        }
        if streamed {
            finish_streaming();
        }
    }

    /// What the accumulators of `cols` start from before `steps` of the reduction, and how they are clamped after them.
    fn ends(&self, steps: &Range<usize>, cols: &Range<usize>) -> (Init, Clamp) {
        let init = match self.start {
            _ if steps.start > 0 => Init::Accumulate,
            Start::Zero => Init::Zero,
            Start::Bias(bias) => Init::Bias(bias[cols.clone()].as_ptr()),
        };
        (init, if steps.end == self.a.cols { self.clamp } else { Clamp::NONE })
    }
}

/// Rounded rows of A, in the order in which its values lie: `[row][pair]` or `[pair][row]`.
#[derive(Clone, Copy)]
struct Packed {
    values: *const i32,
    /// Pairs from one row to the next.
    row: usize,
    /// Pairs from one pair of steps to the next.
    step: usize,
}

impl Packed {
    /// Cache lines for `rows` rows of `steps` steps.
    fn lines(a: Matrix, rows: usize, steps: usize) -> usize {
        let (row, _) = Self::stride(a, rows, steps);
        if a.col_stride == 1 { rows.next_multiple_of(16) * row } else { steps.next_multiple_of(32) / 2 * row }
    }

    /// Cache lines from one row, or pair of steps, to the next, and the order. One more than the values need, lest all of
    /// them share a few sets of L1.
    fn stride(a: Matrix, rows: usize, steps: usize) -> (usize, Order) {
        if a.col_stride == 1 { (steps.div_ceil(32) + 1, Order::Lines) } else { (rows.div_ceil(16) + 1, Order::Pairs) }
    }

    /// Rounds `rows` x `steps` of A into `room`.
    ///
    /// # Safety
    /// The machine has AVX-512 BF16.
    unsafe fn rows(a: Matrix, rows: Range<usize>, steps: Range<usize>, room: &mut Room) -> Self {
        let (stride, order) = Self::stride(a, rows.len(), steps.len());
        // SAFETY: the caller's duty.
        unsafe { pack_lines(a, rows, steps, order, stride, room) };
        let values = room.as_ptr().cast();
        match order {
            Order::Lines => Self { values, row: 16 * stride, step: 1 },
            Order::Pairs => Self { values, row: 1, step: 16 * stride },
        }
    }
}
