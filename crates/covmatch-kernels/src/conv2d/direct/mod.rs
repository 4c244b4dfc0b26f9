//! Direct convolution with AVX-512, for any kernel, stride, padding and number of groups.
//!
//! A convolution is a matrix product whose left side has, for each output pixel, the input pixels under the kernel.
//! That side is never built: the micro-kernel finds its rows through a table of pointers ([`micro`], [`sources`]).
//!
//! ```text
//! task: a strip of pixels                                        (rayon)
//!   group: table of pointers [tap][pixel]
//!     panel of 64 outputs
//!       run of the reduction: taps x channels, about KC          packed weights of the run stay in L2
//!         block of 6 pixels: 6 x 64 accumulators in registers
//! ```
//! The input gradient is the same loop nest over the gradient's pixels with the channels' roles swapped. In a first
//! layer, with its 3 or so channels, a tap would be too short a piece of the reduction: there a row of the kernel, whose
//! pixels are side by side, counts as one tap.

pub(super) mod bf16;
pub(super) mod micro;
mod scatter;
mod sources;
mod weight_gradient;

use std::ops::Range;

use rayon::prelude::*;

use super::geometry::{Geometry, Grid};
use super::packed::Packed;
use crate::gemm::micro::Init;
use crate::gemm::{Clamp, SharedMut, uninit};
use micro::{Reduction, Rows};
use sources::{Pixels, Sources};
pub(super) use weight_gradient::weight_gradient;

/// Most pixels of a task: its results and pointers stay in L2.
const STRIP: usize = 192;

/// Steps of the reduction between two visits to the results: the packed weights of a run are 144 KB.
const KC: usize = 576;

/// `y = clamp(conv(x, w) + bias)`.
pub(super) fn forward(g: &Geometry, x: &[f32], w: &[f32], bias: Option<&[f32]>, clamp: Clamp) -> Vec<f32> {
    let (grid, packed) = (g.forward_grid(), Packed::forward(g, w));
    let mut y = uninit(g.out_pixels() * g.co);
    let output = Output { pixels: SharedMut(y.as_mut_ptr()), channels: g.co, breadth: g.co_group(), bias, clamp };
    let zeros = vec![0.0; g.ci_group() * g.k];
    let source = Pixels { values: x, channels: g.ci, zeros: &zeros };
    let (taps, depth) = if g.taps_are_rows() { (g.k, g.k * g.ci) } else { (g.taps(), g.ci_group()) };
    let taps: Vec<usize> = (0..taps).collect();
    for_each_strip(grid.pixels(g.n), |strip, pixels| {
        output.locate(&grid, pixels.clone(), &mut strip.destinations);
        for group in 0..g.groups {
            if g.taps_are_rows() {
                strip.sources.locate_rows(g, source, pixels.clone());
            } else {
                strip.sources.locate(&grid, source, group * depth..(group + 1) * depth, pixels.clone());
            }
            // SAFETY: the sources have `depth` values each; the destinations are this strip's pixels of y.
            unsafe { output.compute(group, &packed, depth, &taps, strip) };
        }
    });
    y
}

/// `dx` from `dy`.
pub(super) fn input_gradient(g: &Geometry, dy: &[f32], w: &[f32]) -> Vec<f32> {
    if g.taps_are_rows() {
        return scatter::input_gradient(g, dy, w);
    }
    let packed = Packed::input_gradient(g, w);
    let mut dx = uninit(g.in_pixels() * g.ci);
    let pixels = SharedMut(dx.as_mut_ptr());
    let output = Output { pixels, channels: g.ci, breadth: g.ci_group(), bias: None, clamp: Clamp::NONE };
    let (depth, zeros) = (g.co_group(), vec![0.0; g.co_group()]);
    let source = Pixels { values: dy, channels: g.co, zeros: &zeros };
    // Every input pixel belongs to one grid.
    for grid in g.input_gradient_grids() {
        let taps: Vec<usize> = grid.taps.iter().map(|tap| tap.index).collect();
        for_each_strip(grid.pixels(g.n), |strip, pixels| {
            output.locate(&grid, pixels.clone(), &mut strip.destinations);
            for group in 0..g.groups {
                strip.sources.locate(&grid, source, group * depth..(group + 1) * depth, pixels.clone());
                // SAFETY: the sources have `depth` values each; the destinations are this strip's pixels of dx.
                unsafe { output.compute(group, &packed, depth, &taps, strip) };
            }
        });
    }
    dx
}

/// What a task knows of its strip.
#[derive(Default)]
struct Strip {
    sources: Sources,
    /// Result pixels.
    destinations: Vec<*mut f32>,
}

/// Cuts `pixels` into nearly equal strips, an equal number for each thread unless they would become tiny.
fn for_each_strip(pixels: usize, f: impl Fn(&mut Strip, Range<usize>) + Sync) {
    let most = pixels.div_ceil(24);
    let count = pixels.div_ceil(STRIP).next_multiple_of(rayon::current_num_threads()).clamp(1, most);
    // A thread that runs out of tasks takes over single ones.
    (0..count).into_par_iter().with_max_len(1).for_each_init(Strip::default, |strip, i| {
        f(strip, pixels * i / count..pixels * (i + 1) / count);
    });
}

/// The tensor that is computed.
struct Output<'a> {
    pixels: SharedMut,
    channels: usize,
    /// Channels of a group.
    breadth: usize,
    bias: Option<&'a [f32]>,
    clamp: Clamp,
}

impl Output<'_> {
    /// Where the results of `pixels` go.
    fn locate(&self, grid: &Grid, pixels: Range<usize>, table: &mut Vec<*mut f32>) {
        table.clear();
        grid.for_each_run(pixels, |image, jy, cols| {
            // SAFETY: a grid's positions are pixels of the tensor.
            table.extend(cols.map(|jx| unsafe { self.pixels.at(grid.position(image, jy, jx) * self.channels) }));
        });
    }

    /// Computes the channels of `group` for the pixels of `strip`.
    ///
    /// # Safety
    /// Every source has `depth` readable elements, and the destinations are this task's pixels.
    unsafe fn compute(&self, group: usize, packed: &Packed, depth: usize, taps: &[usize], strip: &Strip) {
        let (runs, row_count) = (runs(taps.len(), depth), strip.destinations.len());
        for panel in 0..packed.panels() {
            let (column, width, values) = packed.panel(group, panel);
            let column = group * self.breadth + column;
            for (i, (tap_run, channels)) in runs.iter().enumerate() {
                let init = match self.bias {
                    _ if i > 0 => Init::Accumulate,
                    Some(bias) => Init::Bias(bias[column..].as_ptr()),
                    None => Init::Zero,
                };
                let offset = |tap: &usize| (tap * depth + channels.start) * width.vectors() * 16;
                let reduction = Reduction {
                    sources: &strip.sources.table[tap_run.start * row_count..tap_run.end * row_count],
                    row_count,
                    channel: channels.start,
                    kc: channels.len(),
                    tap_weights: &taps[tap_run.clone()].iter().map(offset).collect::<Vec<_>>(),
                    panel: values.as_ptr(),
                };
                let clamp = if i + 1 == runs.len() { self.clamp } else { Clamp::NONE };
                let destinations = &strip.destinations;
                let rows = Rows { reduction, width, destinations, channel: column, init, clamp };
                // SAFETY: the caller's duty; the panel has `depth` rows for every tap.
                unsafe { rows.compute() };
            }
        }
    }
}

/// The reduction over `taps` x `depth` in runs of about [`KC`] steps, as (taps, channels): several taps, or part of
/// one. A reduction over nothing has one run, which writes the initial value.
fn runs(taps: usize, depth: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let (taps_a_run, blocks) = ((KC / depth).max(1), depth.div_ceil(KC));
    let mut runs = Vec::new();
    for first in (0..taps.max(1)).step_by(taps_a_run) {
        for block in 0..blocks {
            let channels = depth * block / blocks..depth * (block + 1) / blocks;
            runs.push((first..(first + taps_a_run).min(taps), channels));
        }
    }
    runs
}
