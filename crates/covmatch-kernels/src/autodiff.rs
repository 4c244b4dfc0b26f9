//! The bookkeeping that every hand-written backward pass shares.
//!
//! An operation attaches to burn in four steps; [`activation`](crate::activation) is the shortest example:
//! 1. a trait `XOps: Backend` under `#[backend_extension(Autodiff, Flex)]`;
//! 2. its implementation for `Flex`: the kernel;
//! 3. its implementation for `Autodiff<Flex, C>`: prepares the graph node and saves what the gradient needs;
//! 4. an implementation of burn's `Backward`, which calls [`backward`].

use std::cell::RefCell;
use std::collections::HashSet;

use burn::backend::Flex;
use burn::backend::autodiff::{grads::Gradients, ops::Ops};

use crate::add::add_tensors;
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
    Waiting::end(ops.node.id.value);
    for (parent, gradient) in ops.parents.into_iter().zip(gradients(ops.state, dy, tracked)) {
        if let (Some(parent), Some(gradient)) = (parent, gradient) {
            // burn adds gradients on one thread. A leaf's stays with burn, which hands out copies of it.
            let ours = !parent.parents.is_empty() && Waiting::begin(parent.id.value);
            let gradient = if ours { add_tensors(gradient, grads.consume::<Flex>(&parent)) } else { gradient };
            grads.register::<Flex>(parent.id, gradient);
        }
    }
}

thread_local! {
    static WAITING: RefCell<HashSet<u64>> = RefCell::default();
}

/// The nodes of this thread's backward pass that already have a gradient from an operation of this crate.
///
/// A node's gradient is taken only when all its users have added theirs, so a node in here has one. Nodes never share a
/// number; one that is missing merely has its gradients added by burn.
struct Waiting;

impl Waiting {
    /// Nodes of burn's own operations are never taken out; forgetting all of them now and then bounds the memory.
    const MOST: usize = 4096;

    /// Notes that `node` gets a gradient. Returns whether it had one.
    fn begin(node: u64) -> bool {
        WAITING.with_borrow_mut(|waiting| {
            if waiting.len() >= Self::MOST {
                waiting.clear();
            }
            !waiting.insert(node)
        })
    }

    /// Notes that the gradient of `node` has been taken.
    fn end(node: u64) {
        WAITING.with_borrow_mut(|waiting| waiting.remove(&node));
    }
}
