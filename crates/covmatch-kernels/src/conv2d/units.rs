//! How a weight gradient is shared out among threads, and put together again.
//!
//! The gradient is cut into units of 64 output by about 64 input channels of a group, whose sums stay in L2 while the
//! batch passes by. If there are too few units for the threads, the batch is cut as well and the parts added in order.

use std::ops::Range;

use rayon::prelude::*;

use super::geometry::Geometry;
use crate::gemm::micro::{PANEL, Width};
use crate::gemm::{SharedMut, transpose, uninit};

/// The units of a gradient.
pub(super) struct Units {
    groups: usize,
    /// Taps of the kernel, or its rows.
    pub(super) taps: usize,
    /// Values that a tap reads.
    pub(super) depth: usize,
    /// Output channels of a group.
    breadth: usize,
}

/// A part of the gradient.
pub(super) struct Unit {
    pub(super) group: usize,
    /// Which of the group's values that a tap reads.
    pub(super) depth: Range<usize>,
    /// Which of the group's output channels.
    pub(super) cols: Range<usize>,
}

impl Units {
    pub(super) fn new(g: &Geometry) -> Self {
        let (taps, depth) = if g.taps_are_rows() { (g.k, g.k * g.ci) } else { (g.taps(), g.ci_group()) };
        Self { groups: g.groups, taps, depth, breadth: g.co_group() }
    }

    fn panels(&self) -> usize {
        self.breadth.div_ceil(PANEL)
    }

    fn blocks(&self) -> usize {
        self.depth.div_ceil(PANEL)
    }

    fn count(&self) -> usize {
        self.groups * self.panels() * self.blocks()
    }

    fn get(&self, unit: usize) -> Unit {
        let (group, rest) = (unit / (self.panels() * self.blocks()), unit % (self.panels() * self.blocks()));
        let (panel, block) = (rest / self.blocks(), rest % self.blocks());
        let cols = panel * PANEL..((panel + 1) * PANEL).min(self.breadth);
        Unit { group, depth: self.depth * block / self.blocks()..self.depth * (block + 1) / self.blocks(), cols }
    }

    /// `dw` `[co, ci / groups, k, k]`.
    ///
    /// `sum(scratch, unit, items)` is the sum of a unit over some of the batch's `items`, `[tap][depth][width]`;
    /// `scratch` is what a task keeps between calls.
    pub(super) fn gradient<S: Default>(
        &self,
        g: &Geometry,
        items: usize,
        sum: impl Fn(&mut S, &Unit, Range<usize>) -> Vec<f32> + Sync,
    ) -> Vec<f32> {
        let parts = self.parts(items);
        let sums: Vec<Vec<f32>> = (0..self.count() * parts)
            .into_par_iter()
            .with_max_len(1) // A thread that runs out of tasks takes over single ones.
            .map_init(S::default, |scratch, task| {
                let part = task % parts;
                sum(scratch, &self.get(task / parts), items * part / parts..items * (part + 1) / parts)
            })
            .collect();
        self.assemble(g, parts, sums)
    }

    /// In how many parts the batch is cut.
    fn parts(&self, items: usize) -> usize {
        let (units, threads) = (self.count(), rayon::current_num_threads());
        if units.is_multiple_of(threads) || units >= 6 * threads { 1 } else { threads.min(items.div_ceil(64)) }
    }

    /// Adds the parts of every unit and puts the values where the weights have them.
    fn assemble(&self, g: &Geometry, parts: usize, mut sums: Vec<Vec<f32>>) -> Vec<f32> {
        let row = g.taps() * g.ci_group();
        let mut dw = uninit(g.co * row);
        let out = SharedMut(dw.as_mut_ptr());
        sums.par_chunks_mut(parts).enumerate().for_each(|(unit, parts)| {
            if let [sum, parts @ ..] = parts {
                parts.iter().for_each(|part| sum.iter_mut().zip(part).for_each(|(s, p)| *s += p));
                let Unit { group, depth, cols } = self.get(unit);
                let by_column = by_column(sum, depth.len(), cols.len());
                for c in cols.clone() {
                    for (i, d) in depth.clone().enumerate() {
                        for tap in 0..self.taps {
                            // A tap that is a row of the kernel reads (k_x, channel).
                            let (channel, tap_index) =
                                if g.taps_are_rows() { (d % g.ci, tap * g.k + d / g.ci) } else { (d, tap) };
                            let value = by_column[(tap * cols.len() + c - cols.start) * depth.len() + i];
                            let at = (group * g.co_group() + c) * row + channel * g.taps() + tap_index;
                            // SAFETY: each weight belongs to one unit.
                            unsafe { *out.at(at) = value };
                        }
                    }
                }
            }
        });
        dw
    }
}

/// `[tap][depth][width]` to `[tap][column][depth]`.
fn by_column(sum: &[f32], depth: usize, cols: usize) -> Vec<f32> {
    let width = Width::of(cols).vectors() * 16;
    let mut out = vec![0.0; sum.len() / width * cols];
    for (sum, out) in sum.chunks_exact(depth * width).zip(out.chunks_exact_mut(cols * depth)) {
        transpose(sum, depth, cols, width, out, depth);
    }
    out
}
