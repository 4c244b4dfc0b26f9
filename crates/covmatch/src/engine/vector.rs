//! Which vector instructions the CPU kernels use.

use covmatch_kernels::simd::{Bf16, Level, bf16, level};
use covmatch_kernels::{Precision, precision};

/// The vector instructions of the CPU kernels, in a word: `avx512`, `avx2` or `portable`; in bf16 those of the products,
/// `amx_bf16` or `avx512_bf16`.
pub fn vector_level() -> &'static str {
    match (level(), bf16().filter(|_| precision() == Precision::Bf16)) {
        (_, Some(Bf16::Amx)) => "amx_bf16",
        (_, Some(Bf16::Avx512)) => "avx512_bf16",
        (Level::Avx512, None) => "avx512",
        (Level::Avx2, None) => "avx2",
        (Level::Portable, None) => "portable",
    }
}
