//! Arithmetic that is the same to the bit on every machine: no call of the system's mathematics library.

use std::f32::consts::{FRAC_PI_2, TAU};

/// The largest whole number that does not exceed `x`, which is of moderate size.
#[inline]
pub fn floor(x: f32) -> i32 {
    let cut = x as i32;
    cut - i32::from(x < cut as f32)
}

/// The whole number nearest to `x`.
#[inline]
pub fn nearest(x: f32) -> f32 {
    floor(x + 0.5) as f32
}

/// The length of a vector.
#[inline]
pub fn length(x: f32, y: f32) -> f32 {
    (x * x + y * y).sqrt()
}

/// Sine and cosine of an angle in radians, to 2e-4.
pub fn sin_cos(angle: f32) -> (f32, f32) {
    (sin(angle), sin(angle + FRAC_PI_2))
}

/// Taylor's polynomial of degree 7 on the quarter turn that `angle` is folded into.
fn sin(angle: f32) -> f32 {
    let turn = angle - TAU * nearest(angle / TAU); // [-pi, pi]
    let x = if turn > FRAC_PI_2 {
        2.0 * FRAC_PI_2 - turn
    } else if turn < -FRAC_PI_2 {
        -2.0 * FRAC_PI_2 - turn
    } else {
        turn
    };
    let x2 = x * x;
    x * (1.0 - x2 / 6.0 * (1.0 - x2 / 20.0 * (1.0 - x2 / 42.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sine_agrees_with_the_systems() {
        for i in -200..200 {
            let angle = i as f32 * 0.05;
            let (s, c) = sin_cos(angle);
            assert!((s - angle.sin()).abs() < 2e-4 && (c - angle.cos()).abs() < 2e-4, "{angle}");
        }
    }

    #[test]
    fn rounding_agrees_with_the_systems() {
        for i in -400..400 {
            let x = i as f32 * 0.125;
            assert_eq!(floor(x) as f32, x.floor(), "{x}");
            assert!((nearest(x) - x).abs() <= 0.5, "{x}");
        }
    }
}
