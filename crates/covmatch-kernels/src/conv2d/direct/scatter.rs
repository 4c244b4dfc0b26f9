//! Input gradient of a first layer, whose few channels (3 colours) would leave most lanes of a vector empty.
//!
//! For each output pixel the product `dy[p, ..] W` gives the k x k x channels values that its window receives (27 for a
//! 3 x 3 kernel on colours: most lanes of two vectors), which are then added to the window.

use std::arch::x86_64::*;

use rayon::prelude::*;

use crate::conv2d::geometry::Geometry;
use crate::gemm::Clamp;
use crate::gemm::micro::{Init, PANEL, Rows, Width};
use crate::gemm::uninit;

/// `dx` from `dy`, without groups.
pub(super) fn input_gradient(g: &Geometry, dy: &[f32], w: &[f32]) -> Vec<f32> {
    let panels = pack(g, w);
    let mut dx = uninit(g.in_pixels() * g.ci);
    // A task owns some rows of an image and computes the windows that reach into them.
    let strips = (4 * rayon::current_num_threads()).div_ceil(g.n).min(g.h.div_ceil(4 * g.k)).max(1);
    let rows = g.h.div_ceil(strips);
    dx.par_chunks_mut(g.h * g.w * g.ci).enumerate().for_each(|(image, dx)| {
        dx.par_chunks_mut(rows * g.w * g.ci).enumerate().for_each_init(Vec::new, |windows, (strip, dx)| {
            dx.fill(0.0);
            let first = strip * rows;
            let own = first..(first + rows).min(g.h);
            let last_output = ((own.end - 1 + g.top) / g.stride).min(g.oh - 1);
            let first_output = (first + g.top).saturating_sub(g.k - 1).div_ceil(g.stride);
            for oy in first_output..=last_output {
                let dy = &dy[(image * g.oh + oy) * g.ow * g.co..][..g.ow * g.co];
                window_values(g, dy, &panels, windows);
                // SAFETY: direct convolution runs on machines with AVX-512 only.
                unsafe { add_windows(g, windows, oy, own.clone(), dx) };
            }
        });
    });
    dx
}

/// Values of a window.
fn window_len(g: &Geometry) -> usize {
    g.taps() * g.ci
}

/// `[co, ci, tap]` to panels `[panel][co][width]` over the columns `(tap, ci)`.
fn pack(g: &Geometry, w: &[f32]) -> Vec<(Width, Vec<f32>)> {
    let len = window_len(g);
    (0..len)
        .step_by(PANEL)
        .map(|start| {
            let cols = start..(start + PANEL).min(len);
            let width = Width::of(cols.len());
            let row = width.vectors() * 16;
            let mut panel = vec![0.0; g.co * row];
            for (w, panel) in w.chunks_exact(len).zip(panel.chunks_exact_mut(row)) {
                for (v, col) in panel.iter_mut().zip(cols.clone()) {
                    *v = w[col % g.ci * g.taps() + col / g.ci];
                }
            }
            (width, panel)
        })
        .collect()
}

/// The values that each window of a row of output pixels receives, `[pixel][tap][ci]`.
fn window_values(g: &Geometry, dy: &[f32], panels: &[(Width, Vec<f32>)], windows: &mut Vec<f32>) {
    let len = window_len(g);
    windows.resize(g.ow * len, 0.0);
    for (i, (width, panel)) in panels.iter().enumerate() {
        let (a, b, c) = (dy.as_ptr(), panel.as_ptr(), windows[i * PANEL..].as_mut_ptr());
        let (width, init, clamp) = (*width, Init::Zero, Clamp::NONE);
        let rows = Rows { n: g.ow, width, kc: g.co, a, a_row: g.co, a_step: 1, b, c, c_row: len, init, clamp };
        // SAFETY: dy has ow rows of co values, the panel co rows of the width, and `windows` ow rows of `len` values
        // that include the panel's columns.
        unsafe { rows.compute() };
    }
}

/// Adds the windows of output row `oy` to the rows `own` of the input gradient.
///
/// # Safety
/// The machine has AVX-512F.
#[target_feature(enable = "avx512f")]
unsafe fn add_windows(g: &Geometry, windows: &[f32], oy: usize, own: std::ops::Range<usize>, dx: &mut [f32]) {
    for ky in 0..g.k {
        let y = oy * g.stride + ky;
        if y < g.top + own.start || y >= g.top + own.end {
            continue;
        }
        let row = &mut dx[(y - g.top - own.start) * g.w * g.ci..][..g.w * g.ci];
        for (ox, window) in windows.chunks_exact(window_len(g)).enumerate() {
            // The window's columns that lie inside the image.
            let x = ox * g.stride;
            let first = g.left.saturating_sub(x).min(g.k);
            let end = (g.w + g.left).saturating_sub(x).min(g.k).max(first);
            let len = (end - first) * g.ci;
            if len == 0 {
                continue;
            }
            let from = &window[(ky * g.k + first) * g.ci..][..len];
            let to = &mut row[(x + first - g.left) * g.ci..][..len];
            for start in (0..len).step_by(16) {
                let mask = (0xffff_u32 >> (16 - (len - start).min(16))) as __mmask16;
                // SAFETY: the mask keeps to the `len` elements of both slices.
                unsafe {
                    let (from, to) = (from.as_ptr().add(start), to.as_mut_ptr().add(start));
                    let sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, from), _mm512_maskz_loadu_ps(mask, to));
                    _mm512_mask_storeu_ps(to, mask, sum);
                }
            }
        }
    }
}
