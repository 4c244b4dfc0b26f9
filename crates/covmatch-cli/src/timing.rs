//! The time of repeated work, and how it is shown.

use std::time::Instant;

use serde_json::Value;

use crate::args::ReportArgs;
use crate::console::serve;

/// Runs `work` `warmup + iterations` times and returns the median seconds of the last `iterations` runs.
///
/// Whatever `work` returns is dropped inside the timed span, so that freeing memory counts, and before the next run, so
/// that two runs never hold memory at once.
pub fn median_seconds<R>(
    warmup: usize,
    iterations: usize,
    mut work: impl FnMut() -> anyhow::Result<R>,
) -> anyhow::Result<f64> {
    let mut seconds = Vec::with_capacity(iterations);
    for i in 0..warmup + iterations {
        let start = Instant::now();
        drop(work()?);
        if i >= warmup {
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    Ok(median(seconds))
}

/// The middle value, or the mean of the two middle values; NaN of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[half],
        _ => (values[half - 1] + values[half]) / 2.0,
    }
}

/// What a benchmark found.
pub trait Measured {
    /// For programs.
    fn json(&self) -> Value;
    /// For people.
    fn text(&self) -> String;
}

/// Measures once and returns the findings as text or JSON, or measures and answers as long as lines come on stdin.
pub fn report<M: Measured>(form: ReportArgs, mut measure: impl FnMut() -> anyhow::Result<M>) -> anyhow::Result<String> {
    let json = |found: M| format!("{}\n", found.json());
    match (form.serve, form.json) {
        (true, _) => serve(|| measure().map(json)).map(|()| String::new()),
        (false, true) => measure().map(json),
        (false, false) => measure().map(|found| found.text()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan());
    }

    #[test]
    fn warm_up_runs_are_not_counted() {
        let mut runs = 0;
        let seconds = median_seconds(1, 3, || {
            runs += 1;
            if runs == 1 {
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(runs, 4);
        assert!(seconds < 0.2, "{seconds}");
    }

    #[test]
    fn a_failing_run_ends_the_measurement() {
        assert!(median_seconds(0, 3, || Err::<(), _>(anyhow::anyhow!("no"))).is_err());
    }
}
