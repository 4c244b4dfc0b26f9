//! The product on AMX.
//!
//! # Loop nest
//! ```text
//! A and B are rounded and packed into tiles once                   (rayon)
//! task: up to 256 rows of C x up to 512 columns                    (rayon)
//!   run of up to RUN steps of the reduction: B's part stays in L2
//!     32 rows: A's part stays in L1
//!       32 columns: one block of C, its sums in registers
//! ```

use std::ops::Range;

use rayon::prelude::*;

use super::amx::Tiles;
use super::block::{BLOCK, Block};
use super::blocked::split;
use super::pack::{Order, STEPS, Tile, depth, tiles};
use super::part::{Aside, Part};
use super::{Clamp, Matrix, SharedMut, Start, uninit};

/// The most steps of the reduction between two visits to `C`.
pub(super) const RUN: usize = 512;

/// The most blocks of rows and of columns in a task: with a run's part of A and B they stay in an L2 of 2 MB.
const TASK: (usize, usize) = (8, 16);

/// The fewest multiply-adds that are worth the packing.
const LEAST: usize = 1 << 21;

/// Whether packing the operands of `m` x `n` sums of `k` steps takes less time than it saves.
pub(super) fn pays(m: usize, n: usize, k: usize) -> bool {
    m.min(n) >= BLOCK && k >= 2 * STEPS && m * n * k >= LEAST
}

/// `start + A B`, clamped. No dimension is zero.
///
/// # Safety
/// [`simd::bf16`](crate::simd::bf16) found AMX.
pub(super) unsafe fn product(a: Matrix, b: Matrix, start: Start, clamp: Clamp) -> Vec<f32> {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    // SAFETY: a machine with AMX has the instructions that pack.
    let (a, b) = unsafe { (tiles(a, Order::Lines), tiles(b.t(), Order::Pairs)) };
    let mut init = vec![0.0; n.next_multiple_of(BLOCK)];
    if let Start::Bias(bias) = start {
        init[..n].copy_from_slice(bias);
    }
    let mut c = uninit(m * n);
    let product = Product { a: &a, b: &b, init: &init, clamp, m, n, depth: depth(k), c: SharedMut(c.as_mut_ptr()) };
    let (rows, cols) = (m.div_ceil(BLOCK), n.div_ceil(BLOCK));
    let (row_parts, col_parts) = parts(rows, cols, rayon::current_num_threads());
    (0..row_parts * col_parts).into_par_iter().with_max_len(1).for_each(|task| {
        let rows = split(rows, row_parts, task / col_parts);
        let cols = split(cols, col_parts, task % col_parts);
        // SAFETY: the caller vouches for the instructions; a task shapes the registers once and does nothing else meanwhile.
        // `split` gives each task its own blocks, all within C.
        unsafe { product.compute(&Tiles::shaped(), rows, cols) };
    });
    c
}

/// In how many parts blocks of rows and of columns are cut: tasks that stay in L2, and some for every thread.
fn parts(rows: usize, cols: usize, threads: usize) -> (usize, usize) {
    let (mut row_parts, mut col_parts) = (rows.div_ceil(TASK.0), cols.div_ceil(TASK.1));
    while row_parts * col_parts < (3 * threads).min(rows * cols) {
        if rows * col_parts >= cols * row_parts {
            row_parts = (2 * row_parts).min(rows);
        } else {
            col_parts = (2 * col_parts).min(cols);
        }
    }
    (row_parts, col_parts)
}

/// A product of packed operands.
struct Product<'a> {
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

impl Product<'_> {
    /// Computes blocks of C.
    ///
    /// # Safety
    /// The blocks lie within C, which has `m` rows of `n` elements, and are the caller's.
    unsafe fn compute(&self, registers: &Tiles, rows: Range<usize>, cols: Range<usize>) {
        let runs = (self.depth * STEPS).div_ceil(RUN);
        for run in 0..runs {
            let steps = split(self.depth, runs, run);
            for row in rows.clone() {
                for col in cols.clone() {
                    // SAFETY: the caller's duty.
                    unsafe { self.add(registers, row, col, &steps) };
                }
            }
        }
    }

    /// Adds a run of the reduction, in tiles, to a block of C.
    ///
    /// # Safety
    /// As [`compute`](Self::compute).
    unsafe fn add(&self, registers: &Tiles, row: usize, col: usize, steps: &Range<usize>) {
        let (first, last) = (steps.start == 0, steps.end == self.depth);
        let clamp = if last { self.clamp } else { Clamp::NONE };
        // SAFETY: the block lies within C.
        let c = unsafe { self.c.at(row * BLOCK * self.n + col * BLOCK) };
        let part = Part {
            c,
            c_row: self.n,
            height: (self.m - row * BLOCK).min(BLOCK),
            width: (self.n - col * BLOCK).min(BLOCK),
        };
        let panels = 2 * self.depth;
        let in_c = Block {
            a: self.a[row * panels + steps.start..].as_ptr(),
            b: self.b[col * panels + steps.start..].as_ptr(),
            panel: self.depth,
            depth: steps.len(),
            init: if first { self.init[col * BLOCK..].as_ptr() } else { c },
            init_row: if first { 0 } else { self.n },
            out: c,
            out_row: self.n,
        };
        // SAFETY: operands and `init` are padded to whole blocks; what lies in C is the caller's, and where that is not a
        // whole block, or not yet clamped, the sums are made aside.
        unsafe {
            if part.is_whole() && clamp == Clamp::NONE {
                registers.compute(&in_c);
                return;
            }
            let mut aside = Aside::new();
            let out = Block { out: aside.values(), out_row: BLOCK, ..in_c };
            if first {
                registers.compute(&out);
            } else {
                part.read(&mut aside);
                registers.compute(&Block { init: aside.values(), init_row: BLOCK, ..out });
            }
            part.write(&aside, clamp);
        }
    }
}
