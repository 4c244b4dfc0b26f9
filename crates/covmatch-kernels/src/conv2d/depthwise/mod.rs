//! Depthwise convolution: each channel has its own k x k kernel.
//!
//! There is little arithmetic for each value read, so the work is to keep memory traffic low: channels are contiguous
//! in a pixel, vectors run over channels, and each row of results is finished, with bias and clamping, while the input
//! rows it needs are in cache. Borders are not padded: pixels there use the taps that fall inside.
//!
//! The input gradient is the same row by row computation over the grids of
//! [`Geometry::input_gradient_grids`](super::geometry::Geometry::input_gradient_grids).

#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use std::ops::Range;

use rayon::prelude::*;

use super::geometry::{Geometry, Grid};
use crate::gemm::Clamp;
use crate::gemm::{SharedMut, uninit};
use crate::simd::{Level, level};

/// `y = clamp(conv(x, w) + bias)`.
pub(super) fn forward(g: &Geometry, x: &[f32], w: &[f32], bias: Option<&[f32]>, clamp: Clamp) -> Vec<f32> {
    let weights = Weights::new(g, w, bias, clamp);
    let mut y = uninit(g.out_pixels() * g.co);
    convolve(g.n, &g.forward_grid(), x, &weights, SharedMut(y.as_mut_ptr()));
    y
}

/// `dx` from `dy`.
pub(super) fn input_gradient(g: &Geometry, dy: &[f32], w: &[f32]) -> Vec<f32> {
    let weights = Weights::new(g, w, None, Clamp::NONE);
    let mut dx = uninit(g.in_pixels() * g.ci);
    let out = SharedMut(dx.as_mut_ptr());
    // Rows of all grids of an image row after another, so that the gradient is read from memory once.
    let grids = g.input_gradient_grids();
    (0..g.n).into_par_iter().for_each_init(Vec::new, |taps, image| {
        for jy in 0..grids.iter().map(|grid| grid.rows).max().unwrap_or(0) {
            for grid in grids.iter().filter(|grid| jy < grid.rows) {
                // SAFETY: every input pixel belongs to one grid, and this task has the image to itself.
                unsafe { row(grid, image, jy, dy, &weights, out, taps) };
            }
        }
    });
    dx
}

/// `dw` `[c, 1, k, k]` from `x` and `dy`: one partial sum a thread, added in order.
pub(super) fn weight_gradient(g: &Geometry, x: &[f32], dy: &[f32]) -> Vec<f32> {
    let lanes = g.ci.next_multiple_of(16);
    let parts = rayon::current_num_threads().min(g.n * g.oh);
    let sums: Vec<Vec<f32>> = (0..parts)
        .into_par_iter()
        .map(|part| {
            let rows = g.n * g.oh * part / parts..g.n * g.oh * (part + 1) / parts;
            let mut sum = vec![0.0; g.taps() * lanes];
            sum_products(g, x, dy, rows, &mut sum, lanes);
            sum
        })
        .collect();
    let mut dw = uninit(g.ci * g.taps());
    for (c, dw) in dw.chunks_exact_mut(g.taps()).enumerate() {
        for (tap, v) in dw.iter_mut().enumerate() {
            *v = sums.iter().map(|sum| sum[tap * lanes + c]).sum();
        }
    }
    dw
}

/// Adds `x[source(p, tap), c] * dy[p, c]` over the pixels of output rows `rows` to `sum` `[tap][lanes]`.
fn sum_products(g: &Geometry, x: &[f32], dy: &[f32], rows: Range<usize>, sum: &mut [f32], lanes: usize) {
    #[cfg(target_arch = "x86_64")]
    if level() == Level::Avx512 && matches!(g.k, 3 | 5) {
        // SAFETY: the level says that the machine has AVX-512.
        return unsafe { avx512::sum_products(g, x, dy, rows, sum, lanes) };
    }
    portable::sum_products(g, x, dy, rows, sum, lanes);
}

/// Weights by tap, with what is added and the bounds of the result.
struct Weights {
    /// `[tap][lanes]`
    taps: Vec<f32>,
    /// `[lanes]`
    bias: Vec<f32>,
    clamp: Clamp,
    channels: usize,
    /// Channels rounded up to whole vectors.
    lanes: usize,
}

impl Weights {
    fn new(g: &Geometry, w: &[f32], bias: Option<&[f32]>, clamp: Clamp) -> Self {
        let (channels, lanes) = (g.ci, g.ci.next_multiple_of(16));
        let mut taps = vec![0.0; g.taps() * lanes];
        for (c, w) in w.chunks_exact(g.taps()).enumerate() {
            for (tap, v) in w.iter().enumerate() {
                taps[tap * lanes + c] = *v;
            }
        }
        let mut padded_bias = vec![0.0; lanes];
        if let Some(bias) = bias {
            padded_bias[..channels].copy_from_slice(bias);
        }
        Self { taps, bias: padded_bias, clamp, channels, lanes }
    }
}

/// Computes the pixels of `grid` from `source`.
fn convolve(n: usize, grid: &Grid, source: &[f32], weights: &Weights, out: SharedMut) {
    (0..n * grid.rows).into_par_iter().with_min_len(grid.rows.min(4)).for_each_init(Vec::new, |taps, i| {
        // SAFETY: each task has its own rows of the grid.
        unsafe { row(grid, i / grid.rows, i % grid.rows, source, weights, out, taps) };
    });
}

/// A tap inside the source: elements from the first pixel of the source row to what it reads, and its weights.
#[derive(Clone, Copy)]
struct Reach {
    source: isize,
    weights: usize,
}

/// A run of pixels that use the same taps.
struct Run<'a> {
    pixels: usize,
    taps: &'a [Reach],
    /// Source pixel of the first pixel, before the taps' reach; it may lie outside, what the taps read does not.
    source: *const f32,
    /// Elements from one pixel's source to the next.
    source_step: usize,
    out: *mut f32,
    out_step: usize,
}

/// Computes row `j_y` of `grid` in one image.
///
/// # Safety
/// `out` has the grid's images of `weights.channels` channels, and this row of the grid is the caller's.
unsafe fn row(
    grid: &Grid,
    image: usize,
    jy: usize,
    source: &[f32],
    weights: &Weights,
    out: SharedMut,
    taps: &mut Vec<Reach>,
) {
    let c = weights.channels;
    let image_source = source[image * grid.source.0 * grid.source.1 * c..].as_ptr();
    // Columns for which every tap is inside; the others, at the borders, go one by one.
    let inner = grid.taps.iter().fold(0..grid.cols, |inner, tap| {
        let inside = grid.inside_cols(*tap);
        inner.start.max(inside.start)..inner.end.min(inside.end)
    });
    let mut jx = 0;
    while jx < grid.cols {
        let end = if inner.contains(&jx) { inner.end } else { jx + 1 };
        taps.clear();
        for &tap in &grid.taps {
            if let Some(y) = grid.source_row(tap, jy)
                && grid.inside_cols(tap).contains(&jx)
            {
                let source = (y * grid.source.1) as isize + tap.dx;
                taps.push(Reach { source: source * c as isize, weights: tap.index * weights.lanes });
            }
        }
        let run = Run {
            pixels: end - jx,
            taps,
            source: image_source.wrapping_add(jx * grid.source_step * c),
            source_step: grid.source_step * c,
            // SAFETY: a grid's positions are pixels of the image.
            out: unsafe { out.at(grid.position(image, jy, jx) * c) },
            out_step: grid.step * c,
        };
        // SAFETY: the taps of the run read pixels inside the source, and its pixels are the caller's.
        unsafe { compute(&run, weights) };
        jx = end;
    }
}

/// # Safety
/// The taps of the run read pixels of `weights.channels` readable elements; its output pixels are writable.
unsafe fn compute(run: &Run, weights: &Weights) {
    #[cfg(target_arch = "x86_64")]
    if level() == Level::Avx512 {
        // SAFETY: the level says that the machine has AVX-512; the rest is the caller's duty.
        return unsafe { avx512::compute(run, weights) };
    }
    // SAFETY: the caller's duty.
    unsafe { portable::compute(run, weights) };
}
