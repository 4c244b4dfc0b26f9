//! Weight gradient of direct convolution: `dw[co, ci, tap] = sum over output pixels p of dy[p, co] x[source(p, tap), ci]`.
//!
//! The gradient is cut into units of 64 output by about 64 input channels of a group, whose k x k sums stay in L2
//! while the pixels pass by in strips. If there are too few units for the threads, the pixels are cut as well and the
//! parts added in order.

use std::ops::Range;

use rayon::prelude::*;

use super::{GATHER_BELOW, Scratch, locate_sources, micro};
use crate::conv2d::geometry::Geometry;
use crate::gemm::micro::{PANEL, Width};
use crate::gemm::{SharedMut, transpose, uninit};

/// Pixels of a strip: 64 channels of the gradient and of the input fit L1.

/// How the gradient is cut.
struct Units {
    groups: usize,
    /// Positions of the kernel; 1 if rows are gathered.
    taps: usize,
    /// Input channels of a group; times k x k if rows are gathered.
    depth: usize,
    /// Output channels of a group.
    breadth: usize,
}

impl Units {
    fn panels(&self) -> usize {
        self.breadth.div_ceil(PANEL)
    }

    fn blocks(&self) -> usize {
        self.depth.div_ceil(PANEL)
    }

    fn count(&self) -> usize {
        self.groups * self.panels() * self.blocks()
    }

    /// Group, input channels and output channels of a unit.
    fn get(&self, unit: usize) -> (usize, Range<usize>, Range<usize>) {
        let (group, rest) = (unit / (self.panels() * self.blocks()), unit % (self.panels() * self.blocks()));
        let (panel, block) = (rest / self.blocks(), rest % self.blocks());
        let cols = panel * PANEL..((panel + 1) * PANEL).min(self.breadth);
        (group, self.depth * block / self.blocks()..self.depth * (block + 1) / self.blocks(), cols)
    }
}

/// `dw` `[co, ci / groups, k, k]` from `x` and `dy`.
pub(in crate::conv2d) fn weight_gradient(g: &Geometry, x: &[f32], dy: &[f32]) -> Vec<f32> {
    let gathered = g.ci_group() < GATHER_BELOW;
    let (taps, depth) = if gathered { (1, g.taps() * g.ci_group()) } else { (g.taps(), g.ci_group()) };
    let units = Units { groups: g.groups, taps, depth, breadth: g.co_group() };
    let parts = parts(units.count(), g.out_pixels());
    let zeros = vec![0.0; g.ci];
    let sums: Vec<Vec<f32>> = (0..units.count() * parts)
        .into_par_iter()
        .map_init(Scratch::default, |scratch, task| {
            let (unit, part) = (task / parts, task % parts);
            let pixels = g.out_pixels() * part / parts..g.out_pixels() * (part + 1) / parts;
            unit_sum(g, &units, unit, pixels, x, dy, &zeros, scratch)
        })
        .collect();
    assemble(g, &units, parts, sums)
}

/// In how many parts the pixels are cut.
fn parts(units: usize, pixels: usize) -> usize {
    let threads = rayon::current_num_threads();
    if units.is_multiple_of(threads) || units >= 6 * threads {
        1
    } else {
        threads.min(pixels.div_ceil(super::tune("WSTRIP", 96)))
    }
}

/// The sum of a unit over `pixels`, `[tap][input channel][width]`.
#[allow(clippy::too_many_arguments)]
fn unit_sum(
    g: &Geometry,
    units: &Units,
    unit: usize,
    pixels: Range<usize>,
    x: &[f32],
    dy: &[f32],
    zeros: &[f32],
    scratch: &mut Scratch,
) -> Vec<f32> {
    let grid = g.forward_grid();
    let (group, rows, cols) = units.get(unit);
    let width = Width::of(cols.len());
    let tap_size = rows.len() * width.vectors() * 16;
    let mut sum = vec![0.0; units.taps * tap_size];
    let gathered = units.taps != g.taps() || g.ci_group() < GATHER_BELOW;
    let mut start = pixels.start;
    let strip_len = super::tune("WSTRIP", 96);
    while start < pixels.end {
        let strip = start..(start + strip_len).min(pixels.end);
        let channel = if gathered {
            scratch.gather(g, x, group, strip.clone())
        } else {
            locate_sources(&grid, x, g.ci, zeros, strip.clone(), &mut scratch.sources);
            group * g.ci_group()
        };
        let gradient = dy[strip.start * g.co + group * g.co_group() + cols.start..].as_ptr();
        for (sources, sum) in scratch.sources.chunks_exact(strip.len()).zip(sum.chunks_exact_mut(tap_size)) {
            let sum = sum.as_mut_ptr();
            // SAFETY: sources point to pixels with the unit's channels, the gradient has the strip's pixels with the
            // unit's columns, and `sum` has `rows` rows of the panel's width.
            unsafe { micro::outer_products(rows.len(), width, sources, channel + rows.start, gradient, g.co, sum) };
        }
        start = strip.end;
    }
    sum
}

/// Adds the parts of every unit and puts the values where the weights have them.
fn assemble(g: &Geometry, units: &Units, parts: usize, mut sums: Vec<Vec<f32>>) -> Vec<f32> {
    let row = g.taps() * g.ci_group();
    let mut dw = uninit(g.co * row);
    let out = SharedMut(dw.as_mut_ptr());
    sums.par_chunks_mut(parts).enumerate().for_each(|(unit, parts)| {
        if let [sum, parts @ ..] = parts {
            parts.iter().for_each(|part| sum.iter_mut().zip(part).for_each(|(s, p)| *s += p));
            let (group, depth, cols) = units.get(unit);
            let by_column = by_column(sum, depth.len(), cols.len());
            for c in cols.clone() {
                for (i, d) in depth.clone().enumerate() {
                    for tap in 0..units.taps {
                        // A gathered row holds all taps: its depth counts (tap, channel).
                        let (d, tap_index) =
                            if units.taps == g.taps() { (d, tap) } else { (d % g.ci_group(), d / g.ci_group()) };
                        let value = by_column[(tap * cols.len() + c - cols.start) * depth.len() + i];
                        // SAFETY: each weight belongs to one unit.
                        unsafe { *out.at((group * g.co_group() + c) * row + d * g.taps() + tap_index) = value };
                    }
                }
            }
        }
    });
    dw
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
