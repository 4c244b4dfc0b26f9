//! The blocked product on the AVX-512 micro-kernel.
//!
//! The order in which an element of `C` is summed does not depend on the number of threads, except where a small result
//! is summed from one part a thread ([`parts`]).
//!
//! # Loop nest (AVX-512)
//! ```text
//! task: a tile of rows of C x a range of 64-column panels          (rayon)
//!   block of up to KC steps of the reduction: A's [rows][KC]       stays in L2; packed if its values do not lie well
//!     panel of 64 columns: B packed [KC][64]                       streams from L2
//!       block of 6 rows: 6 x 64 accumulators in registers
//! ```

use std::ops::Range;

use rayon::prelude::*;

use super::micro::{self, Init, PANEL};
use super::stream::{finish_streaming, should_stream};
use super::{Aligned, Clamp, Matrix, SharedMut, Start, pack, uninit};

/// The most steps of the reduction between two visits to `C`.
const KC: usize = 512;

/// Reductions of at most this many steps are bound by the traffic of a large `C`.
const SHORT: usize = 512;
// A streamed C is written once: its reduction is a single block.
const _: () = assert!(SHORT <= KC);

/// Values of A's part of a block, 800 KB: two thirds of an L2 of 1.25 MB; a panel of B and the lines of C need the rest.
const BLOCK: usize = 200_000;

/// Panels in a tile that pay for bringing its rows of A into L2 once more.
const WIDE: usize = 8;

/// Steps of the reduction in a block: nearly equal blocks of at most [`KC`].
pub(super) fn block_steps(k: usize) -> usize {
    k.div_ceil(k.div_ceil(KC)).next_multiple_of(16)
}

/// `start + A B`, clamped. No dimension is zero.
pub(super) fn product(a: Matrix, b: Matrix, start: Start, clamp: Clamp) -> Vec<f32> {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    let threads = rayon::current_num_threads();
    if matches!(start, Start::Zero) && clamp == Clamp::NONE && parts(m, n, k, threads) > 1 {
        return summed_parts(a, b, threads);
    }
    let mut c = uninit(m * n);
    let out = SharedMut(c.as_mut_ptr());
    let (row_tiles, panel_tiles) = tiles(m, n, k, threads);
    let panels = n.div_ceil(PANEL);
    // A thread that runs out of tasks takes over single ones.
    (0..row_tiles * panel_tiles).into_par_iter().with_max_len(1).for_each(|task| {
        let rows = split(m, row_tiles, task / panel_tiles);
        let panels = split(panels, panel_tiles, task % panel_tiles);
        // SAFETY: `split` gives each task its own rows and panels, all within C's m x n elements.
        unsafe { Tile { a, b, start, clamp, rows, panels, c: out }.compute() };
    });
    c
}

/// Part `i` of `total` items cut into `parts` nearly equal runs.
pub(super) fn split(total: usize, parts: usize, i: usize) -> Range<usize> {
    total * i / parts..total * (i + 1) / parts
}

/// How many (row tiles, panel tiles) C is cut into: tiles that stay in L2, and enough of them for all threads.
///
/// Every row tile packs the panels that it needs, so tiles are as large as L2 allows, and where all rows fit into one,
/// the panels are shared out instead. Several tiles a thread let the others help one that is held up.
pub(super) fn tiles(m: usize, n: usize, k: usize, threads: usize) -> (usize, usize) {
    let panels = n.div_ceil(PANEL);
    let fewest = m.div_ceil((BLOCK / block_steps(k)).clamp(96, 512));
    if m * n * k < 1 << 16 {
        return (fewest, 1);
    }
    if fewest == 1 && (panels.is_multiple_of(threads) || panels >= WIDE * threads) {
        return (1, if panels >= 2 * WIDE * threads { 2 * threads } else { threads });
    }
    let row_tiles = fewest.next_multiple_of(threads).min(m.div_ceil(12));
    if row_tiles < threads {
        return (row_tiles, panels.min(2 * threads));
    }
    (row_tiles, (4 * threads / row_tiles).min(panels / WIDE).max(1))
}

/// In how many parts the reduction is cut: more than one when C is too small to keep all threads busy, or so small
/// against A and B that each of them should be read by one thread only.
fn parts(m: usize, n: usize, k: usize, threads: usize) -> usize {
    let small = m.div_ceil(96) * n.div_ceil(PANEL) < threads;
    let long = k >= 64 * m.max(n);
    if (small || long) && k >= 64 * threads && m * n * k >= 1 << 18 { threads } else { 1 }
}

/// `A B` with the reduction cut into one part a thread; the parts are added in order.
fn summed_parts(a: Matrix, b: Matrix, threads: usize) -> Vec<f32> {
    let (m, n) = (a.rows, b.cols);
    let mut results: Vec<Vec<f32>> = (0..threads)
        .into_par_iter()
        .map(|i| {
            let k = split(a.cols, threads, i);
            let part_a = Matrix { data: &a.data[k.start * a.col_stride..], cols: k.len(), ..a };
            let part_b = Matrix { data: &b.data[k.start * b.row_stride..], rows: k.len(), ..b };
            let mut c = uninit(m * n);
            let whole = Tile {
                a: part_a,
                b: part_b,
                start: Start::Zero,
                clamp: Clamp::NONE,
                rows: 0..m,
                panels: 0..n.div_ceil(PANEL),
                c: SharedMut(c.as_mut_ptr()),
            };
            // SAFETY: the whole of a freshly allocated C is this task's.
            unsafe { whole.compute() };
            c
        })
        .collect();
    let mut sum = results.swap_remove(0);
    for part in results {
        sum.iter_mut().zip(part).for_each(|(s, p)| *s += p);
    }
    sum
}

/// Whether A is read where it lies: its rows or columns do not crowd into the same few sets of the caches, as they do when
/// whole pages lie between them.
fn lies_well(a: Matrix) -> bool {
    !a.row_stride.max(a.col_stride).is_multiple_of(1024)
}

/// A part of C, and what it is computed from.
struct Tile<'a> {
    a: Matrix<'a>,
    b: Matrix<'a>,
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
    /// The machine has AVX-512; `c` has `a.rows` rows of `b.cols` elements, and those of the tile are the caller's.
    unsafe fn compute(&self) {
        let Self { a, b, ref rows, .. } = *self;
        let (k, n) = (a.cols, b.cols);
        let in_place = lies_well(a) || (a.col_stride == 1 && self.panels.len() == 1);
        let step = block_steps(k);
        let mut packed_a = if in_place { Vec::new() } else { uninit(rows.len() * step) };
        let mut packed_b = Aligned::new(step * PANEL);
        let streamed = k <= SHORT && should_stream(self.c.0, n, a.rows * n);
        for k0 in (0..k).step_by(step) {
            let steps = k0..(k0 + step).min(k);
            let (a_ptr, a_row, a_step) = if in_place {
                (a.ptr(rows.start, k0), a.row_stride, a.col_stride)
            } else {
                pack::rows(a, rows.clone(), steps.clone(), &mut packed_a);
                (packed_a.as_ptr(), steps.len(), 1)
            };
            for p in self.panels.clone() {
                let cols = columns(p, n);
                let width = micro::Width::of(cols.len());
                pack::panel(b, steps.clone(), cols.clone(), width.vectors() * 16, packed_b.values_mut());
                let (init, clamp) = self.ends(&steps, &cols);
                // SAFETY: A's rows have kc elements from a_ptr, B's panel is packed [kc][width], and the rows of C from
                // here on are this task's.
                unsafe {
                    let (b, c) = (packed_b.values().as_ptr(), self.c.at(rows.start * n + cols.start));
                    let (n, kc, c_row) = (rows.len(), steps.len(), n);
                    let rows = micro::Rows { n, width, kc, a: a_ptr, a_row, a_step, b, c, c_row, init, clamp };
                    if streamed { rows.stream() } else { rows.compute() }
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

/// The columns of panel `p` of `n` columns.
fn columns(p: usize, n: usize) -> Range<usize> {
    p * PANEL..((p + 1) * PANEL).min(n)
}
