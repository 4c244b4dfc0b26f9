//! Elementary functions that compile to vector instructions: straight-line `f32` arithmetic without library calls.
//!
//! Each takes `FMA`, which [`vectorized!`](crate::simd) bodies have in scope: whether the level has fused
//! multiply-add (without it the compiler would call a slow library function).

/// `a * b + c`.
#[inline(always)]
pub(crate) fn mul_add<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `low` if `x < low`, `high` if `x > high`, else `x`; NaN stays NaN.
#[inline(always)]
pub(crate) fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `e^x` to 2 units in the last place; arguments are clamped to `[-87, 88]`, so the result is never 0 nor infinite.
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    // x = n ln 2 + r with |r| <= ln 2 / 2; e^x = 2^n e^r.
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = clamp(x, -87.0, 88.0);
    let shifted = mul_add::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = mul_add::<FMA>(n, -LN_2_LOW, mul_add::<FMA>(n, -LN_2_HIGH, x));
    // Cephes' polynomial for (e^r - 1 - r) / r^2.
    let mut p = 1.987_569_1e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1] {
        p = mul_add::<FMA>(p, r, c);
    }
    let e_r = mul_add::<FMA>(p, r * r, r) + 1.0;
    e_r * f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid<const FMA: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<FMA>(-x))
}

/// `(e^(-a^2 / 2), Phi(-a))` for `a >= 0`: the normal density without its constant, and the tail beyond `a`.
///
/// `Phi(-a) = e^(-a^2 / 2) Q(t)` with `t = 1 / (1 + 0.34 a)`; `Q` is a polynomial of degree 7 fitted to minimise the
/// largest error of `max(a, 1) Phi(-a)`, which is 2e-8 before rounding.
#[inline(always)]
pub(crate) fn normal_tail<const FMA: bool>(a: f32) -> (f32, f32) {
    const Q: [f32; 7] =
        [0.043_776_266, -0.196_058_85, 0.256_377_55, -0.023_891_8, 0.153_317_76, 0.130_526_27, 0.135_952_79];
    let density = exp::<FMA>(-0.5 * a * a);
    let t = 1.0 / mul_add::<FMA>(0.34, a, 1.0);
    let mut q = Q[0];
    for c in &Q[1..] {
        q = mul_add::<FMA>(q, t, *c);
    }
    (density, density * (q * t))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from -limit to limit, 1e-3 apart.
    fn grid(limit: f32) -> impl Iterator<Item = f32> {
        let steps = (limit * 1000.0) as i32;
        (-steps..=steps).map(|i| i as f32 * 1e-3)
    }

    #[test]
    fn exp_agrees_with_f64_with_and_without_fma() {
        for x in grid(86.9) {
            let want = f64::from(x).exp();
            for got in [exp::<true>(x), exp::<false>(x)] {
                assert!((f64::from(got) - want).abs() <= 2.5e-7 * want, "exp({x}) = {got}, want {want}");
            }
        }
    }

    #[test]
    fn exp_of_extremes_is_finite_and_of_nan_is_nan() {
        assert!(exp::<true>(f32::NEG_INFINITY) < 1e-37);
        assert!(exp::<true>(f32::INFINITY).is_finite());
        assert!(exp::<true>(f32::NAN).is_nan());
    }

    #[test]
    fn normal_tail_agrees_with_its_integral() {
        // Phi(-a) by Simpson's rule from a to a + 12 in f64.
        let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        for i in 0..120 {
            let a = f64::from(i) * 0.05;
            let n = 4000;
            let h = 12.0 / f64::from(n);
            let inner: f64 =
                (1..n).map(|j| density(a + h * f64::from(j)) * if j % 2 == 1 { 4.0 } else { 2.0 }).sum();
            let want = (density(a) + inner + density(a + 12.0)) * h / 3.0;
            let got = f64::from(normal_tail::<true>(a as f32).1);
            assert!((got - want).abs() <= 2e-7, "Phi(-{a}) = {got}, want {want}");
        }
    }
}
