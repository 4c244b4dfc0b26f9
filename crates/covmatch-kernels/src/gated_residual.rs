//! A gated branch added to its shortcut: the end of a squeeze-excite block.
//!
//! With incoming gradient `d`, `p` over the pixels of an image:
//!
//! ```text
//! y[p, c]     = scale gate[c] branch[p, c] + shortcut[p, c]
//! d_branch    = scale gate[c] d[p, c]
//! d_gate[c]   = scale sum_p branch[p, c] d[p, c]
//! d_shortcut  = d                                              shared, not copied
//! ```

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::autodiff::{Autodiff, NodeId};
use burn::backend::{Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;
use rayon::prelude::*;

use crate::autodiff::backward;
use crate::backend::{FlexTensor, contiguous, dims, tensor, use_kernels, values};
use crate::elementwise::overwrite_rows;
use crate::math::mul_add;
use crate::simd::vectorized;

/// `scale * gate * branch + shortcut`, where each channel of each image has its gate: the end of a squeeze-excite block.
///
/// `branch` and `shortcut` `[n, h, w, c]`, `gate` `[n, c]`.
///
/// # Panics
/// If the batch is empty or the shapes do not fit each other.
pub fn gated_residual(branch: Tensor<4>, gate: Tensor<2>, shortcut: Tensor<4>, scale: f32) -> Tensor<4> {
    let [n, h, w, c] = branch.dims();
    assert!(n > 0, "gated_residual: empty batch");
    assert!(h * w * c > 0, "gated_residual: empty image of {h} x {w} x {c}");
    assert_eq!(shortcut.dims(), branch.dims(), "gated_residual: shapes of shortcut and branch");
    assert_eq!(gate.dims(), [n, c], "gated_residual: shape of the gate");
    if !use_kernels(&branch) {
        return branch * gate.mul_scalar(scale).reshape([n, 1, 1, c]) + shortcut;
    }
    let (branch, gate, shortcut) = (branch.into_dispatch(), gate.into_dispatch(), shortcut.into_dispatch());
    Tensor::from_dispatch(<Dispatch as GatedResidualOps>::gated_sum(branch, gate, shortcut, scale))
}

#[backend_extension(Autodiff, Flex)]
pub(crate) trait GatedResidualOps: Backend {
    fn gated_sum(
        branch: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        shortcut: FloatTensor<Self>,
        scale: f32,
    ) -> FloatTensor<Self>;
}

impl GatedResidualOps for Flex {
    fn gated_sum(branch: FlexTensor, gate: FlexTensor, shortcut: FlexTensor, scale: f32) -> FlexTensor {
        forward(branch, gate, shortcut, scale)
    }
}

/// The result, in the place of the branch or the shortcut if nothing else refers to it.
fn forward(branch: FlexTensor, gate: FlexTensor, shortcut: FlexTensor, scale: f32) -> FlexTensor {
    let gate = Gate::new(&branch, gate);
    if branch.is_unique() {
        let shortcut = contiguous(shortcut);
        gate.map_pixels(branch, |at, gate, branch| gate_then_add(branch, gate, &values(&shortcut)[at..], scale))
    } else {
        let branch = contiguous(branch);
        gate.map_pixels(shortcut, |at, gate, shortcut| add_gated(shortcut, gate, &values(&branch)[at..], scale))
    }
}

/// The gates of a batch and where they apply.
struct Gate {
    /// `[n, c]`
    values: FlexTensor,
    channels: usize,
    /// Pixels of an image.
    pixels: usize,
}

impl Gate {
    fn new(branch: &FlexTensor, gate: FlexTensor) -> Self {
        let shape = dims(branch); // [n, h, w, c]
        Self { values: contiguous(gate), channels: shape[3], pixels: shape[1] * shape[2] }
    }

    /// Overwrites each pixel of `x`: `kernel(position of its first value, gates of its image, its values)`.
    fn map_pixels(&self, x: FlexTensor, kernel: impl Fn(usize, &[f32], &mut [f32]) + Sync) -> FlexTensor {
        let (c, gates) = (self.channels, values(&self.values));
        let (y, _) = overwrite_rows(
            x,
            c,
            || (),
            |(), pixel, row| {
                kernel(pixel * c, &gates[pixel / self.pixels * c..][..c], row);
            },
        );
        y
    }
}

/// `scale sum_p branch[p, c] d[p, c]` for each image, `[n, c]`.
fn gate_gradient(branch: &[f32], d: &[f32], n: usize, c: usize, scale: f32) -> Vec<f32> {
    let image = d.len() / n;
    let mut sum = vec![0.0; n * c];
    sum.par_chunks_mut(c).zip(branch.par_chunks(image)).zip(d.par_chunks(image)).for_each(|((sum, branch), d)| {
        add_products(branch, d, sum);
        sum.iter_mut().for_each(|v| *v *= scale);
    });
    sum
}

vectorized! {
    /// `branch = scale * gate * branch + shortcut`
    fn gate_then_add(branch: &mut [f32], gate: &[f32], shortcut: &[f32], scale: f32) {
        for ((branch, gate), shortcut) in branch.iter_mut().zip(gate).zip(shortcut) {
            *branch = mul_add::<FMA>(scale * gate, *branch, *shortcut);
        }
    }
}

vectorized! {
    /// `shortcut = scale * gate * branch + shortcut`
    fn add_gated(shortcut: &mut [f32], gate: &[f32], branch: &[f32], scale: f32) {
        for ((shortcut, gate), branch) in shortcut.iter_mut().zip(gate).zip(branch) {
            *shortcut = mul_add::<FMA>(scale * gate, *branch, *shortcut);
        }
    }
}

vectorized! {
    /// `d = scale * gate * d`
    fn apply_gate(d: &mut [f32], gate: &[f32], scale: f32) {
        for (d, gate) in d.iter_mut().zip(gate) {
            *d *= scale * gate;
        }
    }
}

vectorized! {
    /// Adds the products of each pixel's values to `sum`.
    fn add_products(a: &[f32], b: &[f32], sum: &mut [f32]) {
        for (a, b) in a.chunks_exact(sum.len()).zip(b.chunks_exact(sum.len())) {
            for ((sum, a), b) in sum.iter_mut().zip(a).zip(b) {
                *sum = mul_add::<FMA>(*a, *b, *sum);
            }
        }
    }
}

/// What the backward pass needs.
#[derive(Clone, Debug)]
struct Saved {
    scale: f32,
    /// The branch, if the gate is tracked.
    branch: Option<NodeId>,
    /// The gate, if the branch is tracked.
    gate: Option<FlexTensor>,
}

impl<C: CheckpointStrategy> GatedResidualOps for Autodiff<Flex, C> {
    fn gated_sum(
        branch: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        shortcut: FloatTensor<Self>,
        scale: f32,
    ) -> FloatTensor<Self> {
        let nodes = [branch.node(), gate.node(), shortcut.node()];
        let run = |branch: FloatTensor<Self>, gate: FloatTensor<Self>, shortcut: FloatTensor<Self>| {
            forward(branch.into_primitive(), gate.into_primitive(), shortcut.into_primitive(), scale)
        };
        match GatedResidualBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let saved = Saved {
                    scale,
                    branch: gate.is_tracked().then(|| prep.checkpoint(&branch)),
                    gate: branch.is_tracked().then(|| gate.primitive().clone()),
                };
                prep.finish(saved, run(branch, gate, shortcut))
            }
            OpsKind::UnTracked(prep) => prep.finish(run(branch, gate, shortcut)),
        }
    }
}

#[derive(Debug)]
struct GatedResidualBackward;

impl Backward<Flex, 3> for GatedResidualBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        backward(ops, grads, |saved, d, [_, _, shortcut]| {
            let shape = dims(&d); // [n, h, w, c]
            let (n, c) = (shape[0], shape[3]);
            let d_gate = saved.branch.map(|branch| {
                let branch = contiguous(checkpointer.retrieve_node_output::<FlexTensor>(branch));
                tensor(gate_gradient(values(&branch), values(&d), n, c, saved.scale), &[n, c])
            });
            let d_shortcut = shortcut.then(|| d.clone());
            let d_branch =
                saved.gate.map(|gate| Gate::new(&d, gate).map_pixels(d, |_, gate, d| apply_gate(d, gate, saved.scale)));
            [d_branch, d_gate, d_shortcut]
        });
    }
}
