//! The AVX-512 micro-kernels of direct convolution.
//!
//! They are those of a matrix product, except that the rows of A are found through pointers: a pixel's row is made of
//! the input pixels under the kernel, which lie wherever they lie, and those outside the image point to zeros. So
//! neither padding nor a stride costs a copy of the input.

use std::arch::x86_64::*;

use crate::gemm::Clamp;
use crate::gemm::micro::{Init, Width, blocks, dispatch};

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

/// Pixels by a panel of channels, and what they are computed from.
///
/// ```text
/// C[row, ..] (+)= sum over taps, over l < kc:  source[tap, row][channel + l] * panel[tap][l][..]
/// ```
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// What is summed.
    pub(super) reduction: Reduction<'a>,
    /// Channels of the panel.
    pub(super) width: Width,
    /// Pixels of the result.
    pub(super) destinations: &'a [*mut f32],
    /// The panel's first channel in a pixel.
    pub(super) channel: usize,
    /// What the accumulators start from.
    pub(super) init: Init,
    /// What the sums are clamped to.
    pub(super) clamp: Clamp,
}

impl Rows<'_> {
    /// Computes the pixels, in blocks that fit the registers: accumulators the vector ones, pointers the general ones.
    ///
    /// # Safety
    /// The machine has AVX-512F. Every source has `channel + kc` readable elements, the panel what the reduction says,
    /// and every destination is writable for the panel's columns and holds values for [`Init::Accumulate`].
    pub(super) unsafe fn compute(&self) {
        for rows in blocks(self.destinations.len(), [0, 10, 8, 8, 6][self.width.vectors()]) {
            // SAFETY: the caller's duty; the rows of the block are among the table's.
            unsafe { dispatch!(tile, rows.len(), self.width.vectors(), (self, rows.start)) }
        }
    }
}

/// One block of `MR` rows by `NV` vectors.
///
/// # Safety
/// As [`Rows::compute`], for rows `row .. row + MR`.
#[target_feature(enable = "avx512f")]
unsafe fn tile<const MR: usize, const NV: usize>((rows, row): (&Rows, usize)) {
    let Rows { reduction, width, destinations, channel, init, clamp } = *rows;
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

/// Outer products of source pixels and gradient pixels, and the sum that they are added to:
///
/// ```text
/// sum[i, ..] += sum over pixels p:  sources[p][channel + i] * gradient[p * gradient_row ..][..columns]
/// ```
#[derive(Clone, Copy)]
pub(in crate::conv2d) struct OuterProducts<'a> {
    /// Channels of the sources that take part.
    pub(in crate::conv2d) channels: usize,
    /// Columns of the gradient.
    pub(in crate::conv2d) width: Width,
    /// Source pixels.
    pub(in crate::conv2d) sources: &'a [*const f32],
    /// The first channel.
    pub(in crate::conv2d) channel: usize,
    /// The first gradient pixel.
    pub(in crate::conv2d) gradient: *const f32,
    /// Elements from one gradient pixel to the next.
    pub(in crate::conv2d) gradient_row: usize,
    /// `[channels][16 * width.vectors()]`.
    pub(in crate::conv2d) sum: *mut f32,
}

impl OuterProducts<'_> {
    /// Adds them.
    ///
    /// # Safety
    /// The machine has AVX-512F. Every source has `channel + channels` readable elements, every row of the gradient the
    /// panel's columns, and `sum` has `channels` rows.
    pub(in crate::conv2d) unsafe fn add(&self) {
        for block in blocks(self.channels, [0, 12, 12, 8, 6][self.width.vectors()]) {
            // SAFETY: the caller's duty; the channels of the block are among the given.
            unsafe { dispatch!(outer_tile, block.len(), self.width.vectors(), (self, block.start)) }
        }
    }
}

/// One block of `MR` channels by `NV` vectors.
///
/// # Safety
/// As [`OuterProducts::add`], for channels `first .. first + MR`.
#[target_feature(enable = "avx512f")]
unsafe fn outer_tile<const MR: usize, const NV: usize>((products, first): (&OuterProducts, usize)) {
    let OuterProducts { width, sources, channel, gradient, gradient_row, sum, .. } = *products;
    let (channel, sum, last) = (channel + first, sum.wrapping_add(first * 16 * NV), width.last());
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
