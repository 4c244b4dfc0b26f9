//! Rounds pixels that are found through pointers, for convolutions.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::pack::{Line, STEPS, interleaved, lanes};

/// Rounds the pixels under a kernel into rows `[tap][channel]`, one for each result, `stride` lines apart.
///
/// `table` is `[tap][result]`: `results` pointers to `channels` values for each tap.
///
/// # Safety
/// The machine has AVX-512 and its BF16 extension; every pointer is to `channels` values, a multiple of 16.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(crate) unsafe fn pack_pixels(
    table: &[*const f32],
    results: usize,
    channels: usize,
    stride: usize,
    out: &mut [MaybeUninit<Line>],
) {
    let taps = table.len() / results;
    assert!(results * stride <= out.len() && taps * channels <= stride * STEPS, "the rows exceed their room");
    for (tap, sources) in table.chunks_exact(results).enumerate() {
        for (i, source) in sources.iter().enumerate() {
            for c in (0..channels).step_by(16) {
                // SAFETY: the caller vouches for the source; the assertion bounds the row, of which these are 16 values.
                unsafe {
                    let rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(source.add(c)));
                    let to = out.as_mut_ptr().add(i * stride).cast::<u16>().add(tap * channels + c);
                    _mm256_storeu_si256(to.cast(), std::mem::transmute::<__m256bh, __m256i>(rounded));
                }
            }
        }
    }
}

/// Rounds pixels two by two: channel `c` of pixels `2p` and `2p + 1` is a pair, `[p][c]`, with `stride` lines from one `p`
/// to the next. If their number is odd, zeros take the place of the last.
///
/// # Safety
/// The machine has AVX-512 and its BF16 extension; every pointer is to `channels` values.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(crate) unsafe fn pack_pixel_pairs(
    pixels: &[*const f32],
    channels: usize,
    stride: usize,
    out: &mut [MaybeUninit<Line>],
) {
    assert!(channels.div_ceil(16) <= stride, "the rows exceed their stride");
    for (pair, out) in pixels.chunks(2).zip(out.chunks_exact_mut(stride)) {
        for (v, out) in out.iter_mut().take(channels.div_ceil(16)).enumerate() {
            let mask = lanes(channels, 16 * v);
            // SAFETY: the mask leaves the channels that the caller vouches for.
            let load = |pixel: &*const f32| unsafe { _mm512_maskz_loadu_ps(mask, pixel.wrapping_add(16 * v)) };
            let second = pair.get(1).map_or(_mm512_setzero_ps(), load);
            let row = interleaved(load(&pair[0]), second);
            // SAFETY: a row is 64 bytes, any of which are a value.
            out.write(unsafe { std::mem::transmute::<__m512i, Line>(row) });
        }
    }
}
