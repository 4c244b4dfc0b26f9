//! The transformer layer that BERT and DistilBERT share: post-norm, as in Vaswani et al. 2017.
//!
//! ```text
//! a = LayerNorm(x + Dropout(W_o attention(W_q x, W_k x, W_v x)))
//! y = LayerNorm(a + Dropout(W_2 gelu(W_1 a)))
//! ```
//! The two networks differ in names and in where they drop activations, so each lends its own layers to a [`Block`].

use burn::tensor::Tensor;
use covmatch_kernels::{attention, gelu};

use crate::encoders::layers::{LayerNorm, Linear};
use crate::encoders::{Mode, macs};

/// The layers of one transformer layer, borrowed from the network that owns and names them.
pub(super) struct Block<'a> {
    pub(super) query: &'a Linear,
    pub(super) key: &'a Linear,
    pub(super) value: &'a Linear,
    pub(super) attention_output: &'a Linear,
    pub(super) attention_norm: &'a LayerNorm,
    pub(super) intermediate: &'a Linear,
    pub(super) output: &'a Linear,
    pub(super) output_norm: &'a LayerNorm,
    pub(super) form: BlockForm,
}

/// Heads and dropout probabilities of a transformer layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BlockForm {
    pub(super) heads: usize,
    /// Dropout of the attention probabilities.
    pub(super) probabilities_dropout: f32,
    /// Dropout after the attention's output projection.
    pub(super) attention_dropout: f32,
    /// Dropout after the second feed-forward layer.
    pub(super) output_dropout: f32,
}

impl Block<'_> {
    /// `hidden` `[n, l, d_l]` to the next layer's `[n, l, d_l]`.
    pub(super) fn forward(&self, hidden: Tensor<3>, mask: Tensor<2>, mode: &mut Mode) -> Tensor<3> {
        let context = self.attend(hidden.clone(), hidden.clone(), mask, mode);
        self.feed_forward(context, hidden, mode)
    }

    /// Position 0 of [`Block::forward`], `[n, 1, d_l]`: of the others, only keys and values are computed.
    pub(super) fn forward_first(&self, hidden: Tensor<3>, mask: Tensor<2>, mode: &mut Mode) -> Tensor<3> {
        let first = hidden.clone().narrow(1, 0, 1);
        let context = self.attend(first.clone(), hidden, mask, mode);
        self.feed_forward(context, first, mode)
    }

    /// What the positions `from` `[n, queries, d_l]` gather from those of `hidden` `[n, l, d_l]` that `mask` lets them
    /// see.
    fn attend(&self, from: Tensor<3>, hidden: Tensor<3>, mask: Tensor<2>, mode: &mut Mode) -> Tensor<3> {
        let ([n, queries, width], [_, l, _]) = (from.dims(), hidden.dims());
        macs::record(2 * (n * queries * l * width) as u64); // scores and weighted sum
        let drop = mode.next_dropout(self.form.probabilities_dropout);
        let (query, key) = (self.query.forward(from), self.key.forward(hidden.clone()));
        attention(query, key, self.value.forward(hidden), Some(mask), self.form.heads, drop)
    }

    /// The rest of the layer, which treats positions one by one.
    fn feed_forward(&self, context: Tensor<3>, hidden: Tensor<3>, mode: &mut Mode) -> Tensor<3> {
        let attended = mode.dropout(self.attention_output.forward(context), self.form.attention_dropout);
        let attended = self.attention_norm.forward_sum(attended, hidden);
        let output = self.output.forward(gelu(self.intermediate.forward(attended.clone())));
        self.output_norm.forward_sum(mode.dropout(output, self.form.output_dropout), attended)
    }
}
