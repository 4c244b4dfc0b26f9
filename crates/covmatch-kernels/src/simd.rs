//! Which vector instructions this machine has.
//!
//! Kernels are compiled for three levels in one binary and the level is chosen when the program runs, so the same
//! file works on a laptop without AVX-512. `COVMATCH_SIMD=portable|avx2|avx512` picks a lower level by hand. Products of
//! bf16 values have instructions of their own, [`Bf16`].

mod bf16;

use std::sync::OnceLock;

#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) use bf16::forms;
pub use bf16::{Bf16, bf16};

/// A set of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What every machine of this architecture has.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

/// The level in use: the machine's best, or what `COVMATCH_SIMD` asks for if that is lower.
pub fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        let best = detect();
        match std::env::var("COVMATCH_SIMD").as_deref() {
            Ok("portable") => Level::Portable,
            Ok("avx2") => best.min(Level::Avx2),
            _ => best,
        }
    })
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (avx2, avx512) {
        (true, true) => Level::Avx512,
        (true, false) => Level::Avx2,
        _ => Level::Portable,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Level {
    Level::Portable
}

/// Whether a test of AVX-512 kernels must be skipped here; it says so.
#[cfg(all(test, target_arch = "x86_64"))]
#[allow(clippy::print_stderr)]
pub(crate) fn lacks_avx512() -> bool {
    let lacks = level() != Level::Avx512;
    if lacks {
        eprintln!("skipped: this test needs AVX-512");
    }
    lacks
}

/// Defines a function whose body is compiled once for each [`Level`]; a call runs the version of [`level`].
///
/// The body should be a loop that the compiler can vectorise; functions it calls are inlined only if they are
/// `#[inline(always)]`. The constant `FMA` is in the body's scope: whether the level has fused multiply-add (see
/// [`math`](crate::math)).
macro_rules! vectorized {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn portable<const FMA: bool>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx2($($arg: $ty),*) $(-> $ret)? { portable::<true>($($arg),*) }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx512($($arg: $ty),*) $(-> $ret)? { portable::<true>($($arg),*) }

            #[cfg(target_arch = "x86_64")]
            match $crate::simd::level() {
                // SAFETY: `level` returns this only if the machine has every feature the function enables.
                $crate::simd::Level::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                $crate::simd::Level::Avx2 => unsafe { avx2($($arg),*) },
                $crate::simd::Level::Portable => portable::<false>($($arg),*),
            }
            #[cfg(not(target_arch = "x86_64"))]
            portable::<{ cfg!(target_arch = "aarch64") }>($($arg),*)
        }
    };
}
pub(crate) use vectorized;
