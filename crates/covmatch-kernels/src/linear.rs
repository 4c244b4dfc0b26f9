//! Fully connected layer.
//!
//! With the rows of all leading dimensions in one matrix, `Y = X W^T + b`, `dX = dY W`, `dW = dY^T X` and
//! `db = sum of dY's rows`. `X` is kept only if `W` is tracked, and `W` only if `X` is.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::autodiff::{Autodiff, NodeId};
use burn::backend::{Backend, Dispatch, ExtensionType, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::autodiff::backward;
use crate::backend::{FlexTensor, contiguous, dims, tensor, use_kernels, values};
use crate::counters;
use crate::gemm::{Clamp, Matrix, Start, product};
use crate::row_sums::sum_rows;

/// `x W^T + b` over the last dimension: `x` `[.., in]`, `weight` `[out, in]` as PyTorch stores it, `bias` `[out]`.
///
/// # Panics
/// If `x` is empty or the sizes do not fit together.
pub fn linear<const D: usize>(x: Tensor<D>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<D> {
    let ([d_out, d_in], shape) = (weight.dims(), x.dims());
    assert!(x.shape().num_elements() > 0, "linear: empty input {shape:?}");
    assert_eq!(shape[D - 1], d_in, "linear: input {shape:?} does not fit weight [{d_out}, {d_in}]");
    if let Some(bias) = &bias {
        assert_eq!(bias.dims(), [d_out], "linear: bias does not fit weight [{d_out}, {d_in}]");
    }
    if use_kernels(&x) {
        let bias = bias.map_or(Bias::None, |b| Bias::Vector(b.into_dispatch()));
        Tensor::from_dispatch(<Dispatch as LinearOps>::dense(x.into_dispatch(), weight.into_dispatch(), bias))
    } else {
        plain(x, weight, bias)
    }
}

/// The layer in burn's own operations.
fn plain<const D: usize>(x: Tensor<D>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<D> {
    let mut shape = x.dims();
    let (d_in, d_out) = (shape[D - 1], weight.dims()[0]);
    let rows = shape.iter().product::<usize>() / d_in;
    let y = x.reshape([rows, d_in]).matmul(weight.transpose());
    let y = match bias {
        Some(b) => y + b.unsqueeze(),
        None => y,
    };
    shape[D - 1] = d_out;
    y.reshape(shape)
}

/// `x W^T + b`.
fn forward(x: FlexTensor, weight: FlexTensor, bias: Option<FlexTensor>) -> FlexTensor {
    let (x, weight, bias) = (contiguous(x), contiguous(weight), bias.map(contiguous));
    let (w, mut shape) = (matrix(&weight), dims(&x));
    let start = bias.as_ref().map_or(Start::Zero, |b| Start::Bias(values(b)));
    let y = product(matrix(&x), w.t(), start, Clamp::NONE);
    replace_last(&mut shape, dims(&weight)[0]);
    tensor(y, &shape)
}

/// The size of the last dimension.
fn columns(t: &FlexTensor) -> usize {
    dims(t).last().copied().unwrap_or(1)
}

/// The values of a contiguous tensor, the leading dimensions as rows.
fn matrix(t: &FlexTensor) -> Matrix<'_> {
    Matrix::new(values(t), values(t).len() / columns(t), columns(t))
}

fn replace_last(shape: &mut [usize], size: usize) {
    if let Some(last) = shape.last_mut() {
        *last = size;
    }
}

/// `dY W`.
fn input_gradient(dy: &FlexTensor, weight: FlexTensor) -> FlexTensor {
    counters::count_input_gradient();
    let (weight, mut shape) = (contiguous(weight), dims(dy));
    let dx = product(matrix(dy), matrix(&weight), Start::Zero, Clamp::NONE);
    replace_last(&mut shape, dims(&weight)[1]);
    tensor(dx, &shape)
}

/// `dY^T X`.
fn weight_gradient(dy: &FlexTensor, x: FlexTensor) -> FlexTensor {
    counters::count_weight_gradient();
    let x = contiguous(x);
    let dw = product(matrix(dy).t(), matrix(&x), Start::Zero, Clamp::NONE);
    tensor(dw, &[columns(dy), columns(&x)])
}

/// The sum of the rows of `dY`.
fn bias_gradient(dy: &FlexTensor) -> FlexTensor {
    tensor(sum_rows(values(dy), columns(dy)), &[columns(dy)])
}

/// An optional bias; extension operations take no `Option`.
#[derive(ExtensionType, Clone)]
pub(crate) enum Bias<B: Backend> {
    Vector(FloatTensor<B>),
    None,
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait LinearOps: Backend {
    fn dense(x: FloatTensor<Self>, weight: FloatTensor<Self>, #[extension_type] bias: Bias<Self>) -> FloatTensor<Self>;
}

impl LinearOps for Flex {
    fn dense(x: FlexTensor, weight: FlexTensor, bias: Bias<Self>) -> FlexTensor {
        match bias {
            Bias::Vector(bias) => forward(x, weight, Some(bias)),
            Bias::None => forward(x, weight, None),
        }
    }
}

impl<C: CheckpointStrategy> LinearOps for Autodiff<Flex, C> {
    fn dense(x: FloatTensor<Self>, weight: FloatTensor<Self>, bias: Bias<Self>) -> FloatTensor<Self> {
        let (x_tracked, weight_tracked) = (x.is_tracked(), weight.is_tracked());
        // The two arities of `LinearBackward` differ in type only.
        macro_rules! attach {
            ($nodes:expr, $bias:expr) => {
                match LinearBackward.prepare::<C>($nodes).compute_bound().stateful() {
                    OpsKind::Tracked(mut prep) => {
                        let saved = Saved {
                            x: weight_tracked.then(|| prep.checkpoint(&x)),
                            weight: x_tracked.then(|| weight.primitive().clone()),
                        };
                        prep.finish(saved, forward(x.into_primitive(), weight.into_primitive(), $bias))
                    }
                    OpsKind::UnTracked(prep) => {
                        prep.finish(forward(x.into_primitive(), weight.into_primitive(), $bias))
                    }
                }
            };
        }
        match bias {
            Bias::Vector(bias) => attach!([x.node(), weight.node(), bias.node()], Some(bias.into_primitive())),
            Bias::None => attach!([x.node(), weight.node()], None),
        }
    }
}

/// What the gradients are computed from.
#[derive(Clone, Debug)]
struct Saved {
    x: Option<NodeId>,
    weight: Option<FlexTensor>,
}

impl Saved {
    /// The gradients of `x` and `weight`.
    fn gradients(self, dy: &FlexTensor, checkpointer: &mut Checkpointer) -> (Option<FlexTensor>, Option<FlexTensor>) {
        let dx = self.weight.map(|weight| input_gradient(dy, weight));
        let dw = self.x.map(|x| weight_gradient(dy, checkpointer.retrieve_node_output(x)));
        (dx, dw)
    }
}

#[derive(Debug)]
struct LinearBackward;

impl Backward<Flex, 2> for LinearBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        backward(ops, grads, |saved, dy, _| {
            let (dx, dw) = saved.gradients(&dy, checkpointer);
            [dx, dw]
        });
    }
}

impl Backward<Flex, 3> for LinearBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        backward(ops, grads, |saved, dy, [_, _, bias]| {
            let (dx, dw) = saved.gradients(&dy, checkpointer);
            [dx, dw, bias.then(|| bias_gradient(&dy))]
        });
    }
}
