//! Convolution by patches (im2col): the pixels under the kernel are gathered into the rows of a matrix, and the
//! convolution is a matrix product. Runs on any machine; with AVX-512 there is a faster way ([`super::direct`]).

use std::ops::Range;

use rayon::prelude::*;

use super::geometry::Geometry;
use crate::gemm::Clamp;
use crate::gemm::{Matrix, Start, product, uninit};

/// Gathers the patches of `pixels` (output pixels of the batch) for one group: `[pixel][tap][channel]`.
fn gather(g: &Geometry, x: &[f32], group: usize, pixels: Range<usize>, out: &mut [f32]) {
    let (ci, row_len) = (g.ci_group(), g.w * g.ci);
    let patch = g.taps() * ci;
    let mut start = pixels.start;
    while start < pixels.end {
        // Pixels of one output row.
        let (output_row, ox) = (start / g.ow, start % g.ow);
        let (image, oy) = (output_row / g.oh, output_row % g.oh);
        let len = (g.ow - ox).min(pixels.end - start);
        let out = &mut out[(start - pixels.start) * patch..][..len * patch];
        let rows = Window::new(oy * g.stride, g.top, g.h, g.k);
        for ky in 0..g.k {
            let outs = out.chunks_exact_mut(patch).map(|out| &mut out[ky * g.k * ci..(ky + 1) * g.k * ci]);
            if !rows.taps.contains(&ky) {
                outs.for_each(|out| out.fill(0.0));
                continue;
            }
            let y = oy * g.stride + ky - g.top;
            let x = &x[(image * g.h + y) * row_len..][..row_len];
            for (out, ox) in outs.zip(ox..) {
                let first = ox * g.stride;
                if g.groups == 1 && first >= g.left && first - g.left + g.k <= g.w {
                    out.copy_from_slice(&x[(first - g.left) * ci..][..g.k * ci]);
                    continue;
                }
                let columns = Window::new(first, g.left, g.w, g.k);
                out.fill(0.0);
                for (j, kx) in columns.taps.enumerate() {
                    let pixel = (columns.first + j) * g.ci + group * ci;
                    out[kx * ci..(kx + 1) * ci].copy_from_slice(&x[pixel..pixel + ci]);
                }
            }
        }
        start += len;
    }
}

/// Where a window of the kernel lies along one dimension.
struct Window {
    /// Positions of the kernel inside the image.
    taps: Range<usize>,
    /// What the first of them reads.
    first: usize,
}

impl Window {
    /// The window whose first position reads `start - pad` of `size`.
    #[inline(always)]
    fn new(start: usize, pad: usize, size: usize, k: usize) -> Self {
        let first = pad.saturating_sub(start).min(k);
        let end = (size + pad).saturating_sub(start).min(k).max(first);
        Self { taps: first..end, first: (start + first).saturating_sub(pad) }
    }
}

/// Weights of a group `[co, ci, tap]` as `[co][tap][ci]`.
fn group_weights(g: &Geometry, w: &[f32], group: usize) -> Vec<f32> {
    let (ci, taps, len) = (g.ci_group(), g.taps(), g.co_group() * g.ci_group() * g.taps());
    let mut out = uninit(len);
    for (w, out) in w[group * len..][..len].chunks_exact(ci * taps).zip(out.chunks_exact_mut(ci * taps)) {
        for (j, v) in out.iter_mut().enumerate() {
            *v = w[j % ci * taps + j / ci];
        }
    }
    out
}

/// Output pixels that are gathered at a time.
fn chunks(g: &Geometry) -> impl Iterator<Item = Range<usize>> + use<> {
    let (total, len) = (g.out_pixels(), (1_usize << 20).div_ceil(g.taps() * g.ci_group()).max(1024));
    (0..total).step_by(len).map(move |start| start..(start + len).min(total))
}

/// The patches of `pixels`, gathered in parallel.
fn patches(g: &Geometry, x: &[f32], group: usize, pixels: Range<usize>) -> Vec<f32> {
    const BLOCK: usize = 256;
    let row = g.taps() * g.ci_group();
    let mut out = uninit(pixels.len() * row);
    out.par_chunks_mut(BLOCK * row).enumerate().for_each(|(i, out)| {
        let start = pixels.start + i * BLOCK;
        gather(g, x, group, start..start + out.len() / row, out);
    });
    out
}

/// `y = clamp(conv(x, w) + bias)`.
pub(super) fn forward(g: &Geometry, x: &[f32], w: &[f32], bias: Option<&[f32]>, clamp: Clamp) -> Vec<f32> {
    let (co, row) = (g.co_group(), g.taps() * g.ci_group());
    let mut y = uninit(g.out_pixels() * g.co);
    for group in 0..g.groups {
        let weights = group_weights(g, w, group);
        let start = bias.map_or(Start::Zero, |bias| Start::Bias(&bias[group * co..(group + 1) * co]));
        for pixels in chunks(g) {
            let a = patches(g, x, group, pixels.clone());
            let part = product(Matrix::new(&a, pixels.len(), row), Matrix::new(&weights, co, row).t(), start, clamp);
            for (y, part) in y[pixels.start * g.co..].chunks_exact_mut(g.co).zip(part.chunks_exact(co)) {
                y[group * co..(group + 1) * co].copy_from_slice(part);
            }
        }
    }
    y
}

/// `dx` from `dy`: each window receives `dy[p, ..] W`.
pub(super) fn input_gradient(g: &Geometry, dy: &[f32], w: &[f32]) -> Vec<f32> {
    let (co, ci, row) = (g.co_group(), g.ci_group(), g.taps() * g.ci_group());
    let (in_image, out_image) = (g.h * g.w * g.ci, g.oh * g.ow);
    let mut dx = vec![0.0; g.n * in_image];
    for group in 0..g.groups {
        let weights = group_weights(g, w, group);
        dx.par_chunks_mut(in_image).enumerate().for_each(|(image, dx)| {
            let dy = Matrix::strided(&dy[image * out_image * g.co + group * co..], out_image, co, g.co);
            let windows = product(dy, Matrix::new(&weights, co, row), Start::Zero, Clamp::NONE);
            for (p, window) in windows.chunks_exact(row).enumerate() {
                let (oy, ox) = (p / g.ow, p % g.ow);
                let columns = Window::new(ox * g.stride, g.left, g.w, g.k);
                for ky in Window::new(oy * g.stride, g.top, g.h, g.k).taps {
                    for kx in columns.taps.clone() {
                        let (y, x) = (oy * g.stride + ky - g.top, ox * g.stride + kx - g.left);
                        let to = &mut dx[(y * g.w + x) * g.ci + group * ci..][..ci];
                        to.iter_mut().zip(&window[(ky * g.k + kx) * ci..]).for_each(|(to, v)| *to += v);
                    }
                }
            }
        });
    }
    dx
}

/// `dw` from `x` and `dy`: gradients times patches.
pub(super) fn weight_gradient(g: &Geometry, x: &[f32], dy: &[f32]) -> Vec<f32> {
    let (co, ci, taps, row) = (g.co_group(), g.ci_group(), g.taps(), g.taps() * g.ci_group());
    let mut dw = vec![0.0; g.co * row];
    for (group, dw) in dw.chunks_exact_mut(co * row).enumerate() {
        for pixels in chunks(g) {
            let a = patches(g, x, group, pixels.clone());
            let dy = Matrix::strided(&dy[pixels.start * g.co + group * co..], pixels.len(), co, g.co);
            // [co, tap, ci]
            let part = product(dy.t(), Matrix::new(&a, pixels.len(), row), Start::Zero, Clamp::NONE);
            for (dw, part) in dw.chunks_exact_mut(row).zip(part.chunks_exact(row)) {
                for (j, v) in part.iter().enumerate() {
                    dw[j % ci * taps + j / ci] += v;
                }
            }
        }
    }
    dw
}
