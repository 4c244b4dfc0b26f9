//! The bookkeeping that every hand-written backward pass shares.
//!
//! An operation attaches to burn in four steps; [`activation`](crate::activation) is the shortest example:
//! 1. a trait `XOps: Backend` under `#[backend_extension(Autodiff, Flex)]`;
//! 2. its implementation for `Flex`: the kernel;
//! 3. its implementation for `Autodiff<Flex, C>`: prepares the graph node and saves what the gradient needs;
//! 4. an implementation of burn's `Backward`, which calls [`backward`].

use burn::backend::Flex;
use burn::backend::autodiff::{grads::Gradients, ops::Ops};

use crate::backend::{FlexTensor, contiguous};

/// Turns the gradient of an operation's result into those of its inputs.
///
/// `gradients` gets the operation's state, the gradient of its result (contiguous) and which inputs are tracked; it
/// returns one gradient for each tracked input.
pub(crate) fn backward<S, const N: usize>(
    ops: Ops<S, N>,
    grads: &mut Gradients,
    gradients: impl FnOnce(S, FlexTensor, [bool; N]) -> [Option<FlexTensor>; N],
) {
    let dy = contiguous(grads.consume::<Flex>(&ops.node));
    let tracked = ops.parents.each_ref().map(Option::is_some);
    for (parent, gradient) in ops.parents.into_iter().zip(gradients(ops.state, dy, tracked)) {
        if let (Some(parent), Some(gradient)) = (parent, gradient) {
            grads.register::<Flex>(parent.id, gradient);
        }
    }
}
