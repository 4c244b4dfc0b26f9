//! Two independent pieces of work at a time.

use burn::tensor::Device;

use crate::backend::runs_kernels;

/// What `a` and `b` return. On the device of our kernels they are computed side by side, elsewhere and in
/// [`plain_ops`](crate::plain_ops) one after the other.
///
/// While both have work, each keeps to a thread of its own, and none of its operations waits for a share that another thread
/// took; one that moves much memory runs beside one that computes. Whoever ends first leaves its thread to the other. The
/// results are those of one after the other.
pub fn side_by_side<A: Send, B: Send>(
    device: &Device,
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    if runs_kernels(device) { rayon::join(a, b) } else { (a(), b()) }
}
