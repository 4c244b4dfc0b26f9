//! An activation with kinks whose units stay on the piece that they were on elsewhere.
//!
//! ```text
//! y = x    where low < at < high          at: the activation's result at another point
//! y = at   elsewhere                      (a bound)
//! ```
//! The gradient of `x` is that of `y` where `low < at < high` and 0 elsewhere, so `y` is linear in `x`.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::autodiff::backward;
use crate::backend::{FlexTensor, contiguous, use_kernels, values};
use crate::conv2d::Epilogue;
use crate::elementwise::{Source, map2, transform};
use crate::gemm::Clamp;
use crate::simd::vectorized;

/// `epilogue` of `x` on the pieces of `at`, its result at another point.
///
/// # Panics
/// If the shapes differ or are empty.
pub fn hold<const D: usize>(x: Tensor<D>, at: Tensor<D>, epilogue: Epilogue) -> Tensor<D> {
    assert_eq!(x.dims(), at.dims(), "hold: the shapes differ");
    assert!(x.shape().num_elements() > 0, "hold: empty input {:?}", x.dims());
    let bounds = epilogue.clamp();
    if use_kernels(&x) {
        return Tensor::from_dispatch(<Dispatch as HoldOps>::hold_pieces(
            x.into_dispatch(),
            at.into_dispatch(),
            bounds,
        ));
    }
    let at = at.detach();
    let inside = at.clone().greater_elem(bounds.low).bool_and(at.clone().lower_elem(bounds.high));
    at.mask_where(inside, x)
}

vectorized! {
    fn held_values(x: Source, at: &[f32], y: &mut [f32], low: f32, high: f32) {
        map2(x, at, y, |x, at| if at > low && at < high { x } else { at });
    }
}

vectorized! {
    fn held_gradient(d: Source, at: &[f32], dx: &mut [f32], low: f32, high: f32) {
        map2(d, at, dx, |d, at| if at > low && at < high { d } else { 0.0 });
    }
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait HoldOps: Backend {
    fn hold_pieces(x: FloatTensor<Self>, at: FloatTensor<Self>, bounds: Clamp) -> FloatTensor<Self>;
}

impl HoldOps for Flex {
    fn hold_pieces(x: FlexTensor, at: FlexTensor, Clamp { low, high }: Clamp) -> FlexTensor {
        let at = contiguous(at);
        let at = values(&at);
        transform(x, |start, x, y| held_values(x, &at[start..start + y.len()], y, low, high))
    }
}

impl<C: CheckpointStrategy> HoldOps for Autodiff<Flex, C> {
    fn hold_pieces(x: FloatTensor<Self>, at: FloatTensor<Self>, bounds: Clamp) -> FloatTensor<Self> {
        let at = at.into_primitive();
        match HoldBackward.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let y = Flex::hold_pieces(x.into_primitive(), at.clone(), bounds);
                prep.finish((at, bounds), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::hold_pieces(x.into_primitive(), at, bounds)),
        }
    }
}

#[derive(Debug)]
struct HoldBackward;

impl Backward<Flex, 1> for HoldBackward {
    type State = (FlexTensor, Clamp);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        backward(ops, grads, |(at, Clamp { low, high }), d, _| {
            let at = contiguous(at);
            let at = values(&at);
            [Some(transform(d, |start, d, dx| held_gradient(d, &at[start..start + dx.len()], dx, low, high)))]
        });
    }
}
