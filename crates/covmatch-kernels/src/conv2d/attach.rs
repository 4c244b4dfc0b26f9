//! Ties the convolution kernels to burn: the operation on Flex and its gradient in the autodiff graph.

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::autodiff::{Autodiff, NodeId};
use burn::backend::{Backend, Dispatch, ExtensionType, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use super::geometry::Geometry;
use super::{Conv2dOptions, Epilogue, Prologue, kernels};
use crate::activation::{Activation, ActivationOps};
use crate::autodiff::backward;
use crate::backend::{FlexTensor, contiguous, dims, tensor, values, values_mut};
use crate::elementwise::overwrite;

/// A bias or none.
#[derive(ExtensionType, Clone)]
pub enum Bias<B: Backend> {
    /// One value for each output channel.
    Some(FloatTensor<B>),
    /// No bias.
    None,
}

/// The convolution as an operation of a backend.
#[backend_extension(Autodiff, Flex)]
pub trait Conv2dOps: Backend {
    /// See [`conv2d`](crate::conv2d()).
    fn covmatch_conv2d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        #[extension_type] bias: Bias<Self>,
        options: Conv2dOptions,
    ) -> FloatTensor<Self>;
}

/// Runs the operation on the backend that holds the tensors.
pub(super) fn conv2d(x: Tensor<4>, weight: Tensor<4>, bias: Option<Tensor<1>>, options: Conv2dOptions) -> Tensor<4> {
    let bias = bias.map_or(Bias::None, |bias| Bias::Some(bias.into_dispatch()));
    Tensor::from_dispatch(<Dispatch as Conv2dOps>::covmatch_conv2d(
        x.into_dispatch(),
        weight.into_dispatch(),
        bias,
        options,
    ))
}

impl Conv2dOps for Flex {
    fn covmatch_conv2d(x: FlexTensor, weight: FlexTensor, bias: Bias<Flex>, options: Conv2dOptions) -> FlexTensor {
        let bias = match bias {
            Bias::Some(bias) => Some(bias),
            Bias::None => None,
        };
        forward(x, weight, bias, options).0
    }
}

impl Prologue {
    const SILU: Activation = Activation::Silu { scale: 1.0 };

    /// What is convolved; in the place of `x` if nothing else refers to it.
    fn apply(self, x: FlexTensor) -> FlexTensor {
        match self {
            Prologue::None => x,
            Prologue::Silu => Flex::activate(x, Self::SILU),
        }
    }

    /// The gradient of `x` from that of what is convolved.
    fn backward(self, d: FlexTensor, x: FlexTensor) -> FlexTensor {
        match self {
            Prologue::None => d,
            Prologue::Silu => Self::SILU.backward(d, x),
        }
    }
}

fn forward(x: FlexTensor, w: FlexTensor, bias: Option<FlexTensor>, options: Conv2dOptions) -> (FlexTensor, Geometry) {
    let (x, w, bias) = (contiguous(options.prologue.apply(x)), contiguous(w), bias.map(contiguous));
    let g = Geometry::new(four(&x), four(&w), options);
    let y = kernels::forward(&g, values(&x), values(&w), bias.as_ref().map(values), options.epilogue);
    (tensor(y, &[g.n, g.oh, g.ow, g.co]), g)
}

fn four(t: &FlexTensor) -> [usize; 4] {
    let dims = dims(t);
    [dims[0], dims[1], dims[2], dims[3]]
}

/// What the backward pass needs.
#[derive(Clone, Debug)]
struct State {
    geometry: Geometry,
    prologue: Prologue,
    epilogue: Epilogue,
    /// The input before the prologue, if the weight is tracked or the prologue's gradient depends on it.
    x: Option<NodeId>,
    /// The weight, if the input is tracked.
    weight: Option<FlexTensor>,
    /// The result, if the epilogue's gradient depends on it.
    y: Option<FlexTensor>,
}

impl State {
    /// Gradients of input, weight and bias, each if it is tracked.
    fn gradients(self, dy: FlexTensor, tracked: [bool; 3], checkpointer: &mut Checkpointer) -> [Option<FlexTensor>; 3] {
        let Self { geometry: g, prologue, epilogue, x, weight, y } = self;
        let (mut dy, mut db) = (dy, None);
        if let Some(y) = y {
            match values_mut(&mut dy) {
                Some(dy) if tracked[2] => db = Some(kernels::epilogue_and_bias_gradient(epilogue, &g, values(&y), dy)),
                _ => dy = overwrite(dy, |start, dy| kernels::epilogue_gradient(epilogue, &values(&y)[start..], dy)),
            }
        }
        let x = x.map(|x| contiguous(checkpointer.retrieve_node_output::<FlexTensor>(x)));
        let dy = values(&dy);
        let dw = x.as_ref().filter(|_| tracked[1]).map(|x| {
            let input = prologue.apply(x.clone());
            tensor(kernels::weight_gradient(&g, values(&input), dy), &[g.co, g.ci_group(), g.k, g.k])
        });
        let dx = weight.filter(|_| tracked[0]).map(|weight| {
            let weight = contiguous(weight);
            let d = tensor(kernels::input_gradient(&g, dy, values(&weight)), &[g.n, g.h, g.w, g.ci]);
            match x {
                Some(x) => prologue.backward(d, x),
                None => d,
            }
        });
        let db = tracked[2].then(|| db.unwrap_or_else(|| kernels::bias_gradient(&g, dy)));
        [dx, dw, db.map(|db| tensor(db, &[g.co]))]
    }
}

#[derive(Debug)]
struct Conv2dBackward;

impl Backward<Flex, 3> for Conv2dBackward {
    type State = State;

    fn backward(self, ops: Ops<State, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        backward(ops, grads, |state, dy, tracked| state.gradients(dy, tracked, checkpointer));
    }
}

impl Backward<Flex, 2> for Conv2dBackward {
    type State = State;

    fn backward(self, ops: Ops<State, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        backward(ops, grads, |state, dy, [x, weight]| {
            let [dx, dw, _] = state.gradients(dy, [x, weight, false], checkpointer);
            [dx, dw]
        });
    }
}

impl<C: CheckpointStrategy> Conv2dOps for Autodiff<Flex, C> {
    fn covmatch_conv2d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Bias<Self>,
        options: Conv2dOptions,
    ) -> FloatTensor<Self> {
        // With and without bias the graph node has a different number of parents, which is part of its type.
        macro_rules! attach {
            ($prepared:expr, $bias:expr) => {
                match $prepared.compute_bound().stateful() {
                    OpsKind::Tracked(mut prep) => {
                        let keep_x = weight.is_tracked() || options.prologue != Prologue::None;
                        let saved_x = keep_x.then(|| prep.checkpoint(&x));
                        let saved_weight = x.is_tracked().then(|| weight.primitive().clone());
                        let (y, geometry) = forward(x.into_primitive(), weight.into_primitive(), $bias, options);
                        let Conv2dOptions { prologue, epilogue, .. } = options;
                        let saved_y = (epilogue != Epilogue::None).then(|| y.clone());
                        let state =
                            State { geometry, prologue, epilogue, x: saved_x, weight: saved_weight, y: saved_y };
                        prep.finish(state, y)
                    }
                    OpsKind::UnTracked(prep) => {
                        prep.finish(forward(x.into_primitive(), weight.into_primitive(), $bias, options).0)
                    }
                }
            };
        }
        match bias {
            Bias::Some(bias) => {
                let nodes = [x.node(), weight.node(), bias.node()];
                attach!(Backward::<Flex, 3>::prepare::<C>(Conv2dBackward, nodes), Some(bias.into_primitive()))
            }
            Bias::None => {
                attach!(Backward::<Flex, 2>::prepare::<C>(Conv2dBackward, [x.node(), weight.node()]), None)
            }
        }
    }
}
