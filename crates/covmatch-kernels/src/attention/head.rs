//! Attention of one head of one sequence, forward and backward.
//!
//! With `P = softmax(scale Q K^T)` over the keys that may be attended to and `F` the factors of dropout:
//! ```text
//! O  = (P * F) V
//! dV = (P * F)^T dO
//! dP = (dO V^T) * F
//! dS = scale P * (dP - rowsum(dP * P))
//! dQ = dS K,   dK = dS^T Q
//! ```
//! `P` is recomputed in the backward pass. Rows of scores are padded to whole vectors; padding has probability 0.

use super::product::{LANES, pack, pack_transposed, product};
use crate::dropout::{Dropout, drop_values};
use crate::gemm::{SharedMut, transpose, uninit};
use crate::math::{exp, fold, mul_add};
use crate::simd::vectorized;

/// The sizes of an attention: tensors are `[n, l, heads * d]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) n: usize,
    pub(super) l: usize,
    pub(super) heads: usize,
    pub(super) d: usize,
}

impl Sizes {
    /// Values from one token to the next.
    fn stride(self) -> usize {
        self.heads * self.d
    }

    /// Columns of the scores: keys rounded up to whole vectors.
    fn padded(self) -> usize {
        self.l.next_multiple_of(LANES)
    }

    /// Where the values of head `i` (counted over all sequences) begin.
    fn start(self, i: usize) -> usize {
        i / self.heads * self.l * self.stride() + i % self.heads * self.d
    }

    /// The softmax's scale.
    fn scale(self) -> f32 {
        1.0 / (self.d as f32).sqrt()
    }
}

/// What one head reads.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) q: &'a [f32],
    pub(super) k: &'a [f32],
    pub(super) v: &'a [f32],
    /// `[n, l]`, 1 for keys that may be attended to.
    pub(super) mask: Option<&'a [f32]>,
    pub(super) drop: Option<Dropout>,
    pub(super) sizes: Sizes,
}

/// Memory that a thread reuses from head to head.
pub(super) struct Scratch {
    panels: Vec<f32>,
    /// 1 for keys that may be attended to, 0 for others and for padding.
    keys: Vec<f32>,
    p: Vec<f32>,          // [l, padded]
    dropped: Vec<f32>,    // [l, padded]
    ds: Vec<f32>,         // [l, padded]
    transposed: Vec<f32>, // [l, l]
}

impl Scratch {
    /// What [`Inputs::forward`] needs.
    pub(super) fn forward(sizes: Sizes) -> Self {
        let (l, padded, d) = (sizes.l, sizes.padded(), sizes.d);
        Self {
            panels: uninit((d * padded).max(l * d.next_multiple_of(LANES))),
            keys: vec![0.0; padded],
            p: uninit(l * padded),
            dropped: Vec::new(),
            ds: Vec::new(),
            transposed: Vec::new(),
        }
    }

    /// What [`Inputs::backward`] needs.
    pub(super) fn backward(sizes: Sizes) -> Self {
        let (l, padded) = (sizes.l, sizes.padded());
        Self { dropped: uninit(l * padded), ds: uninit(l * padded), transposed: uninit(l * l), ..Self::forward(sizes) }
    }
}

impl Inputs<'_> {
    /// Writes `O` of head `i` to `out`.
    ///
    /// # Safety
    /// `out` has the size of `q`, and no other thread accesses head `i` of it.
    pub(super) unsafe fn forward(&self, i: usize, scratch: &mut Scratch, out: SharedMut) {
        let (Sizes { l, d, .. }, start) = (self.sizes, self.sizes.start(i));
        let (stride, padded) = (self.sizes.stride(), self.sizes.padded());
        self.probabilities(i, scratch);
        let Scratch { panels, p, .. } = scratch;
        self.apply_dropout(i, p);
        pack(&self.v[start..], l, d, stride, panels);
        // SAFETY: head `i` of the output is this call's alone.
        unsafe { product(l, l, d, p, padded, panels, out.at(start), stride) };
    }

    /// Writes `dQ`, `dK` and `dV` of head `i`, given `dO`.
    ///
    /// # Safety
    /// Each of the results has the size of `q`, and no other thread accesses head `i` of them.
    pub(super) unsafe fn backward(&self, i: usize, scratch: &mut Scratch, d_out: &[f32], results: [SharedMut; 3]) {
        let (Sizes { l, d, .. }, start) = (self.sizes, self.sizes.start(i));
        let (stride, padded) = (self.sizes.stride(), self.sizes.padded());
        let (q, k, v, d_out) = (&self.q[start..], &self.k[start..], &self.v[start..], &d_out[start..]);
        self.probabilities(i, scratch);
        let Scratch { panels, p, dropped, ds, transposed, .. } = scratch;
        // SAFETY: head `i` of each result is this call's alone, and `ds` has l rows of `padded` values.
        unsafe {
            let [dq, dk, dv] = results.map(|r| r.at(start));
            dropped.copy_from_slice(p);
            self.apply_dropout(i, dropped);
            transpose(dropped, l, l, padded, transposed, l);
            pack(d_out, l, d, stride, panels);
            product(l, l, d, transposed, l, panels, dv, stride);

            pack_transposed(v, l, d, stride, panels);
            product(l, d, padded, d_out, stride, panels, ds.as_mut_ptr(), padded);
            self.apply_dropout(i, ds);
            softmax_gradient(p, ds, padded, self.sizes.scale());

            pack(k, l, d, stride, panels);
            product(l, l, d, ds, padded, panels, dq, stride);
            transpose(ds, l, l, padded, transposed, l);
            pack(q, l, d, stride, panels);
            product(l, l, d, transposed, l, panels, dk, stride);
        }
    }

    /// Fills `scratch.p` with the attention probabilities of head `i`, before dropout.
    fn probabilities(&self, i: usize, scratch: &mut Scratch) {
        let (Sizes { l, d, heads, .. }, start) = (self.sizes, self.sizes.start(i));
        let (stride, padded) = (self.sizes.stride(), self.sizes.padded());
        let Scratch { panels, keys, p, .. } = scratch;
        pack_transposed(&self.k[start..], l, d, stride, panels);
        // SAFETY: `p` has l rows of `padded` values.
        unsafe { product(l, d, padded, &self.q[start..], stride, panels, p.as_mut_ptr(), padded) };
        let some_key = self.fill_keys(i / heads, &mut keys[..l]);
        // Scaled by 0, the scores of a sequence without keys become a uniform distribution.
        softmax(p, keys, if some_key { self.sizes.scale() } else { 0.0 });
    }

    /// Writes which keys of `sequence` may be attended to; if there are none, all of them, and returns false.
    fn fill_keys(&self, sequence: usize, keys: &mut [f32]) -> bool {
        let l = keys.len();
        let mut some_key = true;
        match self.mask {
            Some(mask) => {
                let mask = &mask[sequence * l..(sequence + 1) * l];
                some_key = mask.iter().any(|m| *m > 0.5);
                keys.iter_mut().zip(mask).for_each(|(key, m)| *key = if *m > 0.5 || !some_key { 1.0 } else { 0.0 });
            }
            None => keys.fill(1.0),
        }
        some_key
    }

    /// Multiplies `[l, padded]` values of head `i` by their factors of dropout, if there is one.
    fn apply_dropout(&self, i: usize, values: &mut [f32]) {
        let l = self.sizes.l;
        if let Some(drop) = self.drop {
            for (row, values) in values.chunks_exact_mut(self.sizes.padded()).enumerate() {
                drop_values(None, &mut values[..l], drop, ((i * l + row) * l) as u64);
            }
        }
    }
}

vectorized! {
    /// Overwrites each row of scores by `softmax(scale s)` over the keys that are 1; the others get exactly 0.
    fn softmax(scores: &mut [f32], keys: &[f32], scale: f32) {
        let keys = keys.as_chunks::<LANES>().0;
        for row in scores.chunks_exact_mut(keys.len() * LANES) {
            let row = row.as_chunks_mut::<LANES>().0;
            let mut most = [f32::MIN; LANES];
            for (s, keys) in row.iter_mut().zip(keys) {
                for i in 0..LANES {
                    s[i] = mul_add::<FMA>(s[i], scale, (keys[i] - 1.0) * 1e30);
                    most[i] = if s[i] > most[i] { s[i] } else { most[i] };
                }
            }
            let most = fold(most, |a, b| if a > b { a } else { b });
            let mut total = [0.0; LANES];
            for (s, keys) in row.iter_mut().zip(keys) {
                for i in 0..LANES {
                    s[i] = exp::<FMA>(s[i] - most) * keys[i];
                    total[i] += s[i];
                }
            }
            let total = 1.0 / fold(total, |a, b| a + b);
            row.as_flattened_mut().iter_mut().for_each(|s| *s *= total);
        }
    }
}

vectorized! {
    /// Overwrites each row of `dP` by `dS = scale P * (dP - sum(dP * P))`.
    fn softmax_gradient(p: &[f32], dp: &mut [f32], padded: usize, scale: f32) {
        for (p, dp) in p.chunks_exact(padded).zip(dp.chunks_exact_mut(padded)) {
            let (p, dp) = (p.as_chunks::<LANES>().0, dp.as_chunks_mut::<LANES>().0);
            let mut dot = [0.0; LANES];
            for (p, dp) in p.iter().zip(dp.iter()) {
                for i in 0..LANES {
                    dot[i] = mul_add::<FMA>(p[i], dp[i], dot[i]);
                }
            }
            let dot = fold(dot, |a, b| a + b);
            for (p, dp) in p.iter().zip(dp.iter_mut()) {
                for i in 0..LANES {
                    dp[i] = scale * p[i] * (dp[i] - dot);
                }
            }
        }
    }
}
