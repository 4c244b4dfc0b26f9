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

/// The sizes of an attention: queries and results are `[n, queries, heads * d]`, keys and values `[n, l, heads * d]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) n: usize,
    pub(super) queries: usize,
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

    /// Where the queries of head `i` (counted over all sequences) begin, and its keys.
    fn starts(self, i: usize) -> (usize, usize) {
        let start = |length: usize| i / self.heads * length * self.stride() + i % self.heads * self.d;
        (start(self.queries), start(self.l))
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
    p: Vec<f32>,          // [queries, padded]
    dropped: Vec<f32>,    // [queries, padded]
    ds: Vec<f32>,         // [queries, padded]
    transposed: Vec<f32>, // [l, queries]
}

impl Scratch {
    /// What [`Inputs::forward`] needs.
    pub(super) fn forward(sizes: Sizes) -> Self {
        let (Sizes { queries, l, d, .. }, padded) = (sizes, sizes.padded());
        Self {
            panels: uninit((d * padded).max(l.max(queries) * d.next_multiple_of(LANES))),
            keys: vec![0.0; padded],
            p: uninit(queries * padded),
            dropped: Vec::new(),
            ds: Vec::new(),
            transposed: Vec::new(),
        }
    }

    /// What [`Inputs::backward`] needs.
    pub(super) fn backward(sizes: Sizes) -> Self {
        let scores = sizes.queries * sizes.padded();
        let transposed = uninit(sizes.l * sizes.queries);
        Self { dropped: uninit(scores), ds: uninit(scores), transposed, ..Self::forward(sizes) }
    }
}

impl Inputs<'_> {
    /// Writes `O` of head `i` to `out`.
    ///
    /// # Safety
    /// `out` has the size of `q`, and no other thread accesses head `i` of it.
    pub(super) unsafe fn forward(&self, i: usize, scratch: &mut Scratch, out: SharedMut) {
        let (Sizes { queries, l, d, .. }, (query, key)) = (self.sizes, self.sizes.starts(i));
        let (stride, padded) = (self.sizes.stride(), self.sizes.padded());
        self.probabilities(i, scratch);
        let Scratch { panels, p, .. } = scratch;
        self.apply_dropout(i, p);
        pack(&self.v[key..], l, d, stride, panels);
        // SAFETY: head `i` of the output is this call's alone.
        unsafe { product([queries, l, d], (p, padded), panels, (out.at(query), stride)) };
    }

    /// Writes `dQ`, `dK` and `dV` of head `i`, given `dO`.
    ///
    /// # Safety
    /// The results have the sizes of `q`, `k` and `v`, and no other thread accesses head `i` of them.
    pub(super) unsafe fn backward(&self, i: usize, scratch: &mut Scratch, d_out: &[f32], results: [SharedMut; 3]) {
        let (Sizes { queries, l, d, .. }, (query, key)) = (self.sizes, self.sizes.starts(i));
        let (stride, padded) = (self.sizes.stride(), self.sizes.padded());
        let (q, k, v, d_out) = (&self.q[query..], &self.k[key..], &self.v[key..], &d_out[query..]);
        self.probabilities(i, scratch);
        let Scratch { panels, p, dropped, ds, transposed, .. } = scratch;
        // SAFETY: head `i` of each result is this call's alone, and `ds` has a row of `padded` values for each query.
        unsafe {
            let [dq, dk, dv] = results;
            let (dq, dk, dv) = (dq.at(query), dk.at(key), dv.at(key));
            dropped.copy_from_slice(p);
            self.apply_dropout(i, dropped);
            transpose(dropped, queries, l, padded, transposed, queries);
            pack(d_out, queries, d, stride, panels);
            product([l, queries, d], (transposed, queries), panels, (dv, stride));

            pack_transposed(v, l, d, stride, panels);
            product([queries, d, padded], (d_out, stride), panels, (ds.as_mut_ptr(), padded));
            self.apply_dropout(i, ds);
            softmax_gradient(p, ds, padded, self.sizes.scale());

            pack(k, l, d, stride, panels);
            product([queries, l, d], (ds, padded), panels, (dq, stride));
            transpose(ds, queries, l, padded, transposed, queries);
            pack(q, queries, d, stride, panels);
            product([l, queries, d], (transposed, queries), panels, (dk, stride));
        }
    }

    /// Fills `scratch.p` with the attention probabilities of head `i`, before dropout.
    fn probabilities(&self, i: usize, scratch: &mut Scratch) {
        let (Sizes { queries, l, d, heads, .. }, (query, key)) = (self.sizes, self.sizes.starts(i));
        let (stride, padded) = (self.sizes.stride(), self.sizes.padded());
        let Scratch { panels, keys, p, .. } = scratch;
        pack_transposed(&self.k[key..], l, d, stride, panels);
        // SAFETY: `p` has a row of `padded` values for each query.
        unsafe { product([queries, d, padded], (&self.q[query..], stride), panels, (p.as_mut_ptr(), padded)) };
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

    /// Multiplies `[queries, padded]` values of head `i` by their factors of dropout, if there is one.
    fn apply_dropout(&self, i: usize, values: &mut [f32]) {
        let Sizes { queries, l, .. } = self.sizes;
        if let Some(drop) = self.drop {
            for (row, values) in values.chunks_exact_mut(self.sizes.padded()).enumerate() {
                drop_values(None, &mut values[..l], drop, ((i * queries + row) * l) as u64);
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
