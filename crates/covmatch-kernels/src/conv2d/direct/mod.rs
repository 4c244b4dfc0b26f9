//! Direct convolution with AVX-512, for any kernel, stride, padding and number of groups.
//!
//! A convolution is a matrix product whose left side has, for each output pixel, the input pixels under the kernel.
//! That side is never built: the micro-kernel finds its rows through a table of pointers ([`micro`]).
//!
//! ```text
//! task: a strip of pixels                                        (rayon)
//!   table of pointers [tap][pixel]
//!   group, panel of 64 outputs
//!     run of the reduction: taps x channels, about KC            packed weights of the run stay in L1
//!       block of 6 pixels: 6 x 64 accumulators in registers
//! ```
//! The input gradient is the same loop nest over the gradient's pixels with the channels' roles swapped. Kernels over
//! very few channels (the first layer) would leave the reduction too short: there the strip's rows are gathered first.

mod micro;
mod pack;
mod scatter;
mod weight_gradient;

use rayon::prelude::*;

use super::geometry::{Geometry, Grid};
use super::patches;
use crate::gemm::Clamp;
use crate::gemm::micro::{Init, Width};
use crate::gemm::{SharedMut, uninit};
use micro::Reduction;
use pack::Packed;
pub(super) use weight_gradient::weight_gradient;

/// Most pixels of a task: its results and pointers stay in L2.
fn tune(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |v| v.parse().unwrap_or(default))
}

/// Steps of the reduction between two visits to the results.

/// Fewer input channels than this are gathered into rows of `k * k * channels` first.
const GATHER_BELOW: usize = 8;

/// `y = clamp(conv(x, w) + bias)`.
pub(super) fn forward(g: &Geometry, x: &[f32], w: &[f32], bias: Option<&[f32]>, clamp: Clamp) -> Vec<f32> {
    let (grid, packed) = (g.forward_grid(), Packed::forward(g, w));
    let mut y = uninit(g.out_pixels() * g.co);
    let output = Output { pixels: SharedMut(y.as_mut_ptr()), channels: g.co, breadth: g.co_group(), bias, clamp };
    let zeros = vec![0.0; g.ci];
    let strips = strips(grid.pixels(g.n));
    let gathered = g.ci_group() < GATHER_BELOW;
    (0..strips.count).into_par_iter().for_each_init(Scratch::default, |scratch, i| {
        let pixels = strips.get(i);
        output.locate(&grid, pixels.clone(), &mut scratch.destinations);
        if !gathered {
            locate_sources(&grid, x, g.ci, &zeros, pixels.clone(), &mut scratch.sources);
        }
        for group in 0..g.groups {
            let channel = if gathered { scratch.gather(g, x, group, pixels.clone()) } else { group * g.ci_group() };
            let taps: Vec<usize> = if gathered { vec![0] } else { (0..g.taps()).collect() };
            let depth = if gathered { g.taps() * g.ci_group() } else { g.ci_group() };
            // SAFETY: sources lie in x, the gathered rows or the zeros; destinations are this strip's pixels of y.
            unsafe { output.compute(group, &packed, depth, &taps, scratch, channel) };
        }
    });
    y
}

/// `dx` from `dy`.
pub(super) fn input_gradient(g: &Geometry, dy: &[f32], w: &[f32]) -> Vec<f32> {
    if g.groups == 1 && g.ci < GATHER_BELOW {
        return scatter::input_gradient(g, dy, w);
    }
    let packed = Packed::input_gradient(g, w);
    let mut dx = uninit(g.in_pixels() * g.ci);
    let pixels = SharedMut(dx.as_mut_ptr());
    let output = Output { pixels, channels: g.ci, breadth: g.ci_group(), bias: None, clamp: Clamp::NONE };
    let zeros = vec![0.0; g.co];
    // Every input pixel belongs to one grid.
    for grid in g.input_gradient_grids() {
        let taps: Vec<usize> = grid.taps.iter().map(|tap| tap.index).collect();
        let strips = strips(grid.pixels(g.n));
        (0..strips.count).into_par_iter().for_each_init(Scratch::default, |scratch, i| {
            let pixels = strips.get(i);
            output.locate(&grid, pixels.clone(), &mut scratch.destinations);
            locate_sources(&grid, dy, g.co, &zeros, pixels, &mut scratch.sources);
            for group in 0..g.groups {
                // SAFETY: sources lie in dy or the zeros; destinations are this strip's pixels of dx.
                unsafe { output.compute(group, &packed, packed.depth(), &taps, scratch, group * g.co_group()) };
            }
        });
    }
    dx
}

/// A run of items cut into nearly equal parts.
struct Strips {
    total: usize,
    count: usize,
}

impl Strips {
    fn get(&self, i: usize) -> std::ops::Range<usize> {
        self.total * i / self.count..self.total * (i + 1) / self.count
    }
}

/// Cuts `pixels` into strips, at least a few for each thread unless they would become tiny.
fn strips(pixels: usize) -> Strips {
    let most = pixels.div_ceil(24);
    Strips {
        total: pixels,
        count: pixels.div_ceil(tune("STRIP", 192)).next_multiple_of(rayon::current_num_threads()).clamp(1, most),
    }
}

/// What a task keeps between strips.
#[derive(Default)]
struct Scratch {
    /// Source pixels, `[tap][pixel]`.
    sources: Vec<*const f32>,
    /// Result pixels.
    destinations: Vec<*mut f32>,
    /// Gathered rows, `[pixel][tap][channel]`.
    rows: Vec<f32>,
}

impl Scratch {
    /// Gathers the rows of `group` and points the sources, one a pixel, to them; returns the channel they start at.
    fn gather(&mut self, g: &Geometry, x: &[f32], group: usize, pixels: std::ops::Range<usize>) -> usize {
        let row = g.taps() * g.ci_group();
        self.rows.resize(pixels.len() * row, 0.0);
        patches::gather(g, x, group, pixels, &mut self.rows);
        self.sources.clear();
        self.sources.extend(self.rows.chunks_exact(row).map(|row| row.as_ptr()));
        0
    }
}

/// Where each tap of each pixel reads, `[tap][pixel]`; `zeros` stand for pixels outside the source.
fn locate_sources(
    grid: &Grid,
    source: &[f32],
    channels: usize,
    zeros: &[f32],
    pixels: std::ops::Range<usize>,
    table: &mut Vec<*const f32>,
) {
    table.clear();
    let outside = zeros.as_ptr();
    for &tap in &grid.taps {
        let inside = grid.inside_cols(tap);
        grid.for_each_run(pixels.clone(), |image, jy, cols| {
            let Some(y) = grid.source_row(tap, jy) else {
                table.extend(cols.map(|_| outside));
                return;
            };
            let row = &source[(image * grid.source.0 + y) * grid.source.1 * channels..][..grid.source.1 * channels];
            let (start, end) = (cols.start.max(inside.start), cols.end.min(inside.end));
            let (start, end) = (start.min(cols.end), end.max(start.min(cols.end)));
            table.extend((cols.start..start).map(|_| outside));
            table.extend((start..end).map(|jx| {
                let x = ((grid.source_step * jx) as isize + tap.dx) as usize;
                row[x * channels..].as_ptr()
            }));
            table.extend((end..cols.end).map(|_| outside));
        });
    }
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
    fn locate(&self, grid: &Grid, pixels: std::ops::Range<usize>, table: &mut Vec<*mut f32>) {
        table.clear();
        grid.for_each_run(pixels, |image, jy, cols| {
            // SAFETY: a grid's positions are pixels of the tensor.
            table.extend(cols.map(|jx| unsafe { self.pixels.at(grid.position(image, jy, jx) * self.channels) }));
        });
    }

    /// Computes the channels of `group` for the pixels of `scratch`.
    ///
    /// # Safety
    /// Every source has `channel + depth` readable elements, and the destinations are this task's pixels.
    unsafe fn compute(
        &self,
        group: usize,
        packed: &Packed,
        depth: usize,
        taps: &[usize],
        scratch: &Scratch,
        channel: usize,
    ) {
        for panel in 0..packed.panels() {
            let (column, width, values) = packed.panel(group, panel);
            let column = group * self.breadth + column;
            let runs = Runs { taps: taps.len(), depth, kc: tune("KC", 128) };
            let count = runs.count();
            for i in 0..count {
                let (tap_run, channels) = runs.get(i);
                let init = match self.bias {
                    _ if i > 0 => Init::Accumulate,
                    Some(bias) => Init::Bias(bias[column..].as_ptr()),
                    None => Init::Zero,
                };
                let clamp = if i + 1 == count { self.clamp } else { Clamp::NONE };
                let rows = scratch.destinations.len();
                let reduction = Reduction {
                    sources: &scratch.sources[tap_run.start * rows..tap_run.end * rows],
                    row_count: rows,
                    channel: channel + channels.start,
                    kc: channels.len(),
                    tap_weights: &tap_offsets(&taps[tap_run], depth, channels.start, width),
                    panel: values.as_ptr(),
                };
                // SAFETY: the caller's duty; the panel has `depth` rows for every tap.
                unsafe { micro::rows(reduction, width, &scratch.destinations, column, init, clamp) };
            }
        }
    }
}

/// Where the weights of `taps` start in a panel, from channel `first`.
fn tap_offsets(taps: &[usize], depth: usize, first: usize, width: Width) -> Vec<usize> {
    taps.iter().map(|tap| (tap * depth + first) * width.vectors() * 16).collect()
}

/// The reduction over `taps` x `depth` in runs of about [`KC`] steps: several taps, or part of one.
struct Runs {
    taps: usize,
    depth: usize,
    kc: usize,
}

impl Runs {
    fn taps_a_run(&self) -> usize {
        (self.kc / self.depth).max(1)
    }

    fn blocks_a_tap(&self) -> usize {
        self.depth.div_ceil(self.kc)
    }

    /// Number of runs; a reduction over nothing still has one, which writes the initial value.
    fn count(&self) -> usize {
        (self.taps.div_ceil(self.taps_a_run()) * self.blocks_a_tap()).max(1)
    }

    /// Taps and channels of run `i`.
    fn get(&self, i: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let (run, block, blocks) = (i / self.blocks_a_tap(), i % self.blocks_a_tap(), self.blocks_a_tap());
        let first = run * self.taps_a_run();
        let taps = first..(first + self.taps_a_run()).min(self.taps);
        (taps, self.depth * block / blocks..self.depth * (block + 1) / blocks)
    }
}
