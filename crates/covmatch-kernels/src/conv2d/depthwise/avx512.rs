//! Depthwise convolution with AVX-512: blocks of a few pixels by up to 64 channels.

use std::arch::x86_64::*;

use super::Weights;
use super::plan::Run;
use crate::gemm::Clamp;
use crate::gemm::micro::{PANEL, Width};

/// A block of a run: pixels `pixel ..` by channels `channel ..`; the last vector has the lanes of `last`.
#[derive(Clone, Copy)]
struct Block<'a> {
    run: &'a Run<'a>,
    pixel: usize,
    channel: usize,
    last: __mmask16,
    /// The tensor that the taps read.
    source: *const f32,
}

/// Calls `$kernel::<pixels, vectors, border>` for each block of a run: as many pixels as leave room in the registers.
macro_rules! for_each_block {
    ($run:expr, $channels:expr, $source:expr, $kernel:ident, $($arg:expr),*) => {
        for channel in (0..$channels).step_by(PANEL) {
            let width = Width::of(PANEL.min($channels - channel));
            let most = [0, 12, 10, 8, 6][width.vectors()];
            let mut pixel = 0;
            while pixel < $run.pixels {
                let left = $run.pixels - pixel;
                let pixels = left.div_ceil(left.div_ceil(most));
                let block = Block { run: $run, pixel, channel, last: width.last(), source: $source };
                for_each_block!(@vectors width, pixels, $run.border, $kernel, block, $($arg),*);
                pixel += pixels;
            }
        }
    };
    (@vectors $width:expr, $pixels:expr, $border:expr, $kernel:ident, $block:expr, $($arg:expr),*) => {
        match $width.vectors() {
            1 => for_each_block!(@pixels 1, $pixels, $border, $kernel, $block, [$($arg),*], 1 2 3 4 5 6 7 8 9 10 11, 12),
            2 => for_each_block!(@pixels 2, $pixels, $border, $kernel, $block, [$($arg),*], 1 2 3 4 5 6 7 8 9, 10),
            3 => for_each_block!(@pixels 3, $pixels, $border, $kernel, $block, [$($arg),*], 1 2 3 4 5 6 7, 8),
            _ => for_each_block!(@pixels 4, $pixels, $border, $kernel, $block, [$($arg),*], 1 2 3 4 5, 6),
        }
    };
    (@pixels $nv:literal, $pixels:expr, $border:expr, $kernel:ident, $block:expr, $args:tt, $($n:literal)*, $most:literal) => {
        match ($pixels, $border) {
            $(
                ($n, false) => for_each_block!(@call $kernel, $n, $nv, false, $block, $args),
                ($n, true) => for_each_block!(@call $kernel, $n, $nv, true, $block, $args),
            )*
            (_, false) => for_each_block!(@call $kernel, $most, $nv, false, $block, $args),
            (_, true) => for_each_block!(@call $kernel, $most, $nv, true, $block, $args),
        }
    };
    (@call $kernel:ident, $n:literal, $nv:literal, $border:literal, $block:expr, [$($arg:expr),*]) => {
        // SAFETY: the caller's duty; the block's pixels and channels are among the run's.
        unsafe { $kernel::<$n, $nv, $border>($block, $($arg),*) }
    };
}

/// # Safety
/// The machine has AVX-512F; the rest as [`super::compute`].
pub(super) unsafe fn compute(run: &Run, weights: &Weights, source: *const f32, out: *mut f32) {
    for_each_block!(run, weights.channels, source, results, weights, out);
}

/// # Safety
/// The machine has AVX-512F; the rest as [`super::add_products`].
pub(super) unsafe fn add_products(
    run: &Run,
    channels: usize,
    source: *const f32,
    gradient: *const f32,
    sum: &mut [f32],
) {
    let sum = sum.as_mut_ptr();
    for_each_block!(run, channels, source, tap_sums, gradient, sum);
}

/// The results of `MR` pixels by `NV` vectors of channels.
///
/// # Safety
/// The machine has AVX-512F. The block lies within its run, and `out` is the run's first pixel. If the results are
/// streamed, every vector of them is one cache line.
#[target_feature(enable = "avx512f")]
unsafe fn results<const MR: usize, const NV: usize, const BORDER: bool>(
    block: Block,
    weights: &Weights,
    out: *mut f32,
) {
    let Block { run, pixel, channel, last, source } = block;
    let step = run.source_step;
    // SAFETY: the caller vouches for the pixels and channels; weights and bias are padded to whole vectors.
    unsafe {
        let bias: [__m512; NV] = std::array::from_fn(|j| _mm512_loadu_ps(weights.bias.as_ptr().add(channel + 16 * j)));
        let mut acc = [bias; MR];
        if let Some(tap) = run.taps.last() {
            // The row that the next row of results needs first.
            let next = source.wrapping_offset(tap.source).wrapping_add(pixel * step + channel + run.next_row);
            for i in 0..MR {
                for j in 0..NV {
                    _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(i * step + 16 * j).cast());
                }
            }
        }
        for tap in run.taps {
            let w = weights.taps.as_ptr().add(tap.weights + channel);
            let w: [__m512; NV] = std::array::from_fn(|j| _mm512_loadu_ps(w.add(16 * j)));
            let source = source.wrapping_offset(tap.source).wrapping_add(pixel * step + channel);
            let mask = tap.mask >> pixel;
            for (i, acc) in acc.iter_mut().enumerate() {
                if !BORDER || mask >> i & 1 == 1 {
                    let source = source.wrapping_add(i * step);
                    for (j, acc) in acc.iter_mut().enumerate() {
                        *acc = _mm512_fmadd_ps(load::<NV>(j, last, source), w[j], *acc);
                    }
                }
            }
        }
        if weights.clamp != Clamp::NONE {
            // The value is the second operand of max and min, which they return when it is NaN.
            let (low, high) = (_mm512_set1_ps(weights.clamp.low), _mm512_set1_ps(weights.clamp.high));
            acc.iter_mut().flatten().for_each(|v| *v = _mm512_min_ps(high, _mm512_max_ps(low, *v)));
        }
        for (i, acc) in acc.iter().enumerate() {
            let out = out.add((pixel + i) * run.step + channel);
            for (j, v) in acc.iter().enumerate() {
                if weights.streamed {
                    _mm512_stream_ps(out.add(16 * j), *v);
                } else if j + 1 == NV {
                    _mm512_mask_storeu_ps(out.add(16 * j), last, *v);
                } else {
                    _mm512_storeu_ps(out.add(16 * j), *v);
                }
            }
        }
    }
}

/// Adds the products of `MR` gradient pixels by `NV` vectors of channels with what each tap reads.
///
/// # Safety
/// The machine has AVX-512F. The block lies within its run, and `gradient` is the run's first pixel; `sum` has whole
/// vectors of lanes for every tap.
#[target_feature(enable = "avx512f")]
unsafe fn tap_sums<const MR: usize, const NV: usize, const BORDER: bool>(
    block: Block,
    gradient: *const f32,
    sum: *mut f32,
) {
    let Block { run, pixel, channel, last, source } = block;
    let step = run.source_step;
    // SAFETY: the caller vouches for the pixels, channels and sums.
    unsafe {
        let gradient = gradient.add(pixel * run.step + channel);
        let d: [[__m512; NV]; MR] =
            std::array::from_fn(|i| std::array::from_fn(|j| load::<NV>(j, last, gradient.add(i * run.step))));
        for tap in run.taps {
            let sum = sum.add(tap.weights + channel);
            let mut acc: [__m512; NV] = std::array::from_fn(|j| _mm512_loadu_ps(sum.add(16 * j)));
            let source = source.wrapping_offset(tap.source).wrapping_add(pixel * step + channel);
            let mask = tap.mask >> pixel;
            for (i, d) in d.iter().enumerate() {
                if !BORDER || mask >> i & 1 == 1 {
                    let source = source.wrapping_add(i * step);
                    for (j, (acc, d)) in acc.iter_mut().zip(d).enumerate() {
                        *acc = _mm512_fmadd_ps(load::<NV>(j, last, source), *d, *acc);
                    }
                }
            }
            for (j, acc) in acc.iter().enumerate() {
                _mm512_storeu_ps(sum.add(16 * j), *acc);
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
