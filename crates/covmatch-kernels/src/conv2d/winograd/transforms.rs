//! The linear maps between tiles, windows, kernels and their transforms.
//!
//! Each is `F X F^T` with one of the [matrices](super::matrices), for 16 channels at a time.

use std::arch::x86_64::*;

use super::matrices::{Tile, Winograd};
use super::tiles::Destination;
use crate::gemm::Clamp;

/// `B^T D B` of a window's pixels; place `p` of the result goes to `to + p * distance`.
///
/// # Safety
/// The machine has AVX-512F; `channels`, a multiple of 16, values are readable and writable at every address.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn window<const OUT: usize, const WINDOW: usize>(
    from: &[[*const f32; WINDOW]; WINDOW],
    to: *mut f32,
    distance: usize,
    channels: usize,
) where
    Winograd: Tile<OUT, WINDOW>,
{
    for c in (0..channels).step_by(16) {
        // SAFETY: the caller's duty.
        unsafe {
            both(
                |i, j| _mm512_loadu_ps(from[i][j].wrapping_add(c)),
                |d| Winograd::window(d),
                |i, j, v| _mm512_storeu_ps(to.wrapping_add((WINDOW * i + j) * distance + c), v),
            );
        }
    }
}

/// `clamp(A^T M A + bias)`; place `p` of `M` is at `from + p * distance`.
///
/// # Safety
/// As [`window`], with the channels of the bias; what is said of a streamed destination holds.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn sums<const OUT: usize, const WINDOW: usize>(
    (from, distance): (*const f32, usize),
    to: &Destination<OUT>,
    bias: &[f32],
    clamp: Clamp,
) where
    Winograd: Tile<OUT, WINDOW>,
{
    // The value is the second operand of max and min, which they return when it is NaN.
    let (low, high) = (_mm512_set1_ps(clamp.low), _mm512_set1_ps(clamp.high));
    for (c, bias) in bias.chunks_exact(16).enumerate().map(|(i, bias)| (16 * i, bias)) {
        // SAFETY: the caller's duty; a chunk of the bias is a vector.
        unsafe {
            let bias = _mm512_loadu_ps(bias.as_ptr());
            both(
                |i, j| _mm512_loadu_ps(from.wrapping_add((WINDOW * i + j) * distance + c)),
                |m| Winograd::sums(m),
                |i, j, v| {
                    let y = _mm512_min_ps(high, _mm512_max_ps(low, _mm512_add_ps(bias, v)));
                    let pixel = to.pixels[i][j].wrapping_add(c);
                    if to.streamed { _mm512_stream_ps(pixel, y) } else { _mm512_storeu_ps(pixel, y) }
                },
            );
        }
    }
}

/// `A dY A^T`, the gradient of `M`; place `p` of the result goes to `to + p * distance`.
///
/// # Safety
/// As [`window`].
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn sum_gradients<const OUT: usize, const WINDOW: usize>(
    from: &[[*const f32; OUT]; OUT],
    to: *mut f32,
    distance: usize,
    channels: usize,
) where
    Winograd: Tile<OUT, WINDOW>,
{
    for c in (0..channels).step_by(16) {
        // SAFETY: the caller's duty.
        unsafe {
            both(
                |i, j| _mm512_loadu_ps(from[i][j].wrapping_add(c)),
                |y| Winograd::sum_gradients(y),
                |i, j, v| _mm512_storeu_ps(to.wrapping_add((WINDOW * i + j) * distance + c), v),
            );
        }
    }
}

/// `G W G^T`: from `[9 taps][values]` to `[places][values]`, with tap `order(i)` in the place of tap `i`.
///
/// # Safety
/// The machine has AVX-512F; the values are a multiple of 16.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn kernels<const OUT: usize, const WINDOW: usize>(
    from: &[f32],
    to: &mut [f32],
    order: fn(usize) -> usize,
) where
    Winograd: Tile<OUT, WINDOW>,
{
    let values = from.len() / 9;
    assert!(values.is_multiple_of(16) && to.len() == WINDOW * WINDOW * values);
    let taps: [[&[f32]; 3]; 3] =
        std::array::from_fn(|i| std::array::from_fn(|j| &from[order(3 * i + j) * values..][..values]));
    for c in (0..values).step_by(16) {
        // SAFETY: the assertion bounds the addresses; a tap has `values` values.
        unsafe {
            both(
                |i, j| _mm512_loadu_ps(taps[i][j].as_ptr().add(c)),
                |w| Winograd::kernel(w),
                |i, j, v| _mm512_storeu_ps(to.as_mut_ptr().add((WINDOW * i + j) * values + c), v),
            );
        }
    }
}

/// `G^T dU G`, the gradient of `W`: from `[places][values]` to `[9 taps][values]`.
///
/// # Safety
/// The machine has AVX-512F; the values are a multiple of 16.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn kernel_gradients<const OUT: usize, const WINDOW: usize>(from: &[f32], to: &mut [f32])
where
    Winograd: Tile<OUT, WINDOW>,
{
    let values = to.len() / 9;
    assert!(values.is_multiple_of(16) && from.len() == WINDOW * WINDOW * values);
    for c in (0..values).step_by(16) {
        // SAFETY: the assertion bounds the addresses.
        unsafe {
            both(
                |i, j| _mm512_loadu_ps(from.as_ptr().add((WINDOW * i + j) * values + c)),
                |u| Winograd::kernel_gradient(u),
                |i, j, v| _mm512_storeu_ps(to.as_mut_ptr().add((3 * i + j) * values + c), v),
            );
        }
    }
}

/// `F X F^T`, where `f` is what `F` makes of a column; `from` has the elements of `X`, `to` takes those of the result.
///
/// What `f` makes of the columns waits for the rows' turn on the stack, as far as it does not fit the registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn both<const N: usize, const M: usize>(
    from: impl Fn(usize, usize) -> __m512,
    f: impl Fn([__m512; N]) -> [__m512; M],
    mut to: impl FnMut(usize, usize, __m512),
) {
    let columns: [[__m512; M]; N] = std::array::from_fn(|j| f(std::array::from_fn(|i| from(i, j))));
    (0..M).for_each(|i| {
        let row = f(std::array::from_fn(|j| columns[j][i]));
        row.into_iter().enumerate().for_each(|(j, v)| to(i, j, v));
    });
}
