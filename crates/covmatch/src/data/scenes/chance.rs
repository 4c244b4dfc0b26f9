//! Draws from a [`Stream`] that scenes need: a choice, a number in an interval.

use crate::engine::Stream;

/// A number in `0..n`.
pub fn below(stream: &mut Stream, n: usize) -> usize {
    ((u128::from(stream.next_u64()) * n as u128) >> 64) as usize
}

/// One of `choices`, which are not empty.
pub fn choose<T: Copy>(stream: &mut Stream, choices: &[T]) -> T {
    choices[below(stream, choices.len())]
}

/// A number in `[low, high)`.
pub fn between(stream: &mut Stream, low: f32, high: f32) -> f32 {
    low + (high - low) * stream.uniform()
}

/// True with the given probability.
pub fn happens(stream: &mut Stream, probability: f32) -> bool {
    stream.uniform() < probability
}
