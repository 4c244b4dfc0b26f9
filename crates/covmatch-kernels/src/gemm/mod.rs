//! Matrix products `C = A B` of strided `f32` matrices, with bias and clamping applied on the way out.
//!
//! With AVX-512 the product runs on a micro-kernel of this crate ([`micro`]); otherwise on the `gemm` crate. The
//! reduction order of each element of `C` does not depend on the number of threads, except where a small result is
//! summed from one part a thread ([`parts`]).
//!
//! # Loop nest (AVX-512)
//! ```text
//! task: a tile of rows of C x a range of 64-column panels          (rayon)
//!   block of up to KC steps of the reduction: A packed [rows][KC]  stays in L2; unpacked if used for one panel only
//!     panel of 64 columns: B packed [KC][64]                       streams from L2
//!       block of 6 rows: 6 x 64 accumulators in registers
//! ```

mod clamp;
pub(crate) mod micro;
mod pack;

use rayon::prelude::*;

use crate::simd::{Level, level};
pub(crate) use clamp::Clamp;
use micro::{Init, PANEL};
pub(crate) use pack::transpose;

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

/// The most steps of the reduction between two visits to `C`.
const KC: usize = 384;

/// A vector of `len` values that the caller writes before reading.
pub(crate) fn uninit(len: usize) -> Vec<f32> {
    let mut v: Vec<f32> = Vec::with_capacity(len);
    // SAFETY: the capacity is `len`, any bit pattern is a valid f32, and every caller overwrites all of it.
    #[allow(clippy::uninit_vec)]
    unsafe {
        v.set_len(len);
    }
    v
}

/// Scratch memory whose first element starts a cache line.
pub(crate) struct Aligned {
    memory: Vec<f32>,
    start: usize,
}

impl Aligned {
    /// Room for `len` values, to be written before they are read.
    pub(crate) fn new(len: usize) -> Self {
        let memory = uninit(len + 16);
        let start = memory.as_ptr().align_offset(64).min(16);
        Self { memory, start }
    }

    /// The values.
    pub(crate) fn values(&mut self) -> &mut [f32] {
        &mut self.memory[self.start..]
    }
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
    if level() != Level::Avx512 || k == 0 {
        return portable(a, b, start, clamp);
    }
    let threads = rayon::current_num_threads();
    if matches!(start, Start::Zero) && clamp == Clamp::NONE && parts(m, n, k, threads) > 1 {
        return summed_parts(a, b, threads);
    }
    let mut c = uninit(m * n);
    let out = SharedMut(c.as_mut_ptr());
    let (row_tiles, panel_tiles) = tiles(m, n, k, threads);
    let panels = n.div_ceil(PANEL);
    (0..row_tiles * panel_tiles).into_par_iter().for_each(|task| {
        let rows = split(m, row_tiles, task / panel_tiles);
        let panels = split(panels, panel_tiles, task % panel_tiles);
        // SAFETY: `split` gives each task its own rows and panels, all within C's m x n elements.
        unsafe { tile(a, b, start, clamp, rows, panels, out, n) };
    });
    c
}

/// Part `i` of `total` items cut into `parts` nearly equal runs.
fn split(total: usize, parts: usize, i: usize) -> std::ops::Range<usize> {
    total * i / parts..total * (i + 1) / parts
}

/// How many (row tiles, panel tiles) C is cut into: tiles that stay in L2, and enough of them for all threads.
fn tiles(m: usize, n: usize, k: usize, threads: usize) -> (usize, usize) {
    let panels = n.div_ceil(PANEL);
    let rows_per_tile = (196_608 / k.min(1024)).clamp(96, 512);
    let row_tiles = m.div_ceil(rows_per_tile).next_multiple_of(threads).min(m.div_ceil(12)).max(1);
    if row_tiles >= threads || m * n * k < 1 << 16 { (row_tiles, 1) } else { (row_tiles, panels.min(2 * threads)) }
}

/// In how many parts the reduction is cut: more than one when C is too small to keep all threads busy.
fn parts(m: usize, n: usize, k: usize, threads: usize) -> usize {
    let small = m.div_ceil(96) * n.div_ceil(PANEL) < threads;
    if small && k >= 64 * threads && m * n * k >= 1 << 18 { threads } else { 1 }
}

/// `A B` with the reduction cut into one part a thread; the parts are added in order.
fn summed_parts(a: Matrix, b: Matrix, threads: usize) -> Vec<f32> {
    let (m, n) = (a.rows, b.cols);
    let mut results: Vec<Vec<f32>> = (0..threads)
        .into_par_iter()
        .map(|i| {
            let k = split(a.cols, threads, i);
            let part_a = Matrix { data: &a.data[k.start * a.col_stride..], cols: k.len(), ..a };
            let part_b = Matrix { data: &b.data[k.start * b.row_stride..], rows: k.len(), ..b };
            let mut c = uninit(m * n);
            let panels = 0..n.div_ceil(PANEL);
            // SAFETY: the whole of a freshly allocated C is this task's.
            unsafe { tile(part_a, part_b, Start::Zero, Clamp::NONE, 0..m, panels, SharedMut(c.as_mut_ptr()), n) };
            c
        })
        .collect();
    let mut sum = results.swap_remove(0);
    for part in results {
        sum.iter_mut().zip(part).for_each(|(s, p)| *s += p);
    }
    sum
}

/// Computes `rows` x `panels` of C.
///
/// # Safety
/// The machine has AVX-512; `c` has `a.rows` rows of `n` elements, and those of `rows` x `panels` are the caller's.
#[allow(clippy::too_many_arguments)]
unsafe fn tile(
    a: Matrix,
    b: Matrix,
    start: Start,
    clamp: Clamp,
    rows: std::ops::Range<usize>,
    panels: std::ops::Range<usize>,
    c: SharedMut,
    n: usize,
) {
    let k = a.cols;
    let in_place = a.col_stride == 1 && panels.len() == 1;
    let step = k.div_ceil(k.div_ceil(KC)).next_multiple_of(16);
    let mut packed_a = if in_place { Vec::new() } else { uninit(rows.len() * step) };
    let mut packed_b = Aligned::new(step * PANEL);
    for k0 in (0..k).step_by(step) {
        let kc = step.min(k - k0);
        let (a_ptr, a_row) = if in_place {
            (a.ptr(rows.start, k0), a.row_stride)
        } else {
            pack::rows(a, rows.clone(), k0..k0 + kc, &mut packed_a);
            (packed_a.as_ptr(), kc)
        };
        for p in panels.clone() {
            let cols = p * PANEL..((p + 1) * PANEL).min(n);
            let width = micro::Width::of(cols.len());
            pack::panel(b, k0..k0 + kc, cols.clone(), width.vectors() * 16, packed_b.values());
            let init = match start {
                _ if k0 > 0 => Init::Accumulate,
                Start::Zero => Init::Zero,
                Start::Bias(bias) => Init::Bias(bias[cols.clone()].as_ptr()),
            };
            let clamp = if k0 + kc == k { clamp } else { Clamp::NONE };
            // SAFETY: A's rows have kc elements from a_ptr, B's panel is packed [kc][width], and the rows of C from
            // here on are this task's.
            unsafe {
                let c = c.at(rows.start * n + cols.start);
                micro::rows(
                    rows.len(),
                    width,
                    &[(0, 0)],
                    kc,
                    a_ptr,
                    a_row,
                    packed_b.values().as_ptr(),
                    c,
                    n,
                    init,
                    clamp,
                );
            }
        }
    }
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

    fn fill(n: usize, seed: u64) -> Vec<f32> {
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
    fn clamping_keeps_nan_so_that_a_broken_run_is_noticed() {
        let a = [f32::NAN, 1.0];
        let c = product(Matrix::new(&a, 2, 1), Matrix::new(&[-3.0], 1, 1), Start::Zero, Clamp::RELU6);
        assert!(c[0].is_nan() && c[1] == 0.0);
    }
}
