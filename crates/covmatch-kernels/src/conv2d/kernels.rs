//! Which kernel computes a convolution and its gradients.
//!
//! | shape | kernel |
//! |---|---|
//! | 1 x 1, stride 1, no groups | a matrix product of the pixels as they lie ([`gemm`](crate::gemm)) |
//! | a kernel for each channel | [`depthwise`] |
//! | 3 x 3, stride 1, groups of 32 to 128 channels, AVX-512 | [`winograd`], with tiles of 2 x 2 or 4 x 4 results |
//! | groups of 16, 32, 48 .. channels, products in bf16, AVX-512 BF16 | [`direct`], by rounded operands |
//! | anything else, AVX-512 | [`direct`] |
//! | anything else | [`patches`] |
//!
//! Winograd's products stay in f32: with tiles of 4 x 4 they are a quarter of the definition's, of which bf16 would save
//! half.

use super::geometry::Geometry;
use super::{Epilogue, depthwise, patches};
#[cfg(target_arch = "x86_64")]
use super::{direct, winograd};
use crate::counters;
use crate::gemm::{Clamp, Matrix, Start, product};
use crate::row_sums::{rows_a_part, sum_parts, sum_rows};
use crate::simd::vectorized;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Level, level};
use rayon::prelude::*;

impl Epilogue {
    /// The bounds of the result.
    pub(crate) fn clamp(self) -> Clamp {
        match self {
            Epilogue::None => Clamp::NONE,
            Epilogue::Relu => Clamp::RELU,
            Epilogue::Relu6 => Clamp::RELU6,
        }
    }
}

/// The kernels for convolutions of one shape.
enum Kernel {
    /// A matrix product of the pixels as they lie.
    Pointwise,
    Depthwise,
    #[cfg(target_arch = "x86_64")]
    Winograd,
    #[cfg(target_arch = "x86_64")]
    Direct,
    #[cfg(target_arch = "x86_64")]
    DirectBf16,
    Patches,
}

impl Kernel {
    fn of(g: &Geometry) -> Self {
        if g.is_pointwise() {
            return Self::Pointwise;
        }
        if g.is_depthwise() {
            return Self::Depthwise;
        }
        #[cfg(target_arch = "x86_64")]
        if level() == Level::Avx512 {
            return match g {
                g if winograd::suits(g) => Self::Winograd,
                g if direct::bf16::suits(g) => Self::DirectBf16,
                _ => Self::Direct,
            };
        }
        Self::Patches
    }
}

/// `y` `[n, oh, ow, co]`.
pub(super) fn forward(g: &Geometry, x: &[f32], w: &[f32], bias: Option<&[f32]>, epilogue: Epilogue) -> Vec<f32> {
    let clamp = epilogue.clamp();
    match Kernel::of(g) {
        Kernel::Pointwise => {
            let (x, w) = (Matrix::new(x, g.in_pixels(), g.ci), Matrix::new(w, g.co, g.ci));
            product(x, w.t(), bias.map_or(Start::Zero, Start::Bias), clamp)
        }
        Kernel::Depthwise => depthwise::forward(g, x, w, bias, clamp),
        #[cfg(target_arch = "x86_64")]
        Kernel::Winograd => winograd::forward(g, x, w, bias, clamp),
        #[cfg(target_arch = "x86_64")]
        Kernel::Direct => direct::forward(g, x, w, bias, clamp),
        #[cfg(target_arch = "x86_64")]
        Kernel::DirectBf16 => direct::bf16::forward(g, x, w, bias, clamp),
        Kernel::Patches => patches::forward(g, x, w, bias, clamp),
    }
}

/// `dx` `[n, h, w, ci]`.
pub(super) fn input_gradient(g: &Geometry, dy: &[f32], w: &[f32]) -> Vec<f32> {
    counters::count_input_gradient();
    match Kernel::of(g) {
        Kernel::Pointwise => {
            let (dy, w) = (Matrix::new(dy, g.out_pixels(), g.co), Matrix::new(w, g.co, g.ci));
            product(dy, w, Start::Zero, Clamp::NONE)
        }
        Kernel::Depthwise => depthwise::input_gradient(g, dy, w),
        #[cfg(target_arch = "x86_64")]
        Kernel::Winograd => winograd::input_gradient(g, dy, w),
        #[cfg(target_arch = "x86_64")]
        Kernel::Direct => direct::input_gradient(g, dy, w),
        #[cfg(target_arch = "x86_64")]
        Kernel::DirectBf16 => direct::bf16::input_gradient(g, dy, w),
        Kernel::Patches => patches::input_gradient(g, dy, w),
    }
}

/// `dw` `[co, ci / groups, k, k]`.
pub(super) fn weight_gradient(g: &Geometry, x: &[f32], dy: &[f32]) -> Vec<f32> {
    counters::count_weight_gradient();
    match Kernel::of(g) {
        Kernel::Pointwise => {
            let (x, dy) = (Matrix::new(x, g.in_pixels(), g.ci), Matrix::new(dy, g.out_pixels(), g.co));
            product(dy.t(), x, Start::Zero, Clamp::NONE)
        }
        Kernel::Depthwise => depthwise::weight_gradient(g, x, dy),
        #[cfg(target_arch = "x86_64")]
        Kernel::Winograd => winograd::weight_gradient(g, x, dy),
        #[cfg(target_arch = "x86_64")]
        Kernel::Direct => direct::weight_gradient(g, x, dy),
        #[cfg(target_arch = "x86_64")]
        Kernel::DirectBf16 => direct::bf16::weight_gradient(g, x, dy),
        Kernel::Patches => patches::weight_gradient(g, x, dy),
    }
}

/// `db` `[co]`: the sum of `dy` over pixels.
pub(super) fn bias_gradient(g: &Geometry, dy: &[f32]) -> Vec<f32> {
    sum_rows(dy, g.co)
}

/// Zeroes `dy` where the result `y` lies on a bound of the epilogue.
pub(super) fn epilogue_gradient(epilogue: Epilogue, y: &[f32], dy: &mut [f32]) {
    let Clamp { low, high } = epilogue.clamp();
    mask(y, dy, low, high);
}

/// [`epilogue_gradient`] and [`bias_gradient`] in one pass over `dy`.
pub(super) fn epilogue_and_bias_gradient(epilogue: Epilogue, g: &Geometry, y: &[f32], dy: &mut [f32]) -> Vec<f32> {
    let (Clamp { low, high }, chunk) = (epilogue.clamp(), rows_a_part(g.co) * g.co);
    sum_parts(dy.par_chunks_mut(chunk).zip(y.par_chunks(chunk)).map(|(dy, y)| {
        let mut sum = vec![0.0; g.co];
        mask_and_add_rows(y, dy, low, high, &mut sum);
        sum
    }))
}

vectorized! {
    /// Zeroes `dy` where `y` is not between the bounds.
    fn mask(y: &[f32], dy: &mut [f32], low: f32, high: f32) {
        for (y, dy) in y.iter().zip(dy) {
            *dy = if *y > low && *y < high { *dy } else { 0.0 };
        }
    }
}

vectorized! {
    /// [`mask`], and adds every row of what is left to `sum`.
    fn mask_and_add_rows(y: &[f32], dy: &mut [f32], low: f32, high: f32, sum: &mut [f32]) {
        for (y, dy) in y.chunks_exact(sum.len()).zip(dy.chunks_exact_mut(sum.len())) {
            for ((y, dy), sum) in y.iter().zip(dy).zip(sum.iter_mut()) {
                let d = if *y > low && *y < high { *dy } else { 0.0 };
                *dy = d;
                *sum += d;
            }
        }
    }
}
