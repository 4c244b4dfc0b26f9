//! The AVX-512 micro-kernels of direct convolution.
//!
//! They are those of a matrix product, except that the rows of A are found through pointers: a pixel's row is made of
//! the input pixels under the kernel, which lie wherever they lie, and those outside the image point to zeros. So
//! neither padding nor a stride costs a copy of the input.

use std::arch::x86_64::*;

use crate::gemm::Clamp;
use crate::gemm::micro::{Init, Width};

/// A run of the reduction: `taps` source pixels a row, `kc` channels of each, and the matching rows of a packed panel.
#[derive(Clone, Copy)]
pub(super) struct Reduction<'a> {
    /// Source pixels, `[tap][row]`: `sources[tap * row_count + row]`.
    pub(super) sources: &'a [*const f32],
    /// Rows of the table.
    pub(super) row_count: usize,
    /// Channels to skip from where a source points.
    pub(super) channel: usize,
    /// Channels a tap.
    pub(super) kc: usize,
    /// Where each tap's weights, `[kc][width]`, start in the panel.
    pub(super) tap_weights: &'a [usize],
    /// The packed panel.
    pub(super) panel: *const f32,
}

/// Computes all rows of `reduction` into the pixels `destinations`, `channel` elements on, in blocks that fit the registers.
///
/// ```text
/// C[row, ..] (+)= sum over taps, over l < kc:  source[tap, row][channel + l] * panel[tap][l][..]
/// ```
/// # Safety
/// The machine has AVX-512F. Every source has `channel + kc` readable elements, the panel what the reduction says, and
/// every destination is writable for the panel's columns and holds values for [`Init::Accumulate`].
pub(super) unsafe fn rows(
    reduction: Reduction,
    width: Width,
    destinations: &[*mut f32],
    channel: usize,
    init: Init,
    clamp: Clamp,
) {
    let n = destinations.len();
    // Rows a block: accumulators fit the vector registers and row pointers the general ones.
    let most = [0, 10, 8, 8, 6][width.vectors()];
    let mut row = 0;
    while row < n {
        let left = n - row;
        let block = left.div_ceil(left.div_ceil(most));
        // SAFETY: the caller's duty; the rows of the block are among the table's.
        unsafe {
            match width.vectors() {
                1 => dispatch::<1>(block, row, reduction, width, destinations, channel, init, clamp),
                2 => dispatch::<2>(block, row, reduction, width, destinations, channel, init, clamp),
                3 => dispatch::<3>(block, row, reduction, width, destinations, channel, init, clamp),
                _ => dispatch::<4>(block, row, reduction, width, destinations, channel, init, clamp),
            }
        }
        row += block;
    }
}

/// # Safety
/// As [`rows`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn dispatch<const NV: usize>(
    block: usize,
    row: usize,
    reduction: Reduction,
    width: Width,
    destinations: &[*mut f32],
    channel: usize,
    init: Init,
    clamp: Clamp,
) {
    // SAFETY: the caller's duty.
    unsafe {
        match block {
            1 => tile::<1, NV>(row, reduction, width, destinations, channel, init, clamp),
            2 => tile::<2, NV>(row, reduction, width, destinations, channel, init, clamp),
            3 => tile::<3, NV>(row, reduction, width, destinations, channel, init, clamp),
            4 => tile::<4, NV>(row, reduction, width, destinations, channel, init, clamp),
            5 => tile::<5, NV>(row, reduction, width, destinations, channel, init, clamp),
            6 => tile::<6, NV>(row, reduction, width, destinations, channel, init, clamp),
            7 => tile::<7, NV>(row, reduction, width, destinations, channel, init, clamp),
            8 => tile::<8, NV>(row, reduction, width, destinations, channel, init, clamp),
            9 => tile::<9, NV>(row, reduction, width, destinations, channel, init, clamp),
            _ => tile::<10, NV>(row, reduction, width, destinations, channel, init, clamp),
        }
    }
}

/// One block of `MR` rows by `NV` vectors.
///
/// # Safety
/// As [`rows`], for rows `row .. row + MR`.
#[target_feature(enable = "avx512f")]
unsafe fn tile<const MR: usize, const NV: usize>(
    row: usize,
    reduction: Reduction,
    width: Width,
    destinations: &[*mut f32],
    channel: usize,
    init: Init,
    clamp: Clamp,
) {
    let Reduction { sources, row_count, channel: source_channel, kc, tap_weights, panel } = reduction;
    let mask = |j: usize| if j + 1 == NV { width.last() } else { 0xffff };
    let mut acc = [[_mm512_setzero_ps(); NV]; MR];
    // SAFETY: the caller vouches for every address below.
    unsafe {
        let c: [*mut f32; MR] = std::array::from_fn(|i| destinations.get_unchecked(row + i).add(channel));
        match init {
            Init::Zero => {}
            Init::Bias(bias) => {
                let bias: [__m512; NV] = std::array::from_fn(|j| _mm512_maskz_loadu_ps(mask(j), bias.add(16 * j)));
                acc = [bias; MR];
            }
            Init::Accumulate => {
                for (row, c) in acc.iter_mut().zip(c) {
                    for (j, v) in row.iter_mut().enumerate() {
                        *v = _mm512_maskz_loadu_ps(mask(j), c.add(16 * j));
                    }
                }
            }
        }
        for (tap, &weights) in tap_weights.iter().enumerate() {
            let first = tap * row_count + row;
            let a: [*const f32; MR] = std::array::from_fn(|i| sources.get_unchecked(first + i).add(source_channel));
            let b = panel.add(weights);
            let mut step = |l: usize| {
                let vb: [__m512; NV] = std::array::from_fn(|j| _mm512_loadu_ps(b.add(16 * (l * NV + j))));
                for (row, a) in acc.iter_mut().zip(a) {
                    let va = _mm512_set1_ps(*a.add(l));
                    for (v, vb) in row.iter_mut().zip(vb) {
                        *v = _mm512_fmadd_ps(va, vb, *v);
                    }
                }
            };
            let unrolled = kc / 4 * 4;
            for l in (0..unrolled).step_by(4) {
                step(l);
                step(l + 1);
                step(l + 2);
                step(l + 3);
            }
            (unrolled..kc).for_each(step);
        }
        if clamp != Clamp::NONE {
            // The value is the second operand of max and min, which they return when it is NaN.
            let (low, high) = (_mm512_set1_ps(clamp.low), _mm512_set1_ps(clamp.high));
            acc.iter_mut().flatten().for_each(|v| *v = _mm512_min_ps(high, _mm512_max_ps(low, *v)));
        }
        for (row, c) in acc.iter().zip(c) {
            for (j, v) in row.iter().enumerate() {
                _mm512_mask_storeu_ps(c.add(16 * j), mask(j), *v);
            }
        }
    }
}

/// Adds the outer products of source pixels and gradient pixels to `sum` `[channels][16 * width.vectors()]`:
///
/// ```text
/// sum[i, ..] += sum over pixels p:  sources[p][channel + i] * gradient[p * gradient_row ..][..columns]
/// ```
/// # Safety
/// The machine has AVX-512F. Every source has `channel + channels` readable elements, every row of the gradient the
/// panel's columns, and `sum` has `channels` rows.
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn outer_products(
    channels: usize,
    width: Width,
    sources: &[*const f32],
    channel: usize,
    gradient: *const f32,
    gradient_row: usize,
    sum: *mut f32,
) {
    let most = [0, 12, 12, 8, 6][width.vectors()];
    let mut i = 0;
    while i < channels {
        let left = channels - i;
        let block = left.div_ceil(left.div_ceil(most));
        let args = (sources, channel + i, gradient, gradient_row, sum.wrapping_add(i * 16 * width.vectors()), width);
        // SAFETY: the caller's duty; channels i .. i + block are among the given.
        unsafe {
            match width.vectors() {
                1 => dispatch_outer::<1>(block, args),
                2 => dispatch_outer::<2>(block, args),
                3 => dispatch_outer::<3>(block, args),
                _ => dispatch_outer::<4>(block, args),
            }
        }
        i += block;
    }
}

type OuterArgs<'a> = (&'a [*const f32], usize, *const f32, usize, *mut f32, Width);

/// # Safety
/// As [`outer_products`].
#[inline(always)]
unsafe fn dispatch_outer<const NV: usize>(block: usize, args: OuterArgs) {
    // SAFETY: the caller's duty.
    unsafe {
        match block {
            1 => outer_tile::<1, NV>(args),
            2 => outer_tile::<2, NV>(args),
            3 => outer_tile::<3, NV>(args),
            4 => outer_tile::<4, NV>(args),
            5 => outer_tile::<5, NV>(args),
            6 => outer_tile::<6, NV>(args),
            7 => outer_tile::<7, NV>(args),
            8 => outer_tile::<8, NV>(args),
            9 => outer_tile::<9, NV>(args),
            10 => outer_tile::<10, NV>(args),
            11 => outer_tile::<11, NV>(args),
            _ => outer_tile::<12, NV>(args),
        }
    }
}

/// One block of `MR` channels by `NV` vectors.
///
/// # Safety
/// As [`outer_products`].
#[target_feature(enable = "avx512f")]
unsafe fn outer_tile<const MR: usize, const NV: usize>(args: OuterArgs) {
    let (sources, channel, gradient, gradient_row, sum, width) = args;
    let last = width.last();
    // SAFETY: the caller vouches for every address below.
    unsafe {
        let mut acc: [[__m512; NV]; MR] =
            std::array::from_fn(|i| std::array::from_fn(|j| _mm512_loadu_ps(sum.add((i * NV + j) * 16))));
        let mut row = gradient;
        for source in sources {
            let source = source.add(channel);
            let vb: [__m512; NV] = std::array::from_fn(|j| {
                if j + 1 == NV {
                    _mm512_maskz_loadu_ps(last, row.add(16 * j))
                } else {
                    _mm512_loadu_ps(row.add(16 * j))
                }
            });
            for (i, acc) in acc.iter_mut().enumerate() {
                let va = _mm512_set1_ps(*source.add(i));
                for (v, vb) in acc.iter_mut().zip(vb) {
                    *v = _mm512_fmadd_ps(va, vb, *v);
                }
            }
            row = row.wrapping_add(gradient_row);
        }
        for (i, acc) in acc.iter().enumerate() {
            for (j, v) in acc.iter().enumerate() {
                _mm512_storeu_ps(sum.add((i * NV + j) * 16), *v);
            }
        }
    }
}
