//! Fewer and smoother points for a curve of many.
//!
//! The smoothed value at a point is that of the least-squares line through its neighbours,
//! ```text
//! s_i = mean(y) + (i - mean(j)) * cov(j, y) / var(j)   over j in i-r ..= i+r
//! ```
//! which, unlike a moving average, neither lags nor flattens a steep start.

/// Points that are left of a curve at most: two per unit of a chart's width.
const DRAWN: usize = 880;

/// At most [`DRAWN`] points: the lowest and the highest of each run of neighbours, in their order.
pub(super) fn extremes(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= DRAWN {
        return points.to_vec();
    }
    let ends = |run: &[(f64, f64)]| {
        let by_height = |a: &usize, b: &usize| run[*a].1.total_cmp(&run[*b].1);
        let lowest = (0..run.len()).min_by(by_height).unwrap_or(0);
        let highest = (0..run.len()).max_by(by_height).unwrap_or(0);
        [run[lowest.min(highest)], run[lowest.max(highest)]]
    };
    points.chunks(points.len().div_ceil(DRAWN / 2)).flat_map(ends).collect()
}

/// At most [`DRAWN`] points: the mean of each run of neighbours.
pub(super) fn means(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean = |run: &[(f64, f64)]| {
        let (x, y) = run.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (x / run.len() as f64, y / run.len() as f64)
    };
    points.chunks(points.len().div_ceil(DRAWN)).map(mean).collect()
}

/// Each point moved to the line through its neighbours, an eighth of the curve in all.
pub(super) fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let radius = (points.len() / 16).max(2);
    let smooth = |i: usize| {
        let near = &points[i.saturating_sub(radius)..(i + radius + 1).min(points.len())];
        let (count, here) = (near.len() as f64, (i - i.saturating_sub(radius)) as f64);
        let (mean_j, mean_y) = ((count - 1.0) / 2.0, near.iter().map(|point| point.1).sum::<f64>() / count);
        let (cov, var) = near.iter().enumerate().fold((0.0, 0.0), |(cov, var), (j, point)| {
            let d = j as f64 - mean_j;
            (cov + d * (point.1 - mean_y), var + d * d)
        });
        (points[i].0, mean_y + (here - mean_j) * cov / f64::max(var, 1.0))
    };
    (0..points.len()).map(smooth).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(count: usize) -> Vec<(f64, f64)> {
        (0..count).map(|i| (i as f64, i as f64)).collect()
    }

    #[test]
    fn smoothing_keeps_a_straight_line_and_takes_noise_away() {
        let straight = ramp(100);
        let kept = smoothed(&straight);
        assert!(kept.iter().zip(&straight).all(|(a, b)| (a.1 - b.1).abs() < 1e-9));
        let noisy: Vec<_> = (0..100).map(|i| (f64::from(i), f64::from(i % 2))).collect();
        assert!(smoothed(&noisy)[10..90].iter().all(|point| (point.1 - 0.5).abs() < 0.1));
    }

    #[test]
    fn a_long_curve_is_thinned_without_losing_its_peak() {
        let mut points = ramp(50_000);
        points[31_234].1 = 1e6;
        points[31_235].1 = -1e6;
        let thin = extremes(&points);
        assert!(thin.len() <= DRAWN && thin.len() > DRAWN / 2, "{}", thin.len());
        assert!(thin.contains(&(31_234.0, 1e6)) && thin.contains(&(31_235.0, -1e6)));
        assert!(thin.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert_eq!(means(&ramp(2 * DRAWN))[..2], [(0.5, 0.5), (2.5, 2.5)]);
        assert_eq!(means(&ramp(DRAWN)), ramp(DRAWN));
    }
}
