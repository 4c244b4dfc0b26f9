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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain_ops;
    use std::thread::current;

    #[test]
    fn both_results_come_back_in_their_places() {
        assert_eq!(side_by_side(&Device::flex(), || 1, || "two"), (1, "two"));
    }

    #[test]
    fn within_plain_operations_both_run_on_the_callers_thread() {
        let caller = current().id();
        let (a, b) = plain_ops(|| side_by_side(&Device::flex(), || current().id(), || current().id()));
        assert_eq!((a, b), (caller, caller));
    }
}
