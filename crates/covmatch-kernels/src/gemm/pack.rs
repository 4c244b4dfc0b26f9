//! Copies blocks of a matrix into the layout that the micro-kernel reads.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::Matrix;
use crate::simd::{Level, level};

/// Rows `k`, columns `cols` of `b` as `[k][width]`, zero beyond the columns.
#[cfg(target_arch = "x86_64")]
pub(crate) fn panel(b: Matrix, k: Range<usize>, cols: Range<usize>, width: usize, out: &mut [f32]) {
    if b.col_stride == 1 {
        for (row, out) in k.zip(out.chunks_exact_mut(width)) {
            let start = row * b.row_stride + cols.start;
            let (values, padding) = out.split_at_mut(cols.len());
            values.copy_from_slice(&b.data[start..start + cols.len()]);
            padding.fill(0.0);
        }
    } else {
        // B is a transposed row-major matrix: its columns are the runs of contiguous values.
        debug_assert_eq!(b.row_stride, 1);
        let start = cols.start * b.col_stride + k.start;
        if cols.len() < width {
            out[..k.len() * width].fill(0.0);
        }
        transpose(&b.data[start..], cols.len(), k.len(), b.col_stride, out, width);
    }
}

/// Rows `rows`, columns `k` of `a` as `[rows][k]`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn rows(a: Matrix, rows: Range<usize>, k: Range<usize>, out: &mut [f32]) {
    if a.col_stride == 1 {
        for (row, out) in rows.zip(out.chunks_exact_mut(k.len())) {
            let start = row * a.row_stride + k.start;
            out.copy_from_slice(&a.data[start..start + k.len()]);
        }
        return;
    }
    debug_assert_eq!(a.row_stride, 1);
    let start = k.start * a.col_stride + rows.start;
    transpose(&a.data[start..], k.len(), rows.len(), a.col_stride, out, k.len());
}

/// `out[j * out_stride + i] = x[i * x_stride + j]` for `i < rows`, `j < cols`.
pub(crate) fn transpose(x: &[f32], rows: usize, cols: usize, x_stride: usize, out: &mut [f32], out_stride: usize) {
    if rows == 0 || cols == 0 {
        return;
    }
    assert!((rows - 1) * x_stride + cols <= x.len() && (cols - 1) * out_stride + rows <= out.len());
    let (whole_rows, whole_cols) = whole_blocks(rows, cols);
    #[cfg(target_arch = "x86_64")]
    for i in (0..whole_rows).step_by(16) {
        for j in (0..whole_cols).step_by(16) {
            // SAFETY: the assertion above bounds rows i..i+16 and columns j..j+16 of both, and there are whole blocks
            // only with AVX-512.
            unsafe { transpose_16x16(&x[i * x_stride + j], x_stride, &mut out[j * out_stride + i], out_stride) };
        }
    }
    let mut scalar = |rows: Range<usize>, cols: Range<usize>| {
        for i in rows {
            for j in cols.clone() {
                out[j * out_stride + i] = x[i * x_stride + j];
            }
        }
    };
    scalar(0..whole_rows, whole_cols..cols);
    scalar(whole_rows..rows, 0..cols);
}

/// Rows and columns that are transposed in blocks of 16 x 16.
fn whole_blocks(rows: usize, cols: usize) -> (usize, usize) {
    if level() == Level::Avx512 { (rows / 16 * 16, cols / 16 * 16) } else { (0, 0) }
}

/// Transposes a 16 x 16 block.
///
/// # Safety
/// The machine has AVX-512F; both blocks lie within their allocations.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn transpose_16x16(x: *const f32, x_stride: usize, out: *mut f32, out_stride: usize) {
    // SAFETY: the caller vouches for 16 rows of 16 values.
    let rows = std::array::from_fn(|i| unsafe { _mm512_loadu_ps(x.add(i * x_stride)) });
    for (j, column) in transposed(rows).into_iter().enumerate() {
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(out.add(j * out_stride), column) };
    }
}

/// The columns of 16 rows of 16 values.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn transposed(r: [__m512; 16]) -> [__m512; 16] {
    // Interleave pairs of rows, then pairs of pairs: t[4q + s] holds, in lane l, column 4l + s of rows 4q .. 4q + 4.
    let t: [__m512; 16] = std::array::from_fn(|i| {
        let q = i / 4 * 4;
        let pair = |a: usize, b: usize, high: bool| {
            if high { _mm512_unpackhi_ps(r[a], r[b]) } else { _mm512_unpacklo_ps(r[a], r[b]) }
        };
        let high = i % 4 >= 2;
        let (x, y) = (_mm512_castps_pd(pair(q, q + 1, high)), _mm512_castps_pd(pair(q + 2, q + 3, high)));
        _mm512_castpd_ps(if i % 2 == 0 { _mm512_unpacklo_pd(x, y) } else { _mm512_unpackhi_pd(x, y) })
    });
    // Gather the 128-bit lanes: column 4l + s is lane l of t[s], t[4 + s], t[8 + s], t[12 + s].
    let mut columns = [_mm512_setzero_ps(); 16];
    for s in 0..4 {
        let (a, b, c, d) = (t[s], t[4 + s], t[8 + s], t[12 + s]);
        let (ab_even, ab_odd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
        let (cd_even, cd_odd) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
        columns[s] = _mm512_shuffle_f32x4::<0x88>(ab_even, cd_even);
        columns[4 + s] = _mm512_shuffle_f32x4::<0x88>(ab_odd, cd_odd);
        columns[8 + s] = _mm512_shuffle_f32x4::<0xdd>(ab_even, cd_even);
        columns[12 + s] = _mm512_shuffle_f32x4::<0xdd>(ab_odd, cd_odd);
    }
    columns
}
