//! Products whose operands are rounded to bf16, with sums in f32.
//!
//! bf16 has 8 bits of significand: rounding changes an operand by at most 2^-8 of its magnitude, and a sum by about 2^-7
//! of the sum of its terms' magnitudes. The order in which an element of `C` is summed depends on the instructions and on
//! the length of the reduction alone.
//!
//! # Loop nest
//! ```text
//! A and B are rounded and packed into tiles once                   (rayon)
//! task: up to 256 rows of C x up to 512 columns                    (rayon)
//!   run of up to RUN steps of the reduction: B's part stays in L2
//!     32 rows: A's part stays in L1
//!       32 columns: one block of C, its sums in registers
//! ```

mod amx;
mod block;
mod dot;
mod pack;
#[cfg(test)]
mod tests;

use std::ops::Range;

use rayon::prelude::*;

use self::amx::Tiles;
use self::block::{BLOCK, Block};
use self::pack::{Order, STEPS, Tile, depth, tiles};
use super::blocked::split;
use super::{Clamp, Matrix, SharedMut, Start, uninit};
use crate::precision::{Precision, precision};
use crate::simd::{self, Bf16};

/// The most steps of the reduction between two visits to `C`.
const RUN: usize = 512;

/// The most blocks of rows and of columns in a task: with a run's part of A and B they stay in an L2 of 2 MB.
const TASK: (usize, usize) = (8, 16);

/// The instructions for `start + A B` of `m` x `n` sums of `k` steps, if the process asks for bf16 and it is faster.
pub(super) fn form(m: usize, n: usize, k: usize) -> Option<Bf16> {
    if precision() == Precision::F32 || !pays(m, n, k) {
        return None;
    }
    simd::bf16()
}

/// Whether packing and whole blocks of `C` cost less than what the instructions save.
fn pays(m: usize, n: usize, k: usize) -> bool {
    m.min(n) >= BLOCK && k >= STEPS && m * n * k >= 1 << 18
}

/// `start + A B`, clamped, by the instructions of `form`. No dimension is zero.
///
/// # Safety
/// [`simd::bf16`] found `form` or a better one.
pub(super) unsafe fn product(form: Bf16, a: Matrix, b: Matrix, start: Start, clamp: Clamp) -> Vec<f32> {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    // SAFETY: every machine with a form of bf16 products has the instructions that pack.
    let (a, b) = unsafe { (tiles(a, Order::Lines), tiles(b.t(), Order::Pairs)) };
    let mut init = vec![0.0; n.next_multiple_of(BLOCK)];
    if let Start::Bias(bias) = start {
        init[..n].copy_from_slice(bias);
    }
    let mut c = uninit(m * n);
    let product =
        Product { form, a: &a, b: &b, init: &init, clamp, m, n, depth: depth(k), c: SharedMut(c.as_mut_ptr()) };
    let (rows, cols) = (m.div_ceil(BLOCK), n.div_ceil(BLOCK));
    let (row_parts, col_parts) = parts(rows, cols, rayon::current_num_threads());
    (0..row_parts * col_parts).into_par_iter().with_max_len(1).for_each(|task| {
        let rows = split(rows, row_parts, task / col_parts);
        let cols = split(cols, col_parts, task % col_parts);
        // SAFETY: `split` gives each task its own blocks, all within C; the caller vouches for the instructions.
        unsafe { product.compute(rows, cols) };
    });
    c
}

/// In how many parts blocks of rows and of columns are cut: tasks that stay in L2, and some for every thread.
fn parts(rows: usize, cols: usize, threads: usize) -> (usize, usize) {
    let (mut row_parts, mut col_parts) = (rows.div_ceil(TASK.0), cols.div_ceil(TASK.1));
    while row_parts * col_parts < 3 * threads && (row_parts < rows || col_parts < cols) {
        let by_rows = rows * col_parts >= cols * row_parts;
        if by_rows { row_parts = (2 * row_parts).min(rows) } else { col_parts = (2 * col_parts).min(cols) }
    }
    (row_parts, col_parts)
}

/// The instructions that compute a block, ready on this thread.
enum Kernel {
    Dot,
    Amx(Tiles),
}

impl Kernel {
    /// # Safety
    /// [`simd::bf16`] found `form` or a better one; no other `Kernel` of this thread is alive.
    unsafe fn ready(form: Bf16) -> Self {
        match form {
            Bf16::Avx512 => Self::Dot,
            // SAFETY: the caller's duty.
            Bf16::Amx => Self::Amx(unsafe { Tiles::shaped() }),
        }
    }

    /// # Safety
    /// Both operands have two panels of `depth` tiles, `init` and `out` the block's rows.
    unsafe fn compute(&self, block: &Block) {
        // SAFETY: the caller's duty; the machine has the instructions, or there would be no `Kernel` of them.
        match self {
            Self::Dot => unsafe { dot::compute(block) },
            // SAFETY: as above.
            Self::Amx(tiles) => unsafe { tiles.compute(block) },
        }
    }
}

/// A product of packed operands.
struct Product<'a> {
    form: Bf16,
    a: &'a [Tile],
    b: &'a [Tile],
    /// What every row of C starts from, padded to whole blocks.
    init: &'a [f32],
    clamp: Clamp,
    m: usize,
    n: usize,
    /// Tiles in a panel of A or B.
    depth: usize,
    c: SharedMut,
}

/// Sums of a block that do not lie in C.
#[repr(C, align(64))]
struct Aside([f32; BLOCK * BLOCK]);

impl Product<'_> {
    /// Computes blocks of C.
    ///
    /// # Safety
    /// [`simd::bf16`] found `form` or a better one; the blocks lie within C, which has `m` rows of `n` elements, and are
    /// the caller's.
    unsafe fn compute(&self, rows: Range<usize>, cols: Range<usize>) {
        // SAFETY: the caller's duty; this is the thread's only kernel, it computes nothing else meanwhile.
        let kernel = unsafe { Kernel::ready(self.form) };
        let runs = (self.depth * STEPS).div_ceil(RUN);
        for run in 0..runs {
            let steps = split(self.depth, runs, run);
            for row in rows.clone() {
                for col in cols.clone() {
                    // SAFETY: the caller's duty.
                    unsafe { self.block(&kernel, row, col, &steps) };
                }
            }
        }
    }

    /// Adds `steps` of the reduction, in tiles, to a block of C.
    ///
    /// # Safety
    /// As [`compute`](Self::compute).
    unsafe fn block(&self, kernel: &Kernel, row: usize, col: usize, steps: &Range<usize>) {
        let (m, n, first, last) = (self.m, self.n, steps.start == 0, steps.end == self.depth);
        let (height, width) = ((m - row * BLOCK).min(BLOCK), (n - col * BLOCK).min(BLOCK));
        let panels = 2 * self.depth;
        let (a, b) = (&self.a[row * panels + steps.start..], &self.b[col * panels + steps.start..]);
        let bias = self.init[col * BLOCK..].as_ptr();
        // SAFETY: the block lies within C.
        let c = unsafe { self.c.at(row * BLOCK * n + col * BLOCK) };
        let (init, init_row) = if first { (bias, 0) } else { (c.cast_const(), n) };
        let (a, b, panel, depth) = (a.as_ptr(), b.as_ptr(), self.depth, steps.len());
        let in_c = Block { a, b, panel, depth, init, init_row, out: c, out_row: n };
        if height == BLOCK && width == BLOCK && (self.clamp == Clamp::NONE || !last) {
            // SAFETY: the operands are padded to whole blocks, and this block of C is whole.
            unsafe { kernel.compute(&in_c) };
            return;
        }
        let mut aside = Aside([0.0; BLOCK * BLOCK]);
        let out = aside.0.as_mut_ptr();
        let mut block = Block { out, out_row: BLOCK, ..in_c };
        if !first {
            block = Block { init: out, init_row: BLOCK, ..block };
        }
        // SAFETY: the part of the block that lies in C is the caller's, `aside` holds all of it.
        unsafe {
            let in_c = |i: usize| std::slice::from_raw_parts_mut(c.add(i * n), width);
            if !first {
                aside
                    .0
                    .chunks_exact_mut(BLOCK)
                    .take(height)
                    .enumerate()
                    .for_each(|(i, row)| row[..width].copy_from_slice(in_c(i)));
            }
            kernel.compute(&block);
            let clamp = if last { self.clamp } else { Clamp::NONE };
            for (i, row) in aside.0.chunks_exact(BLOCK).take(height).enumerate() {
                in_c(i).iter_mut().zip(row).for_each(|(c, sum)| *c = clamp.apply(*sum));
            }
        }
    }
}
