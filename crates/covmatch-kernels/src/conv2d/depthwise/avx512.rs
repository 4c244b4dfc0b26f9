//! Depthwise convolution with AVX-512.

use std::arch::x86_64::*;
use std::ops::Range;

use super::{Reach, Run, Weights};
use crate::conv2d::geometry::Geometry;
use crate::gemm::Clamp;
use crate::gemm::micro::{PANEL, Width};

/// # Safety
/// The machine has AVX-512F; the rest as [`super::compute`].
pub(super) unsafe fn compute(run: &Run, weights: &Weights) {
    for channel in (0..weights.channels).step_by(PANEL) {
        let width = Width::of(PANEL.min(weights.channels - channel));
        // Pixels a block: the accumulators and a tap's weights fit the registers.
        let most = [0, 12, 12, 8, 6][width.vectors()];
        let mut pixel = 0;
        while pixel < run.pixels {
            let left = run.pixels - pixel;
            let block = left.div_ceil(left.div_ceil(most));
            let args = Tile { run, weights, pixel, channel, last: width.last() };
            // SAFETY: the caller's duty; the block's pixels and channels are among the run's.
            unsafe {
                match width.vectors() {
                    1 => dispatch::<1>(block, args),
                    2 => dispatch::<2>(block, args),
                    3 => dispatch::<3>(block, args),
                    _ => dispatch::<4>(block, args),
                }
            }
            pixel += block;
        }
    }
}

/// A block of a run: consecutive pixels from `pixel`, channels from `channel`.
#[derive(Clone, Copy)]
struct Tile<'a> {
    run: &'a Run<'a>,
    weights: &'a Weights,
    pixel: usize,
    channel: usize,
    last: __mmask16,
}

/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn dispatch<const NV: usize>(block: usize, args: Tile) {
    // SAFETY: the caller's duty.
    unsafe {
        match block {
            1 => tile::<1, NV>(args),
            2 => tile::<2, NV>(args),
            3 => tile::<3, NV>(args),
            4 => tile::<4, NV>(args),
            5 => tile::<5, NV>(args),
            6 => tile::<6, NV>(args),
            7 => tile::<7, NV>(args),
            8 => tile::<8, NV>(args),
            9 => tile::<9, NV>(args),
            10 => tile::<10, NV>(args),
            11 => tile::<11, NV>(args),
            _ => tile::<12, NV>(args),
        }
    }
}

/// `MR` pixels by `NV` vectors of channels; the last vector has the lanes of `last`.
///
/// # Safety
/// The machine has AVX-512F. The pixels and channels are within the run.
#[target_feature(enable = "avx512f")]
unsafe fn tile<const MR: usize, const NV: usize>(args: Tile) {
    let Tile { run, weights, pixel, channel, last } = args;
    let step = run.source_step;
    let source = run.source.wrapping_add(pixel * step + channel);
    // SAFETY: the caller vouches for the pixels and channels; weights and bias are padded to whole vectors.
    unsafe {
        let bias: [__m512; NV] = std::array::from_fn(|j| _mm512_loadu_ps(weights.bias.as_ptr().add(channel + 16 * j)));
        let mut acc = [bias; MR];
        for &Reach { source: reach, weights: w } in run.taps {
            let (source, w) = (source.wrapping_offset(reach), weights.taps.as_ptr().add(w + channel));
            let w: [__m512; NV] = std::array::from_fn(|j| _mm512_loadu_ps(w.add(16 * j)));
            for (i, acc) in acc.iter_mut().enumerate() {
                let source = source.add(i * step);
                for (j, (v, w)) in acc.iter_mut().zip(w).enumerate() {
                    *v = _mm512_fmadd_ps(load::<NV>(j, last, source), w, *v);
                }
            }
        }
        if weights.clamp != Clamp::NONE {
            // The value is the second operand of max and min, which they return when it is NaN.
            let (low, high) = (_mm512_set1_ps(weights.clamp.low), _mm512_set1_ps(weights.clamp.high));
            acc.iter_mut().flatten().for_each(|v| *v = _mm512_min_ps(high, _mm512_max_ps(low, *v)));
        }
        for (i, acc) in acc.iter().enumerate() {
            let out = run.out.add((pixel + i) * run.out_step + channel);
            for (j, v) in acc.iter().enumerate() {
                if j + 1 == NV {
                    _mm512_mask_storeu_ps(out.add(16 * j), last, *v);
                } else {
                    _mm512_storeu_ps(out.add(16 * j), *v);
                }
            }
        }
    }
}

/// Vector `j` of `NV` from `source`, the last one with the lanes of `last`.
///
/// # Safety
/// The machine has AVX-512F, and the lanes are readable.
#[inline(always)]
unsafe fn load<const NV: usize>(j: usize, last: __mmask16, source: *const f32) -> __m512 {
    // SAFETY: the caller's duty.
    unsafe {
        let source = source.add(16 * j);
        if j + 1 == NV { _mm512_maskz_loadu_ps(last, source) } else { _mm512_loadu_ps(source) }
    }
}

/// Adds `x[source(p, tap), c] * dy[p, c]` over the pixels of output rows `rows` to `sum` `[tap][lanes]`, for k = 3 or 5.
///
/// # Safety
/// The machine has AVX-512F.
pub(super) unsafe fn sum_products(
    g: &Geometry,
    x: &[f32],
    dy: &[f32],
    rows: Range<usize>,
    sum: &mut [f32],
    lanes: usize,
) {
    assert!(sum.len() == g.taps() * lanes && x.len() == g.in_pixels() * g.ci && dy.len() == g.out_pixels() * g.co);
    // An image at a time, so that it stays in cache while the channels pass.
    let mut start = rows.start;
    while start < rows.end {
        let end = ((start / g.oh + 1) * g.oh).min(rows.end);
        let mut channel = 0;
        while channel < g.ci {
            let left = g.ci - channel;
            // The k x k sums of one vector of channels, or two, fit the registers.
            let vectors = if g.k == 3 && left > 16 { 2 } else { 1 };
            let last = (0xffff_u32 >> (16 * vectors - left.min(16 * vectors))) as __mmask16;
            let args = (g, x, dy, start..end, channel, last, &mut *sum, lanes);
            // SAFETY: the caller's duty.
            unsafe {
                match (g.k, vectors) {
                    (3, 1) => window_sums::<3, 1>(args),
                    (3, _) => window_sums::<3, 2>(args),
                    _ => window_sums::<5, 1>(args),
                }
            }
            channel += 16 * vectors;
        }
        start = end;
    }
}

type SumArgs<'a> = (&'a Geometry, &'a [f32], &'a [f32], Range<usize>, usize, __mmask16, &'a mut [f32], usize);

/// The sums of `NV` vectors of channels over rows of one image, held in registers throughout.
///
/// # Safety
/// The machine has AVX-512F; the slices have the geometry's sizes.
#[target_feature(enable = "avx512f")]
unsafe fn window_sums<const K: usize, const NV: usize>(args: SumArgs) {
    let (g, x, dy, rows, channel, last, sum, lanes) = args;
    let mut acc = [[[_mm512_setzero_ps(); NV]; K]; K];
    // Columns whose whole window is inside.
    let (inner_start, inner_end) = (g.left.div_ceil(g.stride), (g.w + g.left + g.stride).saturating_sub(K) / g.stride);
    let inner = inner_start..inner_end.min(g.ow);
    let row_len = g.w * g.ci;
    for row in rows {
        let (image, oy) = (row / g.oh, row % g.oh);
        let top = (oy * g.stride) as isize - g.top as isize;
        let whole = top >= 0 && top as usize + K <= g.h;
        let image_x = x[image * g.h * row_len..].as_ptr();
        for ox in 0..g.ow {
            let left = (ox * g.stride) as isize - g.left as isize;
            let corner = image_x.wrapping_offset((top * g.w as isize + left) * g.ci as isize + channel as isize);
            // SAFETY: dy has the pixel (row, ox), and the mask keeps to its channels.
            let d: [__m512; NV] = unsafe {
                let dy = dy.as_ptr().add((row * g.ow + ox) * g.ci + channel);
                std::array::from_fn(|j| load::<NV>(j, last, dy))
            };
            if whole && inner.contains(&ox) {
                for (ky, acc) in acc.iter_mut().enumerate() {
                    for (kx, acc) in acc.iter_mut().enumerate() {
                        let source = corner.wrapping_add(ky * row_len + kx * g.ci);
                        for (j, (v, d)) in acc.iter_mut().zip(d).enumerate() {
                            // SAFETY: the window lies inside the image, and the mask keeps to its channels.
                            *v = _mm512_fmadd_ps(unsafe { load::<NV>(j, last, source) }, d, *v);
                        }
                    }
                }
            } else {
                let inside = |from: isize, tap: usize, size: usize| {
                    if (0..size as isize).contains(&(from + tap as isize)) { 0xffff } else { 0 }
                };
                let columns: [__mmask16; K] = std::array::from_fn(|kx| inside(left, kx, g.w));
                for (ky, acc) in acc.iter_mut().enumerate() {
                    let in_row: __mmask16 = inside(top, ky, g.h);
                    for (kx, acc) in acc.iter_mut().enumerate() {
                        let source = corner.wrapping_add(ky * row_len + kx * g.ci);
                        for (j, (v, d)) in acc.iter_mut().zip(d).enumerate() {
                            let mask = columns[kx] & in_row & if j + 1 == NV { last } else { 0xffff };
                            // SAFETY: the mask is empty outside the image and keeps to the channels inside.
                            let value = unsafe { _mm512_maskz_loadu_ps(mask, source.wrapping_add(16 * j)) };
                            *v = _mm512_fmadd_ps(value, d, *v);
                        }
                    }
                }
            }
        }
    }
    for (tap, acc) in acc.iter().flatten().enumerate() {
        for (j, v) in acc.iter().enumerate() {
            let sum = sum[tap * lanes + channel + 16 * j..][..16].as_mut_ptr();
            // SAFETY: the slice has 16 elements.
            unsafe { _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_loadu_ps(sum), *v)) };
        }
    }
}
