//! Products whose operands are rounded to bf16, with sums in f32.
//!
//! bf16 has 8 bits of significand: rounding changes an operand by at most 2^-8 of its magnitude, and a sum by about 2^-7
//! of the sum of its terms' magnitudes. The order in which an element of `C` is summed depends on the instructions and on
//! the shape alone.
//!
//! | instructions | product | operands |
//! |---|---|---|
//! | AVX-512 BF16 | [`vectors`] | rounded by each task as it needs them |
//! | AMX BF16 | [`tiled`] | rounded and cut into tiles before |

mod amx;
mod block;
mod gather;
mod pack;
mod part;
mod rows;
#[cfg(test)]
mod tests;
mod tiled;
mod vectors;

pub(crate) use gather::{pack_pixel_pairs, pack_pixels};
pub(crate) use pack::{Line, Order, Room, pack_lines};
pub(crate) use rows::Rows;
#[cfg(test)]
pub(crate) use tests::rounded;

use super::{Clamp, Matrix, SharedMut, Start, blocked, micro, stream, uninit};
use crate::precision::{Precision, precision};
use crate::simd::{self, Bf16};

/// The instructions for `m` x `n` sums of `k` steps, if the process asks for bf16 and the machine is faster in it.
pub(super) fn form(m: usize, n: usize, k: usize) -> Option<Bf16> {
    if precision() != Precision::Bf16 {
        return None;
    }
    simd::bf16().filter(|form| match form {
        Bf16::Avx512 => vectors::pays(m, n, k),
        Bf16::Amx => tiled::pays(m, n, k),
    })
}

/// `start + A B`, clamped, by the instructions of `form`. No dimension is zero.
///
/// # Safety
/// The machine has `form`, and [`simd::bf16`] was called, which asks for the use of tiles.
pub(super) unsafe fn product(form: Bf16, a: Matrix, b: Matrix, start: Start, clamp: Clamp) -> Vec<f32> {
    // SAFETY: the caller's duty.
    unsafe {
        match form {
            Bf16::Avx512 => vectors::product(a, b, start, clamp),
            Bf16::Amx => tiled::product(a, b, start, clamp),
        }
    }
}
