//! CPU kernels for burn's Flex backend, with hand-written gradients.
//!
//! Each function takes and returns plain [`Tensor`](burn::tensor::Tensor)s. On the CPU (Flex) it runs a kernel of
//! this crate: parallel over rayon, vectorised for AVX-512 or AVX2 where the machine has them, and with a backward
//! pass that computes only the gradients that are tracked. On every other backend it is the same mathematics written
//! in burn's own operations. [`plain_ops`] forces the latter, which is how the tests compare the two.
//!
//! # Conventions
//! - Image activations are channels-last, `[n, h, w, c]`: a pixel's channels are contiguous, so a 1x1 convolution is
//!   a matrix product without a copy. Convolution weights stay `[out, in / groups, k, k]`, as checkpoints have them.
//! - Everything is `f32`; matrix products may round their operands to bf16 on the way in, see [`Precision`].
//! - A shape that does not fit is a programming error and panics with a message that names the operation, as burn's
//!   own operations do.

mod activation;
mod add;
mod attention;
mod autodiff;
mod backend;
mod conv2d;
#[doc(hidden)]
pub mod counters;
mod dot;
mod dropout;
mod elementwise;
mod gated_residual;
mod gemm;
mod hold;
mod layer_norm;
mod linear;
mod math;
mod pool;
mod precision;
mod row_sums;
mod sgd;
mod side_by_side;
pub mod simd;
mod standardize;

pub use activation::{gelu, relu, relu6, sigmoid, silu};
pub use add::add;
pub use attention::attention;
pub use backend::plain_ops;
pub use conv2d::{Conv2dOptions, Epilogue, Padding, Prologue, conv2d};
pub use dot::dot;
pub use dropout::{Dropout, dropout};
pub use gated_residual::gated_residual;
pub use hold::hold;
pub use layer_norm::{add_layer_norm, layer_norm};
pub use linear::linear;
pub use pool::{avg_pool2d, global_avg_pool, max_pool2d, max_pool2d_at};
pub use precision::{Bf16Missing, Precision, in_f32, precision, set_precision};
pub use sgd::{SgdRates, sgd_step};
pub use side_by_side::side_by_side;
pub use standardize::standardize;
