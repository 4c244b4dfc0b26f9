//! Which instructions this machine has for products of bf16 values.
//!
//! AVX-512's `vdpbf16ps` multiplies 32 pairs of values and adds them to 16 sums, twice the rate of f32. AMX's `tdpbf16ps`
//! does so for tiles of 16 x 32 and 32 x 16 values. `COVMATCH_SIMD=avx512_bf16` leaves the tiles out; every lower level
//! leaves out both.

use std::sync::OnceLock;

/// Instructions that multiply bf16 values and sum in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bf16 {
    /// AVX-512 BF16, on vectors.
    Avx512,
    /// AMX BF16, on tiles, and AVX-512 BF16 beside it.
    Amx,
}

/// The fastest instructions for bf16 that this machine has and `COVMATCH_SIMD` leaves in, if any.
///
/// The first call asks the operating system for the use of AMX where the processor has it.
pub fn bf16() -> Option<Bf16> {
    static BEST: OnceLock<Option<Bf16>> = OnceLock::new();
    *BEST.get_or_init(|| match std::env::var("COVMATCH_SIMD").as_deref() {
        Ok("portable" | "avx2" | "avx512") => None,
        Ok("avx512_bf16") => detect().map(|_| Bf16::Avx512),
        _ => detect(),
    })
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Option<Bf16> {
    if super::level() != super::Level::Avx512 || !is_x86_feature_detected!("avx512bf16") {
        return None;
    }
    Some(if has_tiles() && may_use_tiles() { Bf16::Amx } else { Bf16::Avx512 })
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Option<Bf16> {
    None
}

/// Whether the processor has AMX-TILE and AMX-BF16.
#[cfg(target_arch = "x86_64")]
fn has_tiles() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const TILE_AND_BF16: u32 = 1 << 24 | 1 << 22;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & TILE_AND_BF16 == TILE_AND_BF16
}

/// Asks Linux to keep the tiles of this process's threads, all of them, when it switches between threads.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn may_use_tiles() -> bool {
    const ARCH_PRCTL: usize = 158;
    const REQUEST_PERMISSION: usize = 0x1023;
    const TILE_DATA: usize = 18;
    let mut result = ARCH_PRCTL;
    // SAFETY: the call takes two numbers and touches no memory of this process; `syscall` changes rax, rcx and r11 alone.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") result,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
fn may_use_tiles() -> bool {
    false
}

/// The forms of bf16 products that tests can run here; says which they must skip.
#[cfg(all(test, target_arch = "x86_64"))]
#[allow(clippy::print_stderr)]
pub(crate) fn forms() -> Vec<Bf16> {
    let (here, best) = ([Bf16::Avx512, Bf16::Amx], bf16());
    let (here, missing): (Vec<_>, Vec<_>) = here.into_iter().partition(|form| Some(*form) <= best);
    missing.iter().for_each(|form| eprintln!("skipped: this test needs bf16 products by {form:?}"));
    here
}
