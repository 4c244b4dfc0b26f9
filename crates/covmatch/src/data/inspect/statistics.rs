//! Percentiles by nearest rank: the smallest value that at least `p` percent of the values do not exceed.
//! (`numpy.percentile(values, p, method="inverted_cdf")`.)

/// The `percent`-th percentile of `sorted`, which is not empty.
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> T {
    let rank = (percent * sorted.len()).div_ceil(100).max(1);
    sorted[rank - 1]
}

/// The mean of `values`; 0 when there are none.
pub fn mean(values: &[usize]) -> f64 {
    values.iter().sum::<usize>() as f64 / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `np.percentile([3, 5, 5, 8, 9, 12, 40], [50, 90, 95, 99, 100, 0], method="inverted_cdf")`
    /// gives `[8, 40, 40, 40, 40, 3]`; of `range(1, 101)` it gives `[50, 90, 95, 99, 100, 1]`.
    #[test]
    fn percentiles_agree_with_numpy() {
        let percents = [50, 90, 95, 99, 100, 0];
        assert_eq!(percents.map(|p| percentile(&[3, 5, 5, 8, 9, 12, 40], p)), [8, 40, 40, 40, 40, 3]);
        let hundred: Vec<usize> = (1..=100).collect();
        assert_eq!(percents.map(|p| percentile(&hundred, p)), [50, 90, 95, 99, 100, 1]);
    }
}
