//! Multi-head attention for short sequences.
//!
//! `softmax(Q K^T / sqrt(d)) V` for each head of each sequence ([`head`]), in parallel over heads, on the tensors as
//! they are: no permuted copies, and no `l x l` matrix outlives its head.

mod head;
mod product;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::autodiff::{Autodiff, NodeId};
use burn::backend::{Backend, Dispatch, ExtensionType, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::{Tensor, activation};
use rayon::prelude::*;

use crate::autodiff::backward;
use crate::backend::{FlexTensor, contiguous, dims, tensor, use_kernels, values};
use crate::dropout::{Dropout, dropout};
use crate::gemm::{SharedMut, uninit};
use head::{Inputs, Scratch, Sizes};

/// `softmax(q k^T / sqrt(d) + mask) v` per head; heads are the `heads` equal slices of the last dimension.
///
/// - `q`: `[n, queries, heads * d]`; `k`, `v`: `[n, l, heads * d]`, as the three projections of a transformer layer leave
///   them. The result has the shape of `q`.
/// - `mask`: `[n, l]`, 1 where a key may be attended to, 0 where it is padding: such keys get probability 0. A
///   sequence of padding alone attends to all its keys equally.
/// - `drop`: dropout on the attention probabilities; element `i` of its mask is that of `[n, heads, queries, l]`.
///
/// # Panics
/// If `q` is empty, the shapes do not fit together, or the dropout's probability is not in `[0, 1)`.
pub fn attention(
    q: Tensor<3>,
    k: Tensor<3>,
    v: Tensor<3>,
    mask: Option<Tensor<2>>,
    heads: usize,
    drop: Option<Dropout>,
) -> Tensor<3> {
    let ([n, queries, width], [_, l, _]) = (q.dims(), k.dims());
    assert!(n * queries * width > 0 && l > 0, "attention: empty input, q {:?} and k {:?}", q.dims(), k.dims());
    assert!(heads > 0 && width % heads == 0, "attention: width {width} cannot be cut into {heads} heads");
    assert_eq!(k.dims(), [n, l, width], "attention: k does not fit q {:?}", q.dims());
    assert_eq!(v.dims(), [n, l, width], "attention: the shapes of k and v differ");
    if let Some(mask) = &mask {
        assert_eq!(mask.dims(), [n, l], "attention: mask does not fit k {:?}", k.dims());
    }
    if let Some(drop) = &drop {
        drop.check("attention");
    }
    if !use_kernels(&q) {
        return plain(q, k, v, mask, heads, drop);
    }
    let options = Options { heads, drop };
    let mask = mask.map_or(Mask::None, |mask| Mask::Keys(mask.into_dispatch()));
    let (q, k, v) = (q.into_dispatch(), k.into_dispatch(), v.into_dispatch());
    Tensor::from_dispatch(<Dispatch as AttentionOps>::multi_head(q, k, v, mask, options))
}

/// The attention in burn's own operations.
fn plain(
    q: Tensor<3>,
    k: Tensor<3>,
    v: Tensor<3>,
    mask: Option<Tensor<2>>,
    heads: usize,
    drop: Option<Dropout>,
) -> Tensor<3> {
    let ([n, queries, width], [_, l, _]) = (q.dims(), k.dims());
    let d = width / heads;
    let split = |t: Tensor<3>| {
        let [_, length, _] = t.dims();
        t.reshape([n, length, heads, d]).swap_dims(1, 2) // [n, heads, length, d]
    };
    let (q, k, v) = (split(q), split(k), split(v));
    let mut scores = q.matmul(k.swap_dims(2, 3)).div_scalar((d as f64).sqrt()); // [n, heads, queries, l]
    if let Some(mask) = mask {
        let bias = mask.sub_scalar(1.0).mul_scalar(1e30); // 0 where attended, -1e30 where padded
        scores = scores + bias.reshape([n, 1, 1, l]);
    }
    let mut p = activation::softmax(scores, 3);
    if let Some(drop) = drop {
        p = dropout(p, drop);
    }
    p.matmul(v).swap_dims(1, 2).reshape([n, queries, width])
}

/// What is not a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    heads: usize,
    drop: Option<Dropout>,
}

/// Tensors that the kernels read, contiguous.
struct Operands {
    q: FlexTensor,
    k: FlexTensor,
    v: FlexTensor,
    mask: Option<FlexTensor>,
    options: Options,
}

impl Operands {
    fn new(q: FlexTensor, k: FlexTensor, v: FlexTensor, mask: Option<FlexTensor>, options: Options) -> Self {
        Self { q: contiguous(q), k: contiguous(k), v: contiguous(v), mask: mask.map(contiguous), options }
    }

    fn inputs(&self) -> Inputs<'_> {
        let (shape, l, Options { heads, drop }) = (dims(&self.q), dims(&self.k)[1], self.options);
        Inputs {
            q: values(&self.q),
            k: values(&self.k),
            v: values(&self.v),
            mask: self.mask.as_ref().map(values),
            drop,
            sizes: Sizes { n: shape[0], queries: shape[1], l, heads, d: shape[2] / heads },
        }
    }

    fn forward(&self) -> FlexTensor {
        let (inputs, mut out) = (self.inputs(), uninit(values(&self.q).len()));
        let (sizes, result) = (inputs.sizes, SharedMut(out.as_mut_ptr()));
        (0..sizes.n * sizes.heads).into_par_iter().for_each_init(
            || Scratch::forward(sizes),
            // SAFETY: the result has the size of q, and each head is one task.
            |scratch, i| unsafe { inputs.forward(i, scratch, result) },
        );
        tensor(out, &dims(&self.q))
    }

    /// The gradients of `q`, `k` and `v`.
    fn gradients(&self, d_out: &FlexTensor) -> [FlexTensor; 3] {
        let inputs = self.inputs();
        let (sizes, d_out) = (inputs.sizes, values(d_out));
        let mut gradients = [inputs.q, inputs.k, inputs.v].map(|values| uninit(values.len()));
        let results = gradients.each_mut().map(|g| SharedMut(g.as_mut_ptr()));
        (0..sizes.n * sizes.heads).into_par_iter().for_each_init(
            || Scratch::backward(sizes),
            // SAFETY: the results have the sizes of q, k and v, and each head is one task.
            |scratch, i| unsafe { inputs.backward(i, scratch, d_out, results) },
        );
        let [dq, dk, dv] = gradients;
        [tensor(dq, &dims(&self.q)), tensor(dk, &dims(&self.k)), tensor(dv, &dims(&self.v))]
    }
}

/// An optional mask; extension operations take no `Option`.
#[derive(ExtensionType, Clone)]
pub(crate) enum Mask<B: Backend> {
    Keys(FloatTensor<B>),
    None,
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait AttentionOps: Backend {
    fn multi_head(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] mask: Mask<Self>,
        options: Options,
    ) -> FloatTensor<Self>;
}

impl AttentionOps for Flex {
    fn multi_head(q: FlexTensor, k: FlexTensor, v: FlexTensor, mask: Mask<Self>, options: Options) -> FlexTensor {
        let mask = match mask {
            Mask::Keys(mask) => Some(mask),
            Mask::None => None,
        };
        Operands::new(q, k, v, mask, options).forward()
    }
}

impl<C: CheckpointStrategy> AttentionOps for Autodiff<Flex, C> {
    fn multi_head(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        mask: Mask<Self>,
        options: Options,
    ) -> FloatTensor<Self> {
        let mask = match mask {
            Mask::Keys(mask) => Some(mask.into_primitive()),
            Mask::None => None,
        };
        match AttentionBackward.prepare::<C>([q.node(), k.node(), v.node()]).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let [q_node, k_node, v_node] = [&q, &k, &v].map(|t| prep.checkpoint(t));
                let saved = Saved { q: q_node, k: k_node, v: v_node, mask: mask.clone(), options };
                let (q, k, v) = (q.into_primitive(), k.into_primitive(), v.into_primitive());
                prep.finish(saved, Operands::new(q, k, v, mask, options).forward())
            }
            OpsKind::UnTracked(prep) => {
                let (q, k, v) = (q.into_primitive(), k.into_primitive(), v.into_primitive());
                prep.finish(Operands::new(q, k, v, mask, options).forward())
            }
        }
    }
}

/// What the gradients are computed from.
#[derive(Clone, Debug)]
struct Saved {
    q: NodeId,
    k: NodeId,
    v: NodeId,
    mask: Option<FlexTensor>,
    options: Options,
}

#[derive(Debug)]
struct AttentionBackward;

impl Backward<Flex, 3> for AttentionBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        backward(ops, grads, |Saved { q, k, v, mask, options }, d_out, _| {
            let [q, k, v] = [q, k, v].map(|node| checkpointer.retrieve_node_output(node));
            Operands::new(q, k, v, mask, options).gradients(&d_out).map(Some)
        });
    }
}
