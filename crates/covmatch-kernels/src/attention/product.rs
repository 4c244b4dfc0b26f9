//! Sequential products of the small matrices of one attention head.
//!
//! `C = A B` with `B` packed in panels of 64 columns, each `[k][width]` with the last panel's width rounded up to
//! whole vectors of 16 and filled with zeros.

use crate::gemm::transpose;
use crate::simd::vectorized;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Level, level};

/// Lanes that panels are rounded up to.
pub(super) const LANES: usize = 16;

/// Columns of a panel.
const PANEL: usize = 64;

/// Packs `b`, whose `k` rows of `n` values are `stride` apart.
pub(super) fn pack(b: &[f32], k: usize, n: usize, stride: usize, panels: &mut [f32]) {
    for first in (0..n).step_by(PANEL) {
        let cols = PANEL.min(n - first);
        let width = cols.next_multiple_of(LANES);
        let panel = &mut panels[first * k..first * k + k * width];
        for (row, out) in panel.chunks_exact_mut(width).enumerate() {
            let start = row * stride + first;
            out[..cols].copy_from_slice(&b[start..start + cols]);
            out[cols..].fill(0.0);
        }
    }
}

/// Packs the transpose of `b`, whose `n` rows of `k` values are `stride` apart.
pub(super) fn pack_transposed(b: &[f32], n: usize, k: usize, stride: usize, panels: &mut [f32]) {
    for first in (0..n).step_by(PANEL) {
        let cols = PANEL.min(n - first);
        let width = cols.next_multiple_of(LANES);
        let panel = &mut panels[first * k..first * k + k * width];
        if cols < width {
            panel.fill(0.0);
        }
        transpose(&b[first * stride..], cols, k, stride, panel, width);
    }
}

/// `C = A B`: `a` has `m` rows of `k` values, as far apart as the number beside it; `c` gets `m` rows of `n` values, likewise.
///
/// # Safety
/// The rows of `c` are within its allocation and no other thread accesses them.
pub(super) unsafe fn product(
    [m, k, n]: [usize; 3],
    (a, a_stride): (&[f32], usize),
    panels: &[f32],
    (c, c_stride): (*mut f32, usize),
) {
    assert!((m - 1) * a_stride + k <= a.len(), "attention: matrix exceeds its data");
    for first in (0..n).step_by(PANEL) {
        let cols = PANEL.min(n - first);
        let width = cols.next_multiple_of(LANES);
        let panel = &panels[first * k..first * k + k * width];
        // SAFETY: `first` is a column of C, whose rows the caller vouches for.
        let c = unsafe { c.add(first) };
        #[cfg(target_arch = "x86_64")]
        if level() == Level::Avx512 {
            use crate::gemm::Clamp;
            use crate::gemm::micro::{Init, Rows, Width};
            let (width, init, clamp) = (Width::of(cols), Init::Zero, Clamp::NONE);
            let (a, b) = (a.as_ptr(), panel.as_ptr());
            let rows = Rows { n: m, width, kc: k, a, a_row: a_stride, a_step: 1, b, c, c_row: c_stride, init, clamp };
            // SAFETY: A's rows and the panel are bounded above, C's are the caller's duty; the level is AVX-512.
            unsafe { rows.compute() };
            continue;
        }
        for first_row in (0..m).step_by(ROWS) {
            let rows = ROWS.min(m - first_row);
            for vector in 0..width / LANES {
                let sums = block(&a[first_row * a_stride..], a_stride, rows, &panel[vector * LANES..], width, k);
                let cols = LANES.min(cols - vector * LANES);
                for (i, sums) in sums[..rows].iter().enumerate() {
                    // SAFETY: these `cols` columns of a row of C are the caller's.
                    let c = unsafe {
                        let start = c.add((first_row + i) * c_stride + vector * LANES);
                        std::slice::from_raw_parts_mut(start, cols)
                    };
                    c.copy_from_slice(&sums[..cols]);
                }
            }
        }
    }
}

/// Rows of C that [`block`] computes at a time.
const ROWS: usize = 4;

vectorized! {
    /// Up to four rows of C by 16 columns.
    fn block(a: &[f32], a_stride: usize, rows: usize, panel: &[f32], width: usize, k: usize) -> [[f32; LANES]; ROWS] {
        let mut sums = [[0.0; LANES]; ROWS];
        // Rows beyond the last repeat it, so that the loop below has a fixed size.
        let a: [&[f32]; ROWS] = std::array::from_fn(|i| &a[i.min(rows - 1) * a_stride..][..k]);
        for (l, b) in panel.chunks(width).take(k).enumerate() {
            if let Some(b) = b.first_chunk::<LANES>() {
                for (sums, a) in sums.iter_mut().zip(a) {
                    for (s, b) in sums.iter_mut().zip(b) {
                        *s = crate::math::mul_add::<FMA>(a[l], *b, *s);
                    }
                }
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_products_match_the_definition() {
        let value = |i: usize| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0;
        for (m, k, n) in [(1, 1, 1), (5, 3, 7), (13, 20, 16), (24, 32, 24), (33, 64, 64), (70, 65, 130)] {
            let a: Vec<f32> = (0..m * k).map(value).collect();
            let b: Vec<f32> = (0..k * n).map(|i| value(i + 7)).collect();
            let mut b_t = vec![0.0; n * k];
            transpose(&b, k, n, n, &mut b_t, k);
            let mut panels = [vec![9.0; k * n.next_multiple_of(LANES)], vec![9.0; k * n.next_multiple_of(LANES)]];
            pack(&b, k, n, n, &mut panels[0]);
            pack_transposed(&b_t, n, k, k, &mut panels[1]);
            for panels in &panels {
                let mut c = vec![0.0; m * n];
                // SAFETY: C has m rows of n values.
                unsafe { product([m, k, n], (&a, k), panels, (c.as_mut_ptr(), n)) };
                for (i, c) in c.iter().enumerate() {
                    let want: f32 = (0..k).map(|l| a[i / n * k + l] * b[l * n + i % n]).sum();
                    assert!((c - want).abs() <= 1e-4, "{m} x {k} x {n}: {c} {want}");
                }
            }
        }
    }
}
