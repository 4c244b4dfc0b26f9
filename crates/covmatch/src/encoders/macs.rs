//! Counting the work of a forward pass.
//!
//! Layers report their multiply-adds while [`count`] listens on the same thread, so the number is what the network
//! really did, and no architecture is described twice. Convolutions, linear layers and attention products are counted;
//! activations, normalisations and pooling are not, as is the custom.

use std::cell::Cell;

thread_local! {
    static COUNTED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs `f` and returns its result and the multiply-adds of the layers that it ran on this thread.
pub fn count<R>(f: impl FnOnce() -> R) -> (R, u64) {
    let outer = COUNTED.replace(Some(0));
    let result = f();
    let counted = COUNTED.replace(outer).unwrap_or(0);
    record(counted);
    (result, counted)
}

/// Adds `multiply_adds` to the count, if anyone counts.
pub(crate) fn record(multiply_adds: u64) {
    COUNTED.set(COUNTED.get().map(|sum| sum + multiply_adds));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_counted_outside_of_count() {
        record(5);
        assert_eq!(count(|| ()).1, 0);
    }

    #[test]
    fn an_inner_count_is_part_of_the_outer_one() {
        let ((_, inner), outer) = count(|| {
            record(1);
            count(|| record(2))
        });
        assert_eq!((inner, outer), (2, 3));
    }
}
