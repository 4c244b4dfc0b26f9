//! Joining a branch with its shortcut.

use burn::tensor::Tensor;

/// `scale * gate * branch + shortcut`, where each channel of each image has its gate: the end of a squeeze-excite block.
///
/// `branch` and `shortcut` `[n, h, w, c]`, `gate` `[n, c]`.
pub fn gated_residual(branch: Tensor<4>, gate: Tensor<2>, shortcut: Tensor<4>, scale: f32) -> Tensor<4> {
    let [n, c] = gate.dims();
    branch * gate.mul_scalar(scale).reshape([n, 1, 1, c]) + shortcut
}
