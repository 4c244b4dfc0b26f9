//! The AVX-512 micro-kernel: a few rows of C by up to 64 columns, held in registers over a run of the reduction.
//!
//! ```text
//! C[i, ..] (+)= sum over taps (s, t), over l < kc:  a[s + i * a_row + l] * b[t + l * width ..][..width]
//! ```
//! A plain matrix product has the single tap `(0, 0)`. A k x k convolution of channels-last pixels has k^2 taps: the
//! input pixel under each position of the kernel, and that position's weights.

use std::arch::x86_64::*;

use super::Clamp;

/// Columns of a full panel: four vectors of 16.
pub(crate) const PANEL: usize = 64;

/// Width of a panel: whole vectors, and how many lanes of the last one belong to C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Width {
    vectors: usize,
    last: u16,
}

impl Width {
    /// The narrowest width that holds `cols` columns, `1 <= cols <= 64`.
    pub(crate) fn of(cols: usize) -> Self {
        debug_assert!((1..=PANEL).contains(&cols));
        let vectors = cols.div_ceil(16);
        Self { vectors, last: (0xffff_u32 >> (16 * vectors - cols)) as u16 }
    }

    /// Vectors of 16 lanes in a row of the packed panel.
    pub(crate) fn vectors(self) -> usize {
        self.vectors
    }

    /// The lanes of the last vector that belong to C.
    pub(crate) fn last(self) -> __mmask16 {
        self.last
    }
}

/// What the accumulators start from.
#[derive(Clone, Copy)]
pub(crate) enum Init {
    /// Zero.
    Zero,
    /// The same row of values for every row of C (as many as C has columns).
    Bias(*const f32),
    /// What C holds.
    Accumulate,
}

/// How C is written.
#[derive(Clone, Copy)]
enum Store {
    Cached,
    Streamed,
}

/// Computes `n` rows of C, `a_row` elements apart in A and `c_row` in C, in blocks that fit the registers.
///
/// # Safety
/// The machine has AVX-512F. For every row and tap, A has `kc` readable elements and the packed panel `kc` rows of
/// `16 * width.vectors()`; C's `n` rows of the panel's columns are writable and, for [`Init::Accumulate`], hold values.
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn rows(
    n: usize,
    width: Width,
    taps: &[(usize, usize)],
    kc: usize,
    a: *const f32,
    a_row: usize,
    b: *const f32,
    c: *mut f32,
    c_row: usize,
    init: Init,
    clamp: Clamp,
) {
    // SAFETY: the caller's duty.
    unsafe { blocks(n, width, taps, kc, a, a_row, b, c, c_row, init, clamp, Store::Cached) }
}

/// Like [`rows`], with a C that is written past the caches (see [`stream`](super::stream)).
///
/// # Safety
/// As [`rows`]; moreover every vector of C is one cache line, and `init` is not [`Init::Accumulate`].
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn streamed_rows(
    n: usize,
    width: Width,
    taps: &[(usize, usize)],
    kc: usize,
    a: *const f32,
    a_row: usize,
    b: *const f32,
    c: *mut f32,
    c_row: usize,
    init: Init,
    clamp: Clamp,
) {
    // SAFETY: the caller's duty.
    unsafe { blocks(n, width, taps, kc, a, a_row, b, c, c_row, init, clamp, Store::Streamed) }
}

/// # Safety
/// As [`rows`] or [`streamed_rows`].
#[allow(clippy::too_many_arguments)]
unsafe fn blocks(
    n: usize,
    width: Width,
    taps: &[(usize, usize)],
    kc: usize,
    a: *const f32,
    a_row: usize,
    b: *const f32,
    c: *mut f32,
    c_row: usize,
    init: Init,
    clamp: Clamp,
    store: Store,
) {
    // Rows a block: the accumulators, one row of B and one broadcast fit the 32 registers.
    let most = [0, 12, 12, 8, 6][width.vectors];
    let mut row = 0;
    while row < n {
        let left = n - row;
        let block = left.div_ceil(left.div_ceil(most));
        // SAFETY: rows `row .. row + block` are among the n rows that the caller vouches for.
        unsafe {
            let (a, c) = (a.add(row * a_row), c.add(row * c_row));
            let args = (taps, kc, a, a_row, b, c, c_row, init, clamp, store, width.last);
            match width.vectors {
                1 => dispatch_rows::<1>(block, args),
                2 => dispatch_rows::<2>(block, args),
                3 => dispatch_rows::<3>(block, args),
                _ => dispatch_rows::<4>(block, args),
            }
        }
        row += block;
    }
}

type Args<'a> = (&'a [(usize, usize)], usize, *const f32, usize, *const f32, *mut f32, usize, Init, Clamp, Store, u16);

/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn dispatch_rows<const NV: usize>(block: usize, args: Args) {
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

/// One block of `MR` rows by `NV` vectors.
///
/// # Safety
/// As [`rows`].
#[target_feature(enable = "avx512f")]
unsafe fn tile<const MR: usize, const NV: usize>(args: Args) {
    let (taps, kc, a, a_row, b, c, c_row, init, clamp, store, last) = args;
    let mask = |j: usize| if j + 1 == NV { last } else { 0xffff };
    let mut acc = [[_mm512_setzero_ps(); NV]; MR];
    // SAFETY: the caller vouches for every address below.
    unsafe {
        let column = |i: usize, j: usize| c.add(i * c_row + 16 * j);
        match init {
            Init::Zero => {}
            Init::Bias(bias) => {
                let bias: [__m512; NV] = std::array::from_fn(|j| _mm512_maskz_loadu_ps(mask(j), bias.add(16 * j)));
                acc = [bias; MR];
            }
            // C is added at the end: until then its lines are on their way.
            Init::Accumulate => each::<MR, NV>(|i, j| _mm_prefetch::<_MM_HINT_T0>(column(i, j).cast())),
        }
        for &(a_tap, b_tap) in taps {
            let (a, b) = (a.add(a_tap), b.add(b_tap));
            let mut step = |l: usize| {
                let vb: [__m512; NV] = std::array::from_fn(|j| _mm512_loadu_ps(b.add(16 * (l * NV + j))));
                for (i, row) in acc.iter_mut().enumerate() {
                    let va = _mm512_set1_ps(*a.add(i * a_row + l));
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
        if let Init::Accumulate = init {
            each::<MR, NV>(|i, j| acc[i][j] = _mm512_add_ps(acc[i][j], _mm512_maskz_loadu_ps(mask(j), column(i, j))));
        }
        if clamp != Clamp::NONE {
            // The value is the second operand of max and min, which they return when it is NaN.
            let (low, high) = (_mm512_set1_ps(clamp.low), _mm512_set1_ps(clamp.high));
            acc.iter_mut().flatten().for_each(|v| *v = _mm512_min_ps(high, _mm512_max_ps(low, *v)));
        }
        match store {
            Store::Cached => each::<MR, NV>(|i, j| _mm512_mask_storeu_ps(column(i, j), mask(j), acc[i][j])),
            Store::Streamed => each::<MR, NV>(|i, j| _mm512_stream_ps(column(i, j), acc[i][j])),
        }
    }
}

/// Calls `f` for each vector of a tile.
#[inline(always)]
fn each<const MR: usize, const NV: usize>(mut f: impl FnMut(usize, usize)) {
    for i in 0..MR {
        for j in 0..NV {
            f(i, j);
        }
    }
}
