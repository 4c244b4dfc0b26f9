//! Elementary functions that compile to vector instructions: straight-line `f32` arithmetic without library calls.
//!
//! Each takes `FMA`, which [`vectorized!`](crate::simd) bodies have in scope: whether the level has fused
//! multiply-add (without it the compiler would call a slow library function).

#![allow(clippy::excessive_precision, clippy::approx_constant)] // coefficients of polynomials, as fitted

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

/// `1.5 * 2^23`: adding it to a small number leaves the nearest integer in the low bits.
const ROUND: f32 = 12_582_912.0;

/// `e^x` to 2 units in the last place; arguments are clamped to `[-87, 88]`, so the result is never 0 nor infinite.
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    // x = n ln 2 + r with |r| <= ln 2 / 2; e^x = 2^n e^r.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = clamp(x, -87.0, 88.0);
    let shifted = mul_add::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = mul_add::<FMA>(n, -LN_2_LOW, mul_add::<FMA>(n, -LN_2_HIGH, x));
    // e^r to 3e-9 of its value.
    let mut e_r = 1.381_461_9e-3;
    for c in [8.368_711e-3, 4.166_838_9e-2, 1.666_652_1e-1, 4.999_999_4e-1, 1.0, 1.0] {
        e_r = mul_add::<FMA>(e_r, r, c);
    }
    e_r * power_of_two(shifted)
}

/// `2^n` of the integer `n` in the low bits of `n + ROUND`.
#[inline(always)]
fn power_of_two(shifted: f32) -> f32 {
    f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid<const FMA: bool>(x: f32) -> f32 {
    reciprocal::<FMA>(1.0 + exp::<FMA>(-x))
}

/// `1 / d` for `d >= 1`, to 2 units in the last place; that of `2^126` beyond it.
///
/// Newton's method keeps the units of multiplication busy, where a division of vectors would wait for its own.
#[inline(always)]
fn reciprocal<const FMA: bool>(d: f32) -> f32 {
    /// Taking a number's bits from these divides 1 by it, to an eighth of the result.
    const BITS: u32 = 0x7ef3_11c3;
    let d = if d > 8.507_059e37 { 8.507_059e37 } else { d };
    let mut r = f32::from_bits(BITS.wrapping_sub(d.to_bits()));
    for _ in 0..3 {
        r = mul_add::<FMA>(r, mul_add::<FMA>(-d, r, 1.0), r); // the relative error is squared
    }
    r
}

/// Beyond this many standard deviations [`normal_tail`] stays at its value there, 1e-9.
pub(crate) const NORMAL_LIMIT: f32 = 6.0;

/// `(e^(-a^2 / 2), Phi(-a))` for `0 <= a <= NORMAL_LIMIT`: the normal density without its constant, and the tail.
///
/// `Phi(-a) = e^(-a^2 / 2) Q(a)`; the polynomial `Q` minimises the largest error of `max(a, 1) Phi(-a)`, which is
/// 1.2e-7.
#[inline(always)]
pub(crate) fn normal_tail<const FMA: bool>(a: f32) -> (f32, f32) {
    // e^(-a^2 / 2) = 2^(n + f) with |f| <= 1/2.
    let exponent = a * a * (-0.5 * std::f32::consts::LOG2_E);
    let shifted = exponent + ROUND;
    let f = exponent - (shifted - ROUND);
    let mut density = 1.326_473_9e-3;
    for c in [9.671_517e-3, 5.550_733_6e-2, 2.402_224_2e-1, 6.931_47e-1, 1.0] {
        density = mul_add::<FMA>(density, f, c);
    }
    let density = density * power_of_two(shifted);
    let mut q = 1.269_505_9e-6;
    for c in [
        -2.896_502_5e-5,
        2.949_544_9e-4,
        -1.800_610_3e-3,
        7.540_063e-3,
        -2.376_041_7e-2,
        6.069_975e-2,
        -1.323_046_8e-1,
        2.498_693_6e-1,
        -3.989_324_6e-1,
        4.999_998_8e-1,
    ] {
        q = mul_add::<FMA>(q, a, c);
    }
    (density, density * q)
}

/// Combines partial results of a reduction pairwise. `N` is a power of two.
#[inline(always)]
pub(crate) fn fold<const N: usize>(lanes: [f32; N], f: impl Fn(f32, f32) -> f32) -> f32 {
    // Through memory once: otherwise the compiler takes the lanes out of their registers in every step of the loop
    // that made them.
    let mut lanes = std::hint::black_box(lanes);
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = f(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
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
                assert!((f64::from(got) - want).abs() <= 2e-7 * want, "exp({x}) = {got}, want {want}");
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
    fn sigmoid_agrees_with_f64_with_and_without_fma() {
        for x in grid(86.9) {
            let want = 1.0 / (1.0 + (-f64::from(x)).exp());
            for got in [sigmoid::<true>(x), sigmoid::<false>(x)] {
                assert!((f64::from(got) - want).abs() <= 4e-7 * want, "sigmoid({x}) = {got}, want {want}");
            }
        }
    }

    #[test]
    fn sigmoid_of_extremes_is_0_or_1_and_of_nan_is_nan() {
        for low in [-90.0, -1e30, f32::NEG_INFINITY] {
            assert!((0.0..2e-38).contains(&sigmoid::<true>(low)), "{}", sigmoid::<true>(low));
        }
        for high in [90.0, 1e30, f32::INFINITY] {
            assert_eq!(sigmoid::<true>(high), 1.0);
        }
        assert!(sigmoid::<true>(f32::NAN).is_nan());
    }

    #[test]
    fn normal_tail_agrees_with_its_integral() {
        // Phi(-a) by Simpson's rule from a to a + 12 in f64.
        let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        for i in 0..120 {
            let a = f64::from(i) * 0.05;
            let n = 4000;
            let h = 12.0 / f64::from(n);
            let inner: f64 = (1..n).map(|j| density(a + h * f64::from(j)) * if j % 2 == 1 { 4.0 } else { 2.0 }).sum();
            let want = (density(a) + inner + density(a + 12.0)) * h / 3.0;
            let got = f64::from(normal_tail::<true>(a as f32).1);
            assert!((got - want).abs() <= 2.5e-7, "Phi(-{a}) = {got}, want {want}");
        }
    }
}
