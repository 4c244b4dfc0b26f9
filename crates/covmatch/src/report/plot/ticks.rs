//! Where an axis has its marks and what is written there.
//!
//! Steps are 1, 2 or 5 times a power of ten. A logarithmic axis has marks at the powers of ten; over less than two
//! decades also at 2 and 5 times these; and over a small part of one decade at even steps, as a linear axis has.

use super::Scale;

/// A mark of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// Its place on the scale: the value, or its decimal logarithm.
    pub at: f64,
    /// What is written there.
    pub label: String,
}

/// About `count` marks between `low` and `high`, which are places on the scale.
pub(super) fn ticks(low: f64, high: f64, count: usize, scale: Scale) -> Vec<Tick> {
    let linear = |(value, step): (f64, f64)| Tick { at: value, label: label(value, step) };
    match scale {
        Scale::Linear => even(low, high, count).map(linear).collect(),
        Scale::Log => logarithmic(low, high, count),
    }
}

/// Multiples of a round step, with the step.
fn even(low: f64, high: f64, count: usize) -> impl Iterator<Item = (f64, f64)> {
    let step = round_step((high - low) / count.max(1) as f64);
    let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    (first..=last).map(move |i| (i as f64 * step, step))
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `raw`.
fn round_step(raw: f64) -> f64 {
    let power = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|&step| step >= raw * (1.0 - 1e-9)).unwrap_or(raw)
}

fn logarithmic(low: f64, high: f64, count: usize) -> Vec<Tick> {
    const ENOUGH: usize = 3;
    let inside = |value: &f64| (low - 1e-9..=high + 1e-9).contains(&value.log10());
    let tick = |(value, step): (f64, f64)| Tick { at: value.log10(), label: label(value, step) };
    let decades = low.floor() as i32..=high.ceil() as i32;
    let apart = decades.clone().count().div_ceil(count.max(1) + 2).max(1);
    let powers: Vec<f64> = decades.clone().step_by(apart).map(|e| 10f64.powi(e)).filter(inside).collect();
    if powers.len() >= ENOUGH {
        return powers.into_iter().map(|value| tick((value, value))).collect();
    }
    let between = decades.flat_map(|e| [1.0, 2.0, 5.0].map(|m| (m * 10f64.powi(e), 10f64.powi(e))));
    let between: Vec<Tick> = between.filter(|(value, _)| inside(value)).map(tick).collect();
    if between.len() >= ENOUGH {
        return between;
    }
    even(10f64.powf(low), 10f64.powf(high), count).map(tick).collect()
}

/// `value` with as many digits as neighbours that are `step` apart need.
pub(super) fn label(value: f64, step: f64) -> String {
    let digits = |of: f64| (of.abs().log10() + 1e-9).floor() as i32;
    if value == 0.0 || value.abs() < step * 1e-6 {
        "0".to_owned()
    } else if value.abs() >= 1e6 || step < 0.999e-4 {
        format!("{value:.*e}", (digits(value) - digits(step)).max(0) as usize)
    } else {
        format!("{value:.*}", (-digits(step)).max(0) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64, scale: Scale) -> Vec<String> {
        ticks(low, high, 5, scale).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn linear_marks_are_round() {
        assert_eq!(labels(0.0, 1.0, Scale::Linear), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(0.0, 2000.0, Scale::Linear), ["0", "500", "1000", "1500", "2000"]);
        assert_eq!(labels(-3.0, 11.0, Scale::Linear), ["0", "5", "10"]);
        assert_eq!(labels(0.101, 0.149, Scale::Linear), ["0.11", "0.12", "0.13", "0.14"]);
    }

    #[test]
    fn marks_lie_inside_the_axis_at_their_value() {
        for tick in ticks(0.13, 7.7, 5, Scale::Linear) {
            assert!((0.13..=7.7).contains(&tick.at), "{tick:?}");
            assert_eq!(tick.label.parse::<f64>().ok().map(|v| (v - tick.at).abs() < 1e-9), Some(true), "{tick:?}");
        }
    }

    #[test]
    fn logarithmic_marks_are_powers_of_ten_when_there_are_some() {
        assert_eq!(labels(-3.2, 0.1, Scale::Log), ["0.001", "0.01", "0.1", "1"]);
        let wide = ticks(-30.0, 2.0, 5, Scale::Log);
        assert!((3..=8).contains(&wide.len()), "{wide:?}");
    }

    #[test]
    fn a_short_logarithmic_axis_has_marks_between_the_powers() {
        assert_eq!(labels(-1.0, 0.1, Scale::Log), ["0.1", "0.2", "0.5", "1"]);
        assert_eq!(labels(0.31, 0.59, Scale::Log), ["2.5", "3.0", "3.5"]);
    }

    #[test]
    fn numbers_that_would_be_long_are_written_with_an_exponent() {
        assert_eq!(label(2e-5, 1e-5), "2e-5");
        assert_eq!(label(1.25e6, 5e4), "1.25e6");
        assert_eq!(label(1e6, 1e6), "1e6");
        assert_eq!(label(1e-4, 1e-4), "0.0001");
        assert_eq!(label(0.001, 0.001), "0.001");
        assert_eq!(label(-0.5, 0.5), "-0.5");
    }
}
