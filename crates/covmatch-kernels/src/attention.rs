//! Multi-head attention for short sequences.

use burn::tensor::{Tensor, activation};

use crate::{Dropout, dropout};

/// `softmax(q k^T / sqrt(d) + mask) v` per head; heads are the `heads` equal slices of the last dimension.
///
/// - `q`, `k`, `v`: `[n, l, heads * d]`, as the three projections of a transformer layer leave them.
/// - `mask`: `[n, l]`, 1 where a key may be attended to, 0 where it is padding. Every row needs at least one 1.
/// - `drop`: dropout on the attention probabilities.
pub fn attention(
    q: Tensor<3>,
    k: Tensor<3>,
    v: Tensor<3>,
    mask: Option<Tensor<2>>,
    heads: usize,
    drop: Option<Dropout>,
) -> Tensor<3> {
    let [n, l, width] = q.dims();
    let d = width / heads;
    let split = |t: Tensor<3>| t.reshape([n, l, heads, d]).swap_dims(1, 2); // [n, heads, l, d]
    let (q, k, v) = (split(q), split(k), split(v));
    let mut scores = q.matmul(k.swap_dims(2, 3)).div_scalar((d as f64).sqrt()); // [n, heads, l, l]
    if let Some(mask) = mask {
        let bias = mask.sub_scalar(1.0).mul_scalar(1e30); // 0 where attended, -1e30 where padded
        scores = scores + bias.reshape([n, 1, 1, l]);
    }
    let mut p = activation::softmax(scores, 3);
    if let Some(drop) = drop {
        p = dropout(p, drop);
    }
    p.matmul(v).swap_dims(1, 2).reshape([n, l, width])
}
