//! The AVX-512 micro-kernel: a few rows of C by up to 64 columns, held in registers over a run of the reduction.
//!
//! ```text
//! C[i, ..] (+)= sum over l < kc:  a[i * a_row + l * a_step] * b[l * width ..][..width]
//! ```

use std::arch::x86_64::*;
use std::ops::Range;

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

/// Rows of C by a panel of columns, and what they are computed from.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// Rows.
    pub(crate) n: usize,
    /// Columns.
    pub(crate) width: Width,
    /// Steps of the reduction.
    pub(crate) kc: usize,
    /// A: `n` rows of `kc` elements.
    pub(crate) a: *const f32,
    /// Elements from one row of A to the next.
    pub(crate) a_row: usize,
    /// Elements from one step of the reduction to the next.
    pub(crate) a_step: usize,
    /// The packed panel: `kc` rows of `16 * width.vectors()`.
    pub(crate) b: *const f32,
    /// C: `n` rows of the panel's columns.
    pub(crate) c: *mut f32,
    /// Elements from one row of C to the next.
    pub(crate) c_row: usize,
    /// What the accumulators start from.
    pub(crate) init: Init,
    /// What the sums are clamped to.
    pub(crate) clamp: Clamp,
}

impl Rows {
    /// Computes the rows.
    ///
    /// # Safety
    /// The machine has AVX-512F; A and the panel are readable, C is writable and, for [`Init::Accumulate`], holds values.
    /// C may start where A does if their rows are as far apart: the rows of a block are read before they are written.
    pub(crate) unsafe fn compute(self) {
        // SAFETY: the caller's duty.
        unsafe { self.blocks(Store::Cached) }
    }

    /// Like [`compute`](Self::compute), with a C that is written past the caches (see [`stream`](super::stream)).
    ///
    /// # Safety
    /// As there; moreover every vector of C is one cache line, and `init` is not [`Init::Accumulate`].
    pub(crate) unsafe fn stream(self) {
        // SAFETY: the caller's duty.
        unsafe { self.blocks(Store::Streamed) }
    }

    /// # Safety
    /// As [`compute`](Self::compute) or [`stream`](Self::stream).
    unsafe fn blocks(self, store: Store) {
        for rows in blocks(self.n, [0, 12, 12, 8, 6][self.width.vectors]) {
            // SAFETY: the block's rows are among those that the caller vouches for.
            unsafe {
                let (a, c) = (self.a.add(rows.start * self.a_row), self.c.add(rows.start * self.c_row));
                let block = Rows { n: rows.len(), a, c, ..self };
                dispatch!(tile, rows.len(), self.width.vectors, (block, store));
            }
        }
    }
}

/// Cuts `n` rows into nearly equal blocks of at most `most`: as many as the accumulators, one row of B and one broadcast
/// leave room for in the 32 registers.
pub(crate) fn blocks(n: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let mut row = 0;
    std::iter::from_fn(move || {
        let left = n - row;
        let block = row..row + left.div_ceil(left.div_ceil(most).max(1));
        row = block.end;
        (left > 0).then_some(block)
    })
}

/// Calls `tile::<ROWS, VECTORS>(args)`, compiled for every size of a block.
macro_rules! dispatch {
    ($tile:ident, $rows:expr, $vectors:expr, $args:expr) => {
        match $vectors {
            1 => dispatch!(@rows $tile, 1, $rows, $args, 1 2 3 4 5 6 7 8 9 10 11, 12),
            2 => dispatch!(@rows $tile, 2, $rows, $args, 1 2 3 4 5 6 7 8 9 10 11, 12),
            3 => dispatch!(@rows $tile, 3, $rows, $args, 1 2 3 4 5 6 7, 8),
            _ => dispatch!(@rows $tile, 4, $rows, $args, 1 2 3 4 5, 6),
        }
    };
    (@rows $tile:ident, $vectors:literal, $rows:expr, $args:expr, $($size:literal)*, $largest:literal) => {
        match $rows {
            $($size => $tile::<$size, $vectors>($args),)*
            _ => $tile::<$largest, $vectors>($args),
        }
    };
}
pub(crate) use dispatch;

/// One block of `MR` rows by `NV` vectors.
///
/// # Safety
/// As [`Rows::compute`] or [`Rows::stream`].
#[target_feature(enable = "avx512f")]
unsafe fn tile<const MR: usize, const NV: usize>((block, store): (Rows, Store)) {
    let Rows { width, kc, a, a_row, a_step, b, c, c_row, init, clamp, .. } = block;
    let mask = |j: usize| if j + 1 == NV { width.last } else { 0xffff };
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
        let mut step = |l: usize| {
            let vb: [__m512; NV] = std::array::from_fn(|j| _mm512_loadu_ps(b.add(16 * (l * NV + j))));
            for (i, row) in acc.iter_mut().enumerate() {
                let va = _mm512_set1_ps(*a.add(i * a_row + l * a_step));
                for (v, vb) in row.iter_mut().zip(vb) {
                    *v = _mm512_fmadd_ps(va, vb, *v);
                }
            }
        };
        let unrolled = kc / 16 * 16;
        for l in (0..unrolled).step_by(16) {
            // The same steps of the rows after these, which the next block finds in L2.
            (MR..2 * MR).for_each(|i| _mm_prefetch::<_MM_HINT_T1>(a.wrapping_add(i * a_row + l * a_step).cast()));
            for l in (l..l + 16).step_by(4) {
                step(l);
                step(l + 1);
                step(l + 2);
                step(l + 3);
            }
        }
        (unrolled..kc).for_each(step);
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
