//! Weight gradient of direct convolution: `dw[co, ci, tap] = sum over output pixels p of dy[p, co] x[source(p, tap), ci]`.
//!
//! The gradient is cut into units of 64 output by about 64 input channels of a group, whose k x k sums stay in L2
//! while the pixels pass by in strips. If there are too few units for the threads, the pixels are cut as well and the
//! parts added in order.

use std::ops::Range;

use rayon::prelude::*;

use super::micro::OuterProducts;
use super::sources::{Pixels, Sources};
use super::taps_are_rows;
use crate::conv2d::geometry::Geometry;
use crate::gemm::micro::{PANEL, Width};
use crate::gemm::{SharedMut, transpose, uninit};

/// Pixels of a strip: 64 channels of the gradient and, for one tap, of the input fit L1.
const STRIP: usize = 72;

/// How the gradient is cut.
struct Units {
    groups: usize,
    /// Taps of the kernel, or its rows.
    taps: usize,
    /// Values that a tap reads.
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
    let (taps, depth) = if taps_are_rows(g) { (g.k, g.k * g.ci) } else { (g.taps(), g.ci_group()) };
    let units = Units { groups: g.groups, taps, depth, breadth: g.co_group() };
    let parts = parts(units.count(), g.out_pixels());
    let zeros = vec![0.0; depth];
    let x = Pixels { values: x, channels: g.ci, zeros: &zeros };
    let sums: Vec<Vec<f32>> = (0..units.count() * parts)
        .into_par_iter()
        .with_max_len(1)
        .map_init(Scratch::default, |scratch, task| {
            let (unit, part) = (task / parts, task % parts);
            let pixels = g.out_pixels() * part / parts..g.out_pixels() * (part + 1) / parts;
            unit_sum(g, &units, unit, pixels, x, dy, scratch)
        })
        .collect();
    assemble(g, &units, parts, sums)
}

/// In how many parts the pixels are cut.
fn parts(units: usize, pixels: usize) -> usize {
    let threads = rayon::current_num_threads();
    if units.is_multiple_of(threads) || units >= 6 * threads { 1 } else { threads.min(pixels.div_ceil(STRIP)) }
}

/// What a task keeps between strips.
#[derive(Default)]
struct Scratch {
    sources: Sources,
    /// The unit's columns of the gradient, side by side.
    gradient: Vec<f32>,
}

/// The sum of a unit over `pixels`, `[tap][depth][width]`.
fn unit_sum(
    g: &Geometry,
    units: &Units,
    unit: usize,
    pixels: Range<usize>,
    x: Pixels,
    dy: &[f32],
    scratch: &mut Scratch,
) -> Vec<f32> {
    let grid = g.forward_grid();
    let (group, depth, cols) = units.get(unit);
    let width = Width::of(cols.len());
    let tap_size = depth.len() * width.vectors() * 16;
    let mut sum = vec![0.0; units.taps * tap_size];
    for start in pixels.clone().step_by(STRIP) {
        let strip = start..(start + STRIP).min(pixels.end);
        let Scratch { sources, gradient } = scratch;
        let channel = if taps_are_rows(g) {
            sources.locate_rows(g, x, strip.clone());
            depth.start
        } else {
            let first = group * g.ci_group();
            sources.locate(&grid, x, first + depth.start..first + depth.end, strip.clone());
            0
        };
        let gradient = if cols.len() == g.co {
            &dy[strip.start * g.co..]
        } else {
            gradient.clear();
            for p in strip.clone() {
                gradient.extend_from_slice(&dy[p * g.co + group * g.co_group()..][cols.clone()]);
            }
            gradient
        };
        for (sources, sum) in sources.table.chunks_exact(strip.len()).zip(sum.chunks_exact_mut(tap_size)) {
            let (gradient, gradient_row, sum) = (gradient.as_ptr(), cols.len(), sum.as_mut_ptr());
            let products =
                OuterProducts { channels: depth.len(), width, sources, channel, gradient, gradient_row, sum };
            // SAFETY: sources have the unit's depth, the gradient has the strip's pixels with the unit's columns, and
            // `sum` has `depth` rows of the panel's width.
            unsafe { products.add() };
        }
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
                        // A tap that is a row of the kernel reads (k_x, channel).
                        let (channel, tap_index) =
                            if taps_are_rows(g) { (d % g.ci, tap * g.k + d / g.ci) } else { (d, tap) };
                        let value = by_column[(tap * cols.len() + c - cols.start) * depth.len() + i];
                        // SAFETY: each weight belongs to one unit.
                        unsafe { *out.at((group * g.co_group() + c) * row + channel * g.taps() + tap_index) = value };
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
