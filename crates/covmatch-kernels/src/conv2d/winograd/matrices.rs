//! The matrices of F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3), each given by what it makes of a column of 16 channels.
//!
//! A tile's side is a type parameter: the transforms, the convolution and the weight gradient are written once.

use std::arch::x86_64::*;

/// Winograd's minimal filtering with kernels of 3 x 3.
pub(super) struct Winograd;

/// `F(OUT x OUT, 3 x 3)`: tiles of `OUT` x `OUT` results from windows of `WINDOW = OUT + 2` pixels a side.
pub(super) trait Tile<const OUT: usize, const WINDOW: usize> {
    /// Most tiles of a task of a convolution.
    const STRIP: usize;

    /// Most tiles whose outer products are added at a time.
    const GRADIENT_STRIP: usize;

    /// `B^T d`, of a window.
    ///
    /// # Safety
    /// The machine has AVX-512F.
    unsafe fn window(d: [__m512; WINDOW]) -> [__m512; WINDOW];

    /// `A^T m`, of the sums.
    ///
    /// # Safety
    /// The machine has AVX-512F.
    unsafe fn sums(m: [__m512; WINDOW]) -> [__m512; OUT];

    /// `A y`, of the gradient of results.
    ///
    /// # Safety
    /// The machine has AVX-512F.
    unsafe fn sum_gradients(y: [__m512; OUT]) -> [__m512; WINDOW];

    /// `G w`, of a kernel.
    ///
    /// # Safety
    /// The machine has AVX-512F.
    unsafe fn kernel(w: [__m512; 3]) -> [__m512; WINDOW];

    /// `G^T u`, of the gradient of a transformed kernel.
    ///
    /// # Safety
    /// The machine has AVX-512F.
    unsafe fn kernel_gradient(u: [__m512; WINDOW]) -> [__m512; 3];
}

/// The points 0, 1, -1 and infinity.
impl Tile<2, 4> for Winograd {
    // With 64 channels V and U together are 460 KB.
    const STRIP: usize = 48;
    // With 64 channels windows, gradients and sums are 790 KB.
    const GRADIENT_STRIP: usize = 64;

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn window([d0, d1, d2, d3]: [__m512; 4]) -> [__m512; 4] {
        [sub(d0, d2), add(d1, d2), sub(d2, d1), sub(d1, d3)]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn sums([m0, m1, m2, m3]: [__m512; 4]) -> [__m512; 2] {
        [add(add(m0, m1), m2), sub(sub(m1, m2), m3)]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn sum_gradients([y0, y1]: [__m512; 2]) -> [__m512; 4] {
        [y0, add(y0, y1), sub(y0, y1), sub(_mm512_setzero_ps(), y1)]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn kernel([w0, w1, w2]: [__m512; 3]) -> [__m512; 4] {
        let (even, odd) = (mul(0.5, add(w0, w2)), mul(0.5, w1));
        [w0, add(even, odd), sub(even, odd), w2]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn kernel_gradient([u0, u1, u2, u3]: [__m512; 4]) -> [__m512; 3] {
        let even = mul(0.5, add(u1, u2));
        [add(u0, even), mul(0.5, sub(u1, u2)), add(even, u3)]
    }
}

/// The finite points of F(4 x 4, 3 x 3) are 0, P, -P, Q and -Q.
const P: f32 = 0.75;
const Q: f32 = 1.5;
const PP: f32 = P * P;
const QQ: f32 = Q * Q;

/// The rows of G are `(1, p, p^2)` times these: 1 / the product of a point's distances from the others.
const SCALE_0: f32 = 1.0 / (PP * QQ);
const SCALE_P: f32 = 1.0 / (2.0 * PP * (PP - QQ));
const SCALE_Q: f32 = 1.0 / (2.0 * QQ * (QQ - PP));

/// The points 0, P, -P, Q, -Q and infinity. Opposite points differ in the sign of the odd half.
impl Tile<4, 6> for Winograd {
    // With 64 channels V and U together are 810 KB.
    const STRIP: usize = 24;
    // With 64 channels windows, gradients and sums are 890 KB.
    const GRADIENT_STRIP: usize = 16;

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn window([d0, d1, d2, d3, d4, d5]: [__m512; 6]) -> [__m512; 6] {
        let (p_even, p_odd) = (mul_add(-QQ, d2, d4), mul_add(-QQ, d1, d3));
        let (q_even, q_odd) = (mul_add(-PP, d2, d4), mul_add(-PP, d1, d3));
        [
            mul_add(PP * QQ, d0, mul_add(-PP - QQ, d2, d4)),
            mul_add(P, p_odd, p_even),
            mul_add(-P, p_odd, p_even),
            mul_add(Q, q_odd, q_even),
            mul_add(-Q, q_odd, q_even),
            mul_add(PP * QQ, d1, mul_add(-PP - QQ, d3, d5)),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn sums([m0, m1, m2, m3, m4, m5]: [__m512; 6]) -> [__m512; 4] {
        let (p_even, p_odd, q_even, q_odd) = (add(m1, m2), sub(m1, m2), add(m3, m4), sub(m3, m4));
        [
            add(m0, add(p_even, q_even)),
            mul_add(P, p_odd, mul(Q, q_odd)),
            mul_add(PP, p_even, mul(QQ, q_even)),
            mul_add(P * PP, p_odd, mul_add(Q * QQ, q_odd, m5)),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn sum_gradients([y0, y1, y2, y3]: [__m512; 4]) -> [__m512; 6] {
        let (p_even, p_odd) = (mul_add(PP, y2, y0), mul_add(PP, y3, y1));
        let (q_even, q_odd) = (mul_add(QQ, y2, y0), mul_add(QQ, y3, y1));
        [
            y0,
            mul_add(P, p_odd, p_even),
            mul_add(-P, p_odd, p_even),
            mul_add(Q, q_odd, q_even),
            mul_add(-Q, q_odd, q_even),
            y3,
        ]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn kernel([w0, w1, w2]: [__m512; 3]) -> [__m512; 6] {
        let (p_even, q_even) = (mul(SCALE_P, mul_add(PP, w2, w0)), mul(SCALE_Q, mul_add(QQ, w2, w0)));
        [
            mul(SCALE_0, w0),
            mul_add(SCALE_P * P, w1, p_even),
            mul_add(-SCALE_P * P, w1, p_even),
            mul_add(SCALE_Q * Q, w1, q_even),
            mul_add(-SCALE_Q * Q, w1, q_even),
            w2,
        ]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn kernel_gradient([u0, u1, u2, u3, u4, u5]: [__m512; 6]) -> [__m512; 3] {
        let (p_even, p_odd) = (mul(SCALE_P, add(u1, u2)), mul(SCALE_P * P, sub(u1, u2)));
        let (q_even, q_odd) = (mul(SCALE_Q, add(u3, u4)), mul(SCALE_Q * Q, sub(u3, u4)));
        [mul_add(SCALE_0, u0, add(p_even, q_even)), add(p_odd, q_odd), mul_add(PP, p_even, mul_add(QQ, q_even, u5))]
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sub(a: __m512, b: __m512) -> __m512 {
    _mm512_sub_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn mul(factor: f32, a: __m512) -> __m512 {
    _mm512_mul_ps(_mm512_set1_ps(factor), a)
}

/// `factor * a + b`.
#[inline]
#[target_feature(enable = "avx512f")]
fn mul_add(factor: f32, a: __m512, b: __m512) -> __m512 {
    _mm512_fmadd_ps(_mm512_set1_ps(factor), a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::lacks_avx512;

    const D: [f32; 6] = [0.3, -0.7, 0.2, 0.9, -0.4, 0.6];
    const W: [f32; 3] = [0.5, -0.8, 0.1];
    const Y: [f32; 4] = [-0.6, 0.4, 0.7, -0.3];

    /// The same value in every lane.
    fn vectors<const N: usize>(values: &[f32]) -> [__m512; N] {
        // SAFETY: the tests look for AVX-512 first.
        std::array::from_fn(|i| unsafe { _mm512_set1_ps(values[i]) })
    }

    fn product<const N: usize>(a: [__m512; N], b: [__m512; N]) -> [__m512; N] {
        // SAFETY: as above.
        std::array::from_fn(|i| unsafe { _mm512_mul_ps(a[i], b[i]) })
    }

    /// `values` are `want(0)`, `want(1)`, ...
    fn check<const N: usize>(values: [__m512; N], want: impl Fn(usize) -> f32) {
        for (i, v) in values.into_iter().enumerate() {
            // SAFETY: as above.
            let v = unsafe { _mm512_cvtss_f32(v) };
            assert!((v - want(i)).abs() <= 1e-6, "{i}: {v} {}", want(i));
        }
    }

    /// In one dimension `A^T [(G w) * (B^T d)]` is the sliding product of `d` with `w`, and `G^T [(A y) * (B^T d)]`
    /// that with `y`.
    fn filters<const OUT: usize, const WINDOW: usize>()
    where
        Winograd: Tile<OUT, WINDOW>,
    {
        if lacks_avx512() {
            return;
        }
        // SAFETY: the machine has AVX-512.
        unsafe {
            let windows = Winograd::window(vectors(&D));
            let y = Winograd::sums(product(Winograd::kernel(vectors(&W)), windows));
            check::<OUT>(y, |i| (0..3).map(|k| D[i + k] * W[k]).sum());
            let dw = Winograd::kernel_gradient(product(Winograd::sum_gradients(vectors(&Y)), windows));
            check(dw, |k| (0..OUT).map(|i| D[i + k] * Y[i]).sum());
        }
    }

    #[test]
    fn the_matrices_of_2x2_filter() {
        filters::<2, 4>();
    }

    #[test]
    fn the_matrices_of_4x4_filter() {
        filters::<4, 6>();
    }
}
