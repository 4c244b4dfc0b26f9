//! Which instructions this machine has for products of bf16 values.
//!
//! AVX-512's `vdpbf16ps` multiplies 32 pairs of values and adds them to 16 sums. AMD's cores do that at the rate of an f32
//! multiply-add, so that it counts twice; Intel's take four times as long, so that f32 is faster there. AMX's `tdpbf16ps`,
//! which Intel's have, multiplies tiles of 16 x 32 and 32 x 16 values at eight times the rate of f32.
//!
//! `COVMATCH_SIMD=avx512_bf16` picks `vdpbf16ps` by hand; every lower level leaves out both.

use std::sync::OnceLock;

/// Instructions that multiply bf16 values and sum in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bf16 {
    /// AVX-512 BF16, on vectors.
    Avx512,
    /// AMX BF16, on tiles, and AVX-512 BF16 beside it.
    Amx,
}

/// The instructions of this machine that multiply bf16 values faster than f32, if there are any and `COVMATCH_SIMD` leaves
/// them in.
///
/// The first call asks the operating system for the use of AMX where the processor has it.
pub fn bf16() -> Option<Bf16> {
    static BEST: OnceLock<Option<Bf16>> = OnceLock::new();
    *BEST.get_or_init(|| match std::env::var("COVMATCH_SIMD").as_deref() {
        Ok("portable" | "avx2" | "avx512") => None,
        Ok("avx512_bf16") => has_vectors().then_some(Bf16::Avx512),
        _ if has_vectors() && has_tiles() && may_use_tiles() => Some(Bf16::Amx),
        _ => (has_vectors() && !is_of_intel()).then_some(Bf16::Avx512),
    })
}

/// Whether the processor has AVX-512 BF16.
#[cfg(target_arch = "x86_64")]
fn has_vectors() -> bool {
    super::level() == super::Level::Avx512 && is_x86_feature_detected!("avx512bf16")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_vectors() -> bool {
    false
}

/// Whether the processor is of Intel.
#[cfg(target_arch = "x86_64")]
fn is_of_intel() -> bool {
    let vendor = std::arch::x86_64::__cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
}

#[cfg(not(target_arch = "x86_64"))]
fn is_of_intel() -> bool {
    false
}

/// Whether the processor has AMX-TILE and AMX-BF16.
#[cfg(target_arch = "x86_64")]
fn has_tiles() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const TILE_AND_BF16: u32 = 1 << 24 | 1 << 22;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & TILE_AND_BF16 == TILE_AND_BF16
}

#[cfg(not(target_arch = "x86_64"))]
fn has_tiles() -> bool {
    false
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

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn may_use_tiles() -> bool {
    false
}

/// The forms of bf16 products that tests can run here, whether or not they are faster than f32; says which they must skip.
#[cfg(all(test, target_arch = "x86_64"))]
#[allow(clippy::print_stderr)]
pub(crate) fn forms() -> Vec<Bf16> {
    let all = [(Bf16::Avx512, has_vectors()), (Bf16::Amx, bf16() == Some(Bf16::Amx))];
    all.iter().filter(|(_, here)| !here).for_each(|(form, _)| eprintln!("skipped: this test needs bf16 by {form:?}"));
    all.into_iter().filter(|(_, here)| *here).map(|(form, _)| form).collect()
}
