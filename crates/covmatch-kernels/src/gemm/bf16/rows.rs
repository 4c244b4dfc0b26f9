//! The micro-kernel of AVX-512 BF16: a few rows of C by up to 64 columns, held in registers over a run of the reduction.
//!
//! A value of A is a pair: two steps of the reduction in the two halves of 32 bits. `vdpbf16ps` multiplies a pair of A
//! with 16 pairs of B, one for each column, and adds both products to the 16 sums:
//! ```text
//! C[i, j] (+)= sum over p < pairs:  a[i, p].0 * b[p, j].0 + a[i, p].1 * b[p, j].1
//! ```

use std::arch::x86_64::*;

use super::Clamp;
use super::micro::{Init, Width, blocks, dispatch};

/// Rows of C by a panel of columns, and what they are computed from.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// Rows.
    pub(crate) n: usize,
    /// Columns.
    pub(crate) width: Width,
    /// Pairs of steps of the reduction.
    pub(crate) pairs: usize,
    /// A: `n` rows of `pairs` pairs.
    pub(crate) a: *const i32,
    /// Pairs from one row of A to the next.
    pub(crate) a_row: usize,
    /// Pairs from one pair of steps to the next.
    pub(crate) a_step: usize,
    /// The packed panel: `pairs` rows of `width.vectors()` vectors of 16 pairs.
    pub(crate) b: *const i32,
    /// C: `n` rows of the panel's columns.
    pub(crate) c: *mut f32,
    /// Elements from one row of C to the next.
    pub(crate) c_row: usize,
    /// What the accumulators start from.
    pub(crate) init: Init,
    /// What the sums are clamped to.
    pub(crate) clamp: Clamp,
    /// Whether C is written past the caches (see [`stream`](super::stream)).
    pub(crate) streamed: bool,
}

impl Rows {
    /// Computes the rows.
    ///
    /// # Safety
    /// The machine has AVX-512 and its BF16 extension; A and the panel are readable, C is writable and, for
    /// [`Init::Accumulate`], holds values. If it is streamed, every vector of C is one cache line.
    pub(crate) unsafe fn compute(self) {
        for rows in blocks(self.n, [0, 12, 12, 8, 6][self.width.vectors()]) {
            // SAFETY: the block's rows are among those that the caller vouches for.
            unsafe {
                let (a, c) = (self.a.add(rows.start * self.a_row), self.c.add(rows.start * self.c_row));
                let block = Rows { n: rows.len(), a, c, ..self };
                dispatch!(tile, rows.len(), self.width.vectors(), block);
            }
        }
    }
}

/// One block of `MR` rows by `NV` vectors.
///
/// # Safety
/// As [`Rows::compute`].
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn tile<const MR: usize, const NV: usize>(block: Rows) {
    let Rows { width, pairs, a, a_row, a_step, b, c, c_row, init, clamp, streamed, .. } = block;
    let mask = |j: usize| if j + 1 == NV { width.last() } else { 0xffff };
    let mut acc = [[_mm512_setzero_ps(); NV]; MR];
    // SAFETY: the caller vouches for every address below.
    unsafe {
        let column = |i: usize, j: usize| c.add(i * c_row + 16 * j);
        match init {
            Init::Zero => {}
            Init::Bias(bias) => {
                acc = [std::array::from_fn(|j| _mm512_maskz_loadu_ps(mask(j), bias.add(16 * j))); MR];
            }
            // C is added at the end: until then its lines are on their way.
            Init::Accumulate => each::<MR, NV>(|i, j| _mm_prefetch::<_MM_HINT_T0>(column(i, j).cast())),
        }
        for p in 0..pairs {
            let vb: [__m512bh; NV] = std::array::from_fn(|j| bf16(_mm512_loadu_si512(b.add(16 * (p * NV + j)).cast())));
            for (i, row) in acc.iter_mut().enumerate() {
                let va = bf16(_mm512_set1_epi32(*a.add(i * a_row + p * a_step)));
                for (v, vb) in row.iter_mut().zip(vb) {
                    *v = _mm512_dpbf16_ps(*v, va, vb);
                }
            }
        }
        if let Init::Accumulate = init {
            each::<MR, NV>(|i, j| acc[i][j] = _mm512_add_ps(acc[i][j], _mm512_maskz_loadu_ps(mask(j), column(i, j))));
        }
        if clamp != Clamp::NONE {
            // The value is the second operand of max and min, which they return when it is NaN.
            let (low, high) = (_mm512_set1_ps(clamp.low), _mm512_set1_ps(clamp.high));
            acc.iter_mut().flatten().for_each(|v| *v = _mm512_min_ps(high, _mm512_max_ps(low, *v)));
        }
        if streamed {
            each::<MR, NV>(|i, j| _mm512_stream_ps(column(i, j), acc[i][j]));
        } else {
            each::<MR, NV>(|i, j| _mm512_mask_storeu_ps(column(i, j), mask(j), acc[i][j]));
        }
    }
}

/// The same bits as bf16 values.
#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
fn bf16(bits: __m512i) -> __m512bh {
    // SAFETY: both are 64 bytes, any of which are a value.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(bits) }
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
