//! In which precision matrix products run.
//!
//! One setting for the whole process. Tensors are f32 in either: [`Precision::Bf16`] rounds the operands of large products
//! and of direct convolutions to bf16 (8 bits of significand, the exponents of f32) as it packs them, and sums in f32.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::simd;

/// The precision of matrix products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Operands and sums in f32.
    #[default]
    F32,
    /// Operands in bf16 where that is faster, sums in f32.
    Bf16,
}

/// The machine has no instructions that multiply bf16 values faster than f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bf16Missing;

impl fmt::Display for Bf16Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this machine has no fast bf16 products: they need amx_bf16 (Intel, on Linux) or avx512_bf16 (AMD), \
             and COVMATCH_SIMD must not leave them out",
        )
    }
}

impl Error for Bf16Missing {}

static BF16: AtomicBool = AtomicBool::new(false);

/// Sets the precision of all matrix products from now on; f32 until it is called.
pub fn set_precision(precision: Precision) -> Result<(), Bf16Missing> {
    if precision == Precision::Bf16 && simd::bf16().is_none() {
        return Err(Bf16Missing);
    }
    BF16.store(precision == Precision::Bf16, Ordering::Relaxed);
    Ok(())
}

/// The precision of matrix products.
pub fn precision() -> Precision {
    if BF16.load(Ordering::Relaxed) { Precision::Bf16 } else { Precision::F32 }
}

/// What `compute` gives with all matrix products in f32, such as differences that bf16 would round away; afterwards the
/// precision is what it was. As everywhere, it is that of the whole process meanwhile.
pub fn in_f32<T>(compute: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            BF16.store(self.0, Ordering::Relaxed);
        }
    }
    let _before = Before(BF16.swap(false, Ordering::Relaxed));
    compute()
}
