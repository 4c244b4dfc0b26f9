//! Counts of the gradient kernels that ran, so that a test can prove that frozen weights cost none.
//!
//! Counts are per thread: tests that run side by side do not disturb each other.

use std::cell::Cell;

thread_local! {
    static WEIGHT_GRADIENTS: Cell<usize> = const { Cell::new(0) };
    static INPUT_GRADIENTS: Cell<usize> = const { Cell::new(0) };
}

/// How many weight-gradient kernels this thread has started.
pub fn weight_gradients() -> usize {
    WEIGHT_GRADIENTS.get()
}

/// How many input-gradient kernels of operations with weights this thread has started.
pub fn input_gradients() -> usize {
    INPUT_GRADIENTS.get()
}

/// Counts one weight-gradient kernel.
pub(crate) fn count_weight_gradient() {
    WEIGHT_GRADIENTS.set(WEIGHT_GRADIENTS.get() + 1);
}

/// Counts one input-gradient kernel.
pub(crate) fn count_input_gradient() {
    INPUT_GRADIENTS.set(INPUT_GRADIENTS.get() + 1);
}
