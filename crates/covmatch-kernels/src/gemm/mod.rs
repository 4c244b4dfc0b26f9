//! Matrix products `C = A B` of strided `f32` matrices, with bias and clamping applied on the way out.
//!
//! With AVX-512 the product runs on a micro-kernel of this crate ([`blocked`]); otherwise on the `gemm` crate. Where the
//! process asks for it, large products round their operands to bf16 ([`bf16`]).

#[cfg(target_arch = "x86_64")]
mod aligned;
#[cfg(target_arch = "x86_64")]
pub(crate) mod bf16;
#[cfg(target_arch = "x86_64")]
mod blocked;
mod clamp;
#[cfg(target_arch = "x86_64")]
pub(crate) mod micro;
mod pack;
#[cfg(target_arch = "x86_64")]
pub(crate) mod stream;

use rayon::prelude::*;

#[cfg(target_arch = "x86_64")]
use crate::simd::{Level, level};
#[cfg(target_arch = "x86_64")]
pub(crate) use aligned::Aligned;
pub(crate) use clamp::Clamp;
pub(crate) use pack::transpose;
#[cfg(test)]
pub(crate) use tests::fill;

/// A read-only matrix: element `(i, j)` is `data[i * row_stride + j * col_stride]`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `rows` x `cols` values, row by row.
    pub(crate) fn new(data: &'a [f32], rows: usize, cols: usize) -> Self {
        Self::strided(data, rows, cols, cols)
    }

    /// Like [`Matrix::new`] with `row_stride` values from one row to the next.
    pub(crate) fn strided(data: &'a [f32], rows: usize, cols: usize, row_stride: usize) -> Self {
        assert!(rows == 0 || cols == 0 || (rows - 1) * row_stride + cols <= data.len(), "matrix exceeds its data");
        Self { data, rows, cols, row_stride, col_stride: 1 }
    }

    /// The transpose, without moving values.
    pub(crate) fn t(self) -> Self {
        let Self { data, rows, cols, row_stride, col_stride } = self;
        Self { data, rows: cols, cols: rows, row_stride: col_stride, col_stride: row_stride }
    }

    #[cfg(target_arch = "x86_64")]
    fn ptr(&self, row: usize, col: usize) -> *const f32 {
        self.data[row * self.row_stride + col * self.col_stride..].as_ptr()
    }
}

/// What `A B` is added to and how the sum is clamped.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a> {
    /// Zero.
    Zero,
    /// A bias for each column of `C`.
    Bias(&'a [f32]),
}

/// A pointer that tasks may share because they write to disjoint elements.
#[derive(Clone, Copy)]
pub(crate) struct SharedMut(pub(crate) *mut f32);
// SAFETY: every user hands each element to at most one task (stated where it is used).
unsafe impl Send for SharedMut {}
// SAFETY: as above.
unsafe impl Sync for SharedMut {}

impl SharedMut {
    /// The pointer `offset` elements on.
    ///
    /// # Safety
    /// The offset lies within the allocation.
    pub(crate) unsafe fn at(self, offset: usize) -> *mut f32 {
        // SAFETY: the caller's duty.
        unsafe { self.0.add(offset) }
    }
}

/// A vector of `len` values, each of which the caller writes before it reads it, or never reads: panels are padded to
/// whole vectors.
///
/// Unit tests and debug builds fill it with NaN, which a value that is read before it is written spreads.
pub(crate) fn uninit(len: usize) -> Vec<f32> {
    if cfg!(any(test, debug_assertions)) {
        return vec![f32::NAN; len];
    }
    let mut v: Vec<f32> = Vec::with_capacity(len);
    // SAFETY: the capacity is `len`. The elements are not initialised, as `set_len` asks for: an f32 has no invalid bit
    // pattern, and none is read before it is written (see above), so no result depends on what the memory held.
    #[allow(clippy::uninit_vec)]
    unsafe {
        v.set_len(len);
    }
    v
}

/// `start + A B`, clamped, as a new row-major matrix.
pub(crate) fn product(a: Matrix, b: Matrix, start: Start, clamp: Clamp) -> Vec<f32> {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    assert_eq!(k, b.rows, "inner dimensions of a matrix product");
    if let Start::Bias(bias) = start {
        assert_eq!(bias.len(), n, "bias of a matrix product");
    }
    if m == 0 || n == 0 {
        return Vec::new();
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(form) = bf16::form(m, n, k) {
        // SAFETY: the machine has what `form` found.
        return unsafe { bf16::product(form, a, b, start, clamp) };
    }
    #[cfg(target_arch = "x86_64")]
    if level() == Level::Avx512 && k > 0 {
        return blocked::product(a, b, start, clamp);
    }
    portable(a, b, start, clamp)
}

/// The same on the `gemm` crate, for machines without AVX-512.
fn portable(a: Matrix, b: Matrix, start: Start, clamp: Clamp) -> Vec<f32> {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    let mut c = match start {
        Start::Zero => vec![0.0; m * n],
        Start::Bias(bias) => bias.repeat(m),
    };
    let s = |v: usize| v as isize;
    // SAFETY: `Matrix` guarantees that every element lies within its data, and C has m x n elements.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            s(n),
            true,
            a.data.as_ptr(),
            s(a.col_stride),
            s(a.row_stride),
            b.data.as_ptr(),
            s(b.col_stride),
            s(b.row_stride),
            1.0f32,
            1.0f32,
            false,
            false,
            false,
            gemm::Parallelism::Rayon(0),
        );
    }
    if clamp != Clamp::NONE {
        c.par_chunks_mut(1 << 14).for_each(|c| c.iter_mut().for_each(|v| *v = clamp.apply(*v)));
    }
    c
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn fill(n: usize, seed: u64) -> Vec<f32> {
        let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..n)
            .map(|_| {
                z ^= z << 13;
                z ^= z >> 7;
                z ^= z << 17;
                (z >> 40) as f32 / 8_388_608.0 - 1.0
            })
            .collect()
    }

    fn naive(a: Matrix, b: Matrix, start: Start, clamp: Clamp) -> Vec<f32> {
        let at = |x: &Matrix, i: usize, j: usize| f64::from(x.data[i * x.row_stride + j * x.col_stride]);
        let mut c = Vec::new();
        for i in 0..a.rows {
            for j in 0..b.cols {
                let bias = if let Start::Bias(bias) = start { f64::from(bias[j]) } else { 0.0 };
                let sum: f64 = (0..a.cols).map(|l| at(&a, i, l) * at(&b, l, j)).sum();
                c.push(clamp.apply((sum + bias) as f32));
            }
        }
        c
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn products_of_any_shape_and_stride_match_the_definition(
            m in 1usize..90, n in 1usize..150, k in 1usize..300, ta: bool, tb: bool, bias: bool, relu6: bool
        ) {
            let (da, db, dbias) = (fill(m * k, 1), fill(k * n, 2), fill(n, 3));
            let a = if ta { Matrix::new(&da, k, m).t() } else { Matrix::new(&da, m, k) };
            let b = if tb { Matrix::new(&db, n, k).t() } else { Matrix::new(&db, k, n) };
            let start = if bias { Start::Bias(&dbias) } else { Start::Zero };
            let clamp = if relu6 { Clamp::RELU6 } else { Clamp::NONE };
            let (got, want) = (product(a, b, start, clamp), naive(a, b, start, clamp));
            for (g, w) in got.iter().zip(&want) {
                prop_assert!((g - w).abs() <= 2e-6 * k as f32, "{g} {w}");
            }
        }
    }

    #[test]
    fn a_long_reduction_into_a_small_result_matches_the_definition() {
        let (m, n, k) = (24, 16, 5000);
        let (da, db) = (fill(m * k, 1), fill(k * n, 2));
        let (a, b) = (Matrix::new(&da, k, m).t(), Matrix::new(&db, k, n));
        let want = naive(a, b, Start::Zero, Clamp::NONE);
        for (g, w) in product(a, b, Start::Zero, Clamp::NONE).iter().zip(&want) {
            assert!((g - w).abs() <= 1e-3, "{g} {w}");
        }
    }

    #[test]
    fn a_large_result_of_a_short_reduction_matches_the_definition() {
        matches_the_definition_in_places(1030, 1024, 500);
    }

    #[test]
    fn rows_and_columns_whole_pages_apart_are_packed_and_match_the_definition() {
        matches_the_definition_in_places(1024, 200, 1024);
    }

    /// A product of A as it is and transposed, looked at here and there.
    fn matches_the_definition_in_places(m: usize, n: usize, k: usize) {
        let (da, db) = (fill(m * k, 1), fill(k * n, 2));
        for transposed in [false, true] {
            let a = if transposed { Matrix::new(&da, k, m).t() } else { Matrix::new(&da, m, k) };
            let b = Matrix::new(&db, k, n);
            let c = product(a, b, Start::Zero, Clamp::NONE);
            for at in (0..m * n).step_by(997) {
                let (i, j) = (at / n, at % n);
                let row = Matrix { data: &a.data[i * a.row_stride..], rows: 1, ..a };
                let column = Matrix { data: &b.data[j..], cols: 1, ..b };
                let want = naive(row, column, Start::Zero, Clamp::NONE)[0];
                assert!((c[at] - want).abs() <= 1e-4, "{at}: {} {want}", c[at]);
            }
        }
    }

    #[test]
    fn clamping_keeps_nan_so_that_a_broken_run_is_noticed() {
        let a = [f32::NAN, 1.0];
        let c = product(Matrix::new(&a, 2, 1), Matrix::new(&[-3.0], 1, 1), Start::Zero, Clamp::RELU6);
        assert!(c[0].is_nan() && c[1] == 0.0);
    }
}
