//! Pooling of channels-last activations `[n, h, w, c]`.

mod average;
mod max;

pub use average::{avg_pool2d, global_avg_pool};
pub use max::{max_pool2d, max_pool2d_at};
