//! Depthwise convolution: each channel has its own k x k kernel.
//!
//! There is little arithmetic for each value read, so the work is to keep memory traffic low: channels are contiguous
//! in a pixel, vectors run over channels, and each row of results is finished, with bias and clamping, while the input
//! rows it needs are in cache. Nothing is padded: each tap knows the pixels of a row for which it reads inside.
//!
//! ```text
//! task: rows of a grid of pixels                                      (rayon)
//!   run of pixels of a row; 64 channels; a few pixels
//!     forward, input gradient:  pixels x channels accumulators in registers, over the taps
//!     weight gradient:          the gradient's pixels x channels in registers, a sum for each tap
//! ```
//! The input gradient goes over the grids of
//! [`Geometry::input_gradient_grids`](super::geometry::Geometry::input_gradient_grids).

#[cfg(target_arch = "x86_64")]
mod avx512;
mod plan;
mod portable;

use rayon::prelude::*;

use super::geometry::Geometry;
#[cfg(target_arch = "x86_64")]
use crate::gemm::stream::{finish_streaming, should_stream};
use crate::gemm::{Clamp, SharedMut, uninit};
#[cfg(target_arch = "x86_64")]
use crate::simd::{Level, level};
use plan::{Plan, Run};

/// `y = clamp(conv(x, w) + bias)`.
pub(super) fn forward(g: &Geometry, x: &[f32], w: &[f32], bias: Option<&[f32]>, clamp: Clamp) -> Vec<f32> {
    let mut y = uninit(g.out_pixels() * g.co);
    let weights = Weights::new(g, w, bias, clamp, &y);
    let plan = Plan::new(g.forward_grid(), g.ci, weights.lanes);
    let out = SharedMut(y.as_mut_ptr());
    (0..g.n * g.oh).into_par_iter().with_min_len(4).for_each_init(Vec::new, |taps, row| {
        plan.for_each_run(row / g.oh, row % g.oh, taps, |run| {
            // SAFETY: the run reads pixels of x and writes pixels of y that are this task's.
            unsafe { compute(&run, &weights, x.as_ptr(), out.at(run.pixel)) };
        });
        weights.finish_row();
    });
    y
}

/// `dx` from `dy`.
pub(super) fn input_gradient(g: &Geometry, dy: &[f32], w: &[f32]) -> Vec<f32> {
    let mut dx = uninit(g.in_pixels() * g.ci);
    let weights = Weights::new(g, w, None, Clamp::NONE, &dx);
    let plans: Vec<Plan> =
        g.input_gradient_grids().into_iter().map(|grid| Plan::new(grid, g.ci, weights.lanes)).collect();
    let out = SharedMut(dx.as_mut_ptr());
    // The grids' rows side by side, so that the gradient's rows are read while they are in cache.
    let rows = plans.iter().map(Plan::rows).max().unwrap_or(0);
    (0..g.n * rows).into_par_iter().with_min_len(4).for_each_init(Vec::new, |taps, row| {
        for plan in plans.iter().filter(|plan| row % rows < plan.rows()) {
            plan.for_each_run(row / rows, row % rows, taps, |run| {
                // SAFETY: the run reads pixels of dy; every pixel of dx belongs to one row of one grid.
                unsafe { compute(&run, &weights, dy.as_ptr(), out.at(run.pixel)) };
            });
        }
        weights.finish_row();
    });
    dx
}

/// `dw` `[c, 1, k, k]` from `x` and `dy`: one partial sum a thread, added in order.
pub(super) fn weight_gradient(g: &Geometry, x: &[f32], dy: &[f32]) -> Vec<f32> {
    let lanes = g.ci.next_multiple_of(16);
    let plan = Plan::new(g.forward_grid(), g.ci, lanes);
    let parts = rayon::current_num_threads().min(g.n * g.oh);
    let sums: Vec<Vec<f32>> = (0..parts)
        .into_par_iter()
        .map(|part| {
            let (mut sum, mut taps) = (vec![0.0; g.taps() * lanes], Vec::new());
            for row in g.n * g.oh * part / parts..g.n * g.oh * (part + 1) / parts {
                plan.for_each_run(row / g.oh, row % g.oh, &mut taps, |run| {
                    // SAFETY: the run reads pixels of x, and its own are pixels of dy.
                    unsafe { add_products(&run, g.ci, x.as_ptr(), dy[run.pixel..].as_ptr(), &mut sum) };
                });
            }
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
    /// Whether results are written past the caches.
    streamed: bool,
}

impl Weights {
    /// Weights for computing `out`.
    fn new(g: &Geometry, w: &[f32], bias: Option<&[f32]>, clamp: Clamp, out: &[f32]) -> Self {
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
        #[cfg(target_arch = "x86_64")]
        let streamed = level() == Level::Avx512 && should_stream(out.as_ptr(), channels, out.len());
        #[cfg(not(target_arch = "x86_64"))]
        let streamed = false;
        Self { taps, bias: padded_bias, clamp, channels, lanes, streamed }
    }

    /// Ends a row of results.
    fn finish_row(&self) {
        #[cfg(target_arch = "x86_64")]
        if self.streamed {
            finish_streaming();
        }
    }
}

/// Writes the results of a run to `out`, its first pixel.
///
/// # Safety
/// `source` is the tensor that the run's plan reads, with `weights.channels` channels; the run's pixels are writable
/// from `out` on.
unsafe fn compute(run: &Run, weights: &Weights, source: *const f32, out: *mut f32) {
    #[cfg(target_arch = "x86_64")]
    if level() == Level::Avx512 {
        // SAFETY: the level says that the machine has AVX-512; the rest is the caller's duty.
        return unsafe { avx512::compute(run, weights, source, out) };
    }
    // SAFETY: the caller's duty.
    unsafe { portable::compute(run, weights, source, out) };
}

/// Adds what a run, whose first pixel of the gradient is `gradient`, contributes to the sums `[tap][lanes]`.
///
/// # Safety
/// `source` is the tensor that the run's plan reads, with `channels` channels; the run's pixels are readable from
/// `gradient` on, and `sum` has whole vectors of lanes for every tap.
unsafe fn add_products(run: &Run, channels: usize, source: *const f32, gradient: *const f32, sum: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if level() == Level::Avx512 {
        // SAFETY: the level says that the machine has AVX-512; the rest is the caller's duty.
        return unsafe { avx512::add_products(run, channels, source, gradient, sum) };
    }
    // SAFETY: the caller's duty.
    unsafe { portable::add_products(run, channels, source, gradient, sum) };
}
