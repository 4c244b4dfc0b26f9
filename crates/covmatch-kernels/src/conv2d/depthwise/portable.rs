//! Depthwise convolution in plain loops over channels.

use super::Weights;
use super::plan::{Reach, Run};
use crate::gemm::Clamp;
use crate::simd::vectorized;

/// # Safety
/// As [`super::compute`].
pub(super) unsafe fn compute(run: &Run, weights: &Weights, source: *const f32, out: *mut f32) {
    let c = weights.channels;
    for pixel in 0..run.pixels {
        // SAFETY: the caller vouches for the run's pixels, c elements each.
        let out = unsafe { std::slice::from_raw_parts_mut(out.add(pixel * run.step), c) };
        out.copy_from_slice(&weights.bias[..c]);
        for tap in serving(run, pixel) {
            // SAFETY: the caller vouches for what the taps read.
            let source = unsafe { source_pixel(run, tap, pixel, source, c) };
            multiply_add(source, &weights.taps[tap.weights..tap.weights + c], out);
        }
        if weights.clamp != Clamp::NONE {
            out.iter_mut().for_each(|v| *v = weights.clamp.apply(*v));
        }
    }
}

/// # Safety
/// As [`super::add_products`].
pub(super) unsafe fn add_products(run: &Run, c: usize, source: *const f32, gradient: *const f32, sum: &mut [f32]) {
    for pixel in 0..run.pixels {
        // SAFETY: the caller vouches for the run's pixels, c elements each.
        let gradient = unsafe { std::slice::from_raw_parts(gradient.add(pixel * run.step), c) };
        for tap in serving(run, pixel) {
            // SAFETY: the caller vouches for what the taps read.
            let source = unsafe { source_pixel(run, tap, pixel, source, c) };
            multiply_add(source, gradient, &mut sum[tap.weights..tap.weights + c]);
        }
    }
}

/// The taps that read inside for a pixel of the run.
fn serving<'a>(run: &'a Run, pixel: usize) -> impl Iterator<Item = &'a Reach> {
    run.taps.iter().filter(move |tap| !run.border || tap.mask >> pixel & 1 == 1)
}

/// What `tap` reads for a pixel of the run, `c` values.
///
/// # Safety
/// The tap serves the pixel, and `source` is the tensor that the run's plan reads.
unsafe fn source_pixel<'a>(run: &Run, tap: &Reach, pixel: usize, source: *const f32, c: usize) -> &'a [f32] {
    // SAFETY: the caller's duty.
    unsafe { std::slice::from_raw_parts(source.offset(tap.source + (pixel * run.source_step) as isize), c) }
}

vectorized! {
    /// `sum += a * b`
    fn multiply_add(a: &[f32], b: &[f32], sum: &mut [f32]) {
        for ((sum, a), b) in sum.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
}
