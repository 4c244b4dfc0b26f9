//! The linear maps between tiles, windows, kernels and their transforms, for 16 channels at a time.
//!
//! Each is `F X F^T` with a matrix `F` that is given by what it makes of a column.

use std::arch::x86_64::*;

use super::PLACES;
use crate::gemm::Clamp;

/// `B^T D B` of a window's pixels; place `p` of the result goes to `to + p * distance`.
///
/// # Safety
/// The machine has AVX-512F; `channels`, a multiple of 16, values are readable and writable at every address.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn window(from: [[*const f32; 4]; 4], to: *mut f32, distance: usize, channels: usize) {
    for c in (0..channels).step_by(16) {
        // SAFETY: the caller's duty.
        unsafe {
            let d = load(|i, j| from[i][j].wrapping_add(c));
            let v = both(d, |[a, b, c, d]| [sub(a, c), add(b, c), sub(c, b), sub(b, d)]);
            store(v, |i, j| to.wrapping_add((4 * i + j) * distance + c));
        }
    }
}

/// `A^T M A`, clamped; place `p` of `M` is at `from + p * distance`.
///
/// # Safety
/// As [`window`].
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn sums(from: *const f32, distance: usize, to: [[*mut f32; 2]; 2], channels: usize, clamp: Clamp) {
    // The value is the second operand of max and min, which they return when it is NaN.
    let (low, high) = (_mm512_set1_ps(clamp.low), _mm512_set1_ps(clamp.high));
    for c in (0..channels).step_by(16) {
        // SAFETY: the caller's duty.
        unsafe {
            let m = load(|i, j| from.wrapping_add((4 * i + j) * distance + c));
            let y = both(m, |[a, b, c, d]| [add(add(a, b), c), sub(sub(b, c), d)]);
            let y = y.map(|row| row.map(|v| _mm512_min_ps(high, _mm512_max_ps(low, v))));
            store(y, |i, j| to[i][j].wrapping_add(c));
        }
    }
}

/// `A dY A^T`, the gradient of `M`; place `p` of the result goes to `to + p * distance`.
///
/// # Safety
/// As [`window`].
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn sum_gradients(from: [[*const f32; 2]; 2], to: *mut f32, distance: usize, channels: usize) {
    for c in (0..channels).step_by(16) {
        // SAFETY: the caller's duty.
        unsafe {
            let dy = load(|i, j| from[i][j].wrapping_add(c));
            let dm = both(dy, |[a, b]| [a, add(a, b), sub(a, b), sub(_mm512_setzero_ps(), b)]);
            store(dm, |i, j| to.wrapping_add((4 * i + j) * distance + c));
        }
    }
}

/// `G W G^T`: from `[9 taps][values]` to `[16 places][values]`, with tap `order(i)` in the place of tap `i`.
///
/// # Safety
/// The machine has AVX-512F; the values are a multiple of 16.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn kernels(from: &[f32], to: &mut [f32], order: &impl Fn(usize) -> usize) {
    let values = from.len() / 9;
    assert!(values.is_multiple_of(16) && to.len() == PLACES * values);
    let half = _mm512_set1_ps(0.5);
    for c in (0..values).step_by(16) {
        // SAFETY: the assertion bounds the addresses; `order` is one of the taps.
        unsafe {
            let w = load(|i, j| from[order(3 * i + j) * values + c..].as_ptr());
            let u = both(w, |[a, b, c]| {
                let (outer, inner) = (_mm512_mul_ps(half, add(a, c)), _mm512_mul_ps(half, b));
                [a, add(outer, inner), sub(outer, inner), c]
            });
            store(u, |i, j| to[(4 * i + j) * values + c..].as_mut_ptr());
        }
    }
}

/// `G^T dU G`, the gradient of `W`: from `[16 places][values]` to `[9 taps][values]`.
///
/// # Safety
/// The machine has AVX-512F; the values are a multiple of 16.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn kernel_gradients(from: &[f32], to: &mut [f32]) {
    let values = to.len() / 9;
    assert!(values.is_multiple_of(16) && from.len() == PLACES * values);
    let half = _mm512_set1_ps(0.5);
    for c in (0..values).step_by(16) {
        // SAFETY: the assertion bounds the addresses.
        unsafe {
            let du = load(|i, j| from[(4 * i + j) * values + c..].as_ptr());
            let dw = both(du, |[a, b, c, d]| {
                let outer = _mm512_mul_ps(half, add(b, c));
                [add(a, outer), _mm512_mul_ps(half, sub(b, c)), add(outer, d)]
            });
            store(dw, |i, j| to[(3 * i + j) * values + c..].as_mut_ptr());
        }
    }
}

#[target_feature(enable = "avx512f")]
fn add(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(a, b)
}

#[target_feature(enable = "avx512f")]
fn sub(a: __m512, b: __m512) -> __m512 {
    _mm512_sub_ps(a, b)
}

/// `F X F^T`, where `f` is what `F` makes of a column.
#[target_feature(enable = "avx512f")]
fn both<const N: usize, const M: usize>(
    x: [[__m512; N]; N],
    f: impl Fn([__m512; N]) -> [__m512; M],
) -> [[__m512; M]; M] {
    let columns: [[__m512; M]; N] = std::array::from_fn(|j| f(std::array::from_fn(|i| x[i][j])));
    std::array::from_fn(|i| f(std::array::from_fn(|j| columns[j][i])))
}

/// The vectors at `N` x `N` addresses.
///
/// # Safety
/// 16 values are readable at each.
#[target_feature(enable = "avx512f")]
unsafe fn load<const N: usize>(address: impl Fn(usize, usize) -> *const f32) -> [[__m512; N]; N] {
    // SAFETY: the caller's duty.
    std::array::from_fn(|i| std::array::from_fn(|j| unsafe { _mm512_loadu_ps(address(i, j)) }))
}

/// Writes vectors to `N` x `N` addresses.
///
/// # Safety
/// 16 values are writable at each.
#[target_feature(enable = "avx512f")]
unsafe fn store<const N: usize>(x: [[__m512; N]; N], mut address: impl FnMut(usize, usize) -> *mut f32) {
    for (i, row) in x.into_iter().enumerate() {
        for (j, v) in row.into_iter().enumerate() {
            // SAFETY: the caller's duty.
            unsafe { _mm512_storeu_ps(address(i, j), v) };
        }
    }
}
