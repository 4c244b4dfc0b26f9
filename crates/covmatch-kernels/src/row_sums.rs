//! The sum of a matrix's rows: the gradient of a bias.
//!
//! Rows are summed in parts of a fixed size and the parts in their order, so the result does not depend on the number of
//! threads.

use rayon::prelude::*;

use crate::simd::vectorized;

/// Rows of `cols` values in a part: 64 KB.
pub(crate) fn rows_a_part(cols: usize) -> usize {
    (1_usize << 14).div_ceil(cols)
}

/// The sum of the rows of `x`, `cols` values each.
pub(crate) fn sum_rows(x: &[f32], cols: usize) -> Vec<f32> {
    sum_parts(x.par_chunks(rows_a_part(cols) * cols).map(|rows| {
        let mut sum = vec![0.0; cols];
        add_rows(rows, &mut sum);
        sum
    }))
}

/// The sum of the sums of the parts.
pub(crate) fn sum_parts(parts: impl IndexedParallelIterator<Item = Vec<f32>>) -> Vec<f32> {
    let parts: Vec<Vec<f32>> = parts.collect();
    let add = |mut sum: Vec<f32>, part: Vec<f32>| {
        add_rows(&part, &mut sum);
        sum
    };
    parts.into_iter().reduce(add).unwrap_or_default()
}

vectorized! {
    /// Adds every row to `sum`.
    fn add_rows(rows: &[f32], sum: &mut [f32]) {
        for row in rows.chunks_exact(sum.len()) {
            for (sum, v) in sum.iter_mut().zip(row) {
                *sum += v;
            }
        }
    }
}
