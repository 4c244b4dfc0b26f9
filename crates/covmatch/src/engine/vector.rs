//! Which vector instructions the CPU kernels use.

use covmatch_kernels::simd::{Level, level};

/// The vector instructions of the CPU kernels, in a word: `avx512`, `avx2` or `portable`.
pub fn vector_level() -> &'static str {
    match level() {
        Level::Avx512 => "avx512",
        Level::Avx2 => "avx2",
        Level::Portable => "portable",
    }
}
