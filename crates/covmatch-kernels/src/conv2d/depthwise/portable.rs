//! Depthwise convolution in plain loops over channels.

use std::ops::Range;

use super::{Run, Weights};
use crate::conv2d::geometry::Geometry;
use crate::gemm::Clamp;
use crate::simd::vectorized;

/// # Safety
/// As [`super::compute`].
pub(super) unsafe fn compute(run: &Run, weights: &Weights) {
    let c = weights.channels;
    for p in 0..run.pixels {
        // SAFETY: the caller vouches for the run's pixels, c elements each.
        let out = unsafe { std::slice::from_raw_parts_mut(run.out.add(p * run.out_step), c) };
        out.copy_from_slice(&weights.bias[..c]);
        for tap in run.taps {
            let source = run.source.wrapping_add(p * run.source_step).wrapping_offset(tap.source);
            // SAFETY: the caller vouches for what the taps read, c elements each.
            let source = unsafe { std::slice::from_raw_parts(source, c) };
            multiply_add(source, &weights.taps[tap.weights..tap.weights + c], out);
        }
        if weights.clamp != Clamp::NONE {
            out.iter_mut().for_each(|v| *v = weights.clamp.apply(*v));
        }
    }
}

pub(super) fn sum_products(
    g: &Geometry,
    x: &[f32],
    dy: &[f32],
    rows: Range<usize>,
    sum: &mut [f32],
    lanes: usize,
) {
    let (grid, c) = (g.forward_grid(), g.ci);
    for row in rows {
        let (image, oy) = (row / g.oh, row % g.oh);
        for &tap in &grid.taps {
            let Some(y) = grid.source_row(tap, oy) else { continue };
            let sum = &mut sum[tap.index * lanes..][..c];
            for ox in grid.inside_cols(tap) {
                let column = ((ox * g.stride) as isize + tap.dx) as usize;
                let x = &x[((image * g.h + y) * g.w + column) * c..][..c];
                multiply_add(x, &dy[(row * g.ow + ox) * c..][..c], sum);
            }
        }
    }
}

vectorized! {
    /// `sum += a * b`
    fn multiply_add(a: &[f32], b: &[f32], sum: &mut [f32]) {
        for ((sum, a), b) in sum.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
}
