//! Sum of two tensors: the end of a residual block.
//!
//! The gradient of both inputs is that of the sum: the same values, shared, not copied.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::{Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::autodiff::backward;
use crate::backend::{FlexTensor, contiguous, use_kernels, values};
use crate::elementwise::{Source, map2, transform};
use crate::simd::vectorized;

/// `x + y` of two tensors of the same shape.
///
/// # Panics
/// If the shapes differ or are empty.
pub fn add<const D: usize>(x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
    assert_eq!(x.dims(), y.dims(), "add: the shapes differ");
    assert!(x.shape().num_elements() > 0, "add: empty input {:?}", x.dims());
    if use_kernels(&x) {
        Tensor::from_dispatch(<Dispatch as AddOps>::sum_of_two(x.into_dispatch(), y.into_dispatch()))
    } else {
        x + y
    }
}

vectorized! {
    fn add_values(x: Source, y: &[f32], sum: &mut [f32]) {
        map2(x, y, sum, |x, y| x + y);
    }
}

/// `x + y`, in the place of the one that nothing else refers to, if there is one.
pub(crate) fn add_tensors(x: FlexTensor, y: FlexTensor) -> FlexTensor {
    let (x, y) = if x.is_unique() { (x, contiguous(y)) } else { (y, contiguous(x)) };
    let y = values(&y);
    transform(x, |start, x, sum| add_values(x, &y[start..start + sum.len()], sum))
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait AddOps: Backend {
    fn sum_of_two(x: FloatTensor<Self>, y: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl AddOps for Flex {
    fn sum_of_two(x: FlexTensor, y: FlexTensor) -> FlexTensor {
        add_tensors(x, y)
    }
}

impl<C: CheckpointStrategy> AddOps for Autodiff<Flex, C> {
    fn sum_of_two(x: FloatTensor<Self>, y: FloatTensor<Self>) -> FloatTensor<Self> {
        let prep = AddBackward.prepare::<C>([x.node(), y.node()]).compute_bound();
        prep.stateless(add_tensors(x.into_primitive(), y.into_primitive()))
    }
}

#[derive(Debug)]
struct AddBackward;

impl Backward<Flex, 2> for AddBackward {
    type State = ();

    fn backward(self, ops: Ops<(), 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        backward(ops, grads, |(), d, [x, y]| {
            let dx = x.then(|| d.clone());
            [dx, y.then_some(d)]
        });
    }
}
