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
    /// In how many blocks the depth is cut.
    blocks: usize,
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
        let (taps, depth, blocks) = if g.taps_are_rows() {
            (g.k, g.k * g.ci, 1)
        } else {
            (g.taps(), g.ci_group(), g.ci_group().div_ceil(PANEL))
        };
        Self { groups: g.groups, taps, depth, blocks, breadth: g.co_group() }
    }

    fn panels(&self) -> usize {
        self.breadth.div_ceil(PANEL)
    }

    fn count(&self) -> usize {
        self.groups * self.panels() * self.blocks
    }

    fn get(&self, unit: usize) -> Unit {
        let (group, rest) = (unit / (self.panels() * self.blocks), unit % (self.panels() * self.blocks));
        let (panel, block) = (rest / self.blocks, rest % self.blocks);
        let cols = panel * PANEL..((panel + 1) * PANEL).min(self.breadth);
        Unit { group, depth: self.depth * block / self.blocks..self.depth * (block + 1) / self.blocks, cols }
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
                let unit = self.get(unit);
                let (first, run) = (unit.depth.start * self.taps, unit.depth.len() * self.taps);
                for (c, weights) in unit.cols.clone().zip(self.by_column(g, &unit, sum).chunks_exact(run)) {
                    let at = (unit.group * g.co_group() + c) * row + first;
                    // SAFETY: each weight belongs to one unit, and those of a column of it follow each other.
                    unsafe { out.at(at).copy_from_nonoverlapping(weights.as_ptr(), run) };
                }
            }
        });
        dw
    }

    /// A unit's sum, `[tap][depth][width]`, as `[column][weight]`: the weights in the order in which `dw` has them.
    fn by_column(&self, g: &Geometry, unit: &Unit, sum: &[f32]) -> Vec<f32> {
        let (depth, cols) = (unit.depth.len(), unit.cols.len());
        let (width, weights) = (Width::of(cols).vectors() * 16, depth * self.taps);
        let mut by_weight = uninit(weights * width);
        for (i, row) in sum.chunks_exact(width).enumerate() {
            let (tap, d) = (i / depth, i % depth);
            // A tap that is a row of the kernel reads (k_x, channel).
            let weight =
                if g.taps_are_rows() { d % g.ci * g.taps() + tap * g.k + d / g.ci } else { d * self.taps + tap };
            by_weight[weight * width..][..width].copy_from_slice(row);
        }
        let mut out = uninit(cols * weights);
        transpose(&by_weight, weights, cols, width, &mut out, weights);
        out
    }
}
