#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::tiled::RUN;
use super::*;
use crate::gemm::tests::fill;
use crate::simd::forms;

/// Element `(i, j)`.
fn at(x: Matrix, i: usize, j: usize) -> f32 {
    x.data[i * x.row_stride + j * x.col_stride]
}

/// The nearest bf16 value, the even one of two.
pub(crate) fn rounded(v: f32) -> f32 {
    let bits = v.to_bits();
    f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
}

/// An element by the definition: the clamped sum, and the sum of its terms' magnitudes.
fn definition(x: impl Fn(usize) -> f32, y: impl Fn(usize) -> f32, k: usize, bias: f32, clamp: Clamp) -> (f64, f64) {
    let terms = (0..k).map(|l| f64::from(x(l)) * f64::from(y(l)));
    let (sum, size) = terms.fold((f64::from(bias), f64::from(bias.abs())), |(s, t), v| (s + v, t + v.abs()));
    (sum.clamp(f64::from(clamp.low), f64::from(clamp.high)), size)
}

/// A product and what it is computed from.
struct Case {
    a: Vec<f32>,
    b: Vec<f32>,
    bias: Vec<f32>,
    shape: [usize; 3],
    transposed: [bool; 2],
    with_bias: bool,
    clamp: Clamp,
}

impl Case {
    fn new(m: usize, n: usize, k: usize, transposed: [bool; 2]) -> Self {
        let (a, b, bias) = (fill(m * k, 1), fill(k * n, 2), fill(n, 3));
        Self { a, b, bias, shape: [m, n, k], transposed, with_bias: false, clamp: Clamp::NONE }
    }

    fn operands(&self) -> (Matrix<'_>, Matrix<'_>) {
        let ([m, n, k], [ta, tb]) = (self.shape, self.transposed);
        let a = if ta { Matrix::new(&self.a, k, m).t() } else { Matrix::new(&self.a, m, k) };
        let b = if tb { Matrix::new(&self.b, n, k).t() } else { Matrix::new(&self.b, k, n) };
        (a, b)
    }

    fn product(&self, form: Bf16) -> Vec<f32> {
        let (a, b) = self.operands();
        let start = if self.with_bias { Start::Bias(&self.bias) } else { Start::Zero };
        // SAFETY: `forms` has what the machine has.
        unsafe { product(form, a, b, start, self.clamp) }
    }

    /// Checks every `stride`-th element against the definition on rounded operands, from which only the roundings of the
    /// sums differ, and on the operands as they are.
    fn check(&self, stride: usize) {
        let ((a, b), [m, n, k]) = (self.operands(), self.shape);
        for form in forms() {
            let c = self.product(form);
            assert_eq!(c.len(), m * n);
            for (index, got) in c.iter().enumerate().step_by(stride) {
                let (i, j) = (index / n, index % n);
                let bias = if self.with_bias { self.bias[j] } else { 0.0 };
                let (x, y) = (|l| at(a, i, l), |l| at(b, l, j));
                let sums = (k + 1) as f64 * 0.5f64.powi(23);
                let (want, size) = definition(|l| rounded(x(l)), |l| rounded(y(l)), k, bias, self.clamp);
                let error = (f64::from(*got) - want).abs();
                assert!(error <= size * sums, "{form:?} {:?} ({i}, {j}): {got} {want}", self.shape);
                let (want, size) = definition(x, y, k, bias, self.clamp);
                let (error, operands) = ((f64::from(*got) - want).abs(), 0.5f64.powi(7) + 0.5f64.powi(16));
                assert!(error <= size * (operands + sums), "{form:?} {:?} ({i}, {j}): {got} {want}", self.shape);
            }
        }
    }
}

const TRANSPOSES: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn products_of_any_shape_and_stride_match_the_definition(
        m in 1usize..90, n in 1usize..150, k in 1usize..300, ta: bool, tb: bool, with_bias: bool, relu6: bool
    ) {
        let clamp = if relu6 { Clamp::RELU6 } else { Clamp::NONE };
        Case { with_bias, clamp, ..Case::new(m, n, k, [ta, tb]) }.check(1);
    }
}

#[test]
fn sizes_around_those_of_tiles_and_blocks_match_the_definition() {
    const SIZES: [usize; 8] = [1, 15, 16, 17, 31, 32, 33, 65];
    for transposed in TRANSPOSES {
        for (m, n, k) in SIZES.iter().flat_map(|&m| SIZES.iter().flat_map(move |&n| SIZES.map(|k| (m, n, k)))) {
            Case::new(m, n, k, transposed).check(1);
        }
    }
}

#[test]
fn reductions_of_several_runs_match_the_definition() {
    for (transposed, with_bias) in TRANSPOSES.into_iter().zip([false, true, false, true]) {
        for k in [RUN - 1, RUN, RUN + 1, 3 * RUN + 77] {
            for clamp in [Clamp::NONE, Clamp::RELU] {
                Case { with_bias, clamp, ..Case::new(70, 97, k, transposed) }.check(1);
            }
        }
    }
}

#[test]
fn products_of_many_tasks_match_the_definition() {
    for transposed in TRANSPOSES {
        Case::new(1030, 1100, 600, transposed).check(997);
    }
}

#[test]
fn a_long_reduction_into_a_small_result_matches_the_definition() {
    for transposed in TRANSPOSES {
        Case::new(70, 45, 5001, transposed).check(7);
    }
}

#[test]
fn a_large_result_of_a_short_reduction_matches_the_definition() {
    for (n, with_bias) in [(1024, true), (1020, false)] {
        Case { with_bias, clamp: Clamp::RELU6, ..Case::new(1100, n, 41, [false, true]) }.check(997);
    }
}

#[test]
fn rows_and_columns_that_lie_apart_match_the_definition() {
    let (data, [m, n, k]) = (fill(100 * 100, 1), [70, 40, 50]);
    let (a, b) = (Matrix::strided(&data, m, k, 100), Matrix::strided(&data[7..], k, n, 99));
    let gather = |x: Matrix| -> Vec<f32> { (0..x.rows * x.cols).map(|i| at(x, i / x.cols, i % x.cols)).collect() };
    let (dense_a, dense_b) = (gather(a), gather(b));
    let (dense_a, dense_b) = (Matrix::new(&dense_a, m, k), Matrix::new(&dense_b, k, n));
    for form in forms() {
        // SAFETY: `forms` has what the machine has.
        let product = |a, b| unsafe { product(form, a, b, Start::Zero, Clamp::NONE) };
        assert_eq!(product(a, b), product(dense_a, dense_b));
        assert_eq!(product(b.t(), a.t()), product(dense_b.t(), dense_a.t()));
    }
}

#[test]
fn the_bytes_depend_neither_on_chance_nor_on_the_number_of_threads() {
    for form in forms() {
        for (m, n, k, transposed) in [(300, 700, 1300, [false, true]), (50, 70, 9000, [true, false])] {
            let case = Case::new(m, n, k, transposed);
            let bytes = || case.product(form).iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
            let want = bytes();
            assert_eq!(want, bytes());
            for threads in [1, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                assert_eq!(want, pool.install(bytes));
            }
        }
    }
}

#[test]
fn nan_spreads_to_its_row_alone_and_is_not_clamped() {
    for form in forms() {
        let mut case = Case { clamp: Clamp::RELU6, ..Case::new(40, 50, 60, [false, false]) };
        case.a[3 * 60 + 7] = f32::NAN;
        let c = case.product(form);
        assert!(c.chunks(50).enumerate().all(|(i, row)| row.iter().all(|v| v.is_nan() == (i == 3))));
    }
}

#[test]
fn nothing_is_rounded_unless_the_process_asks_for_it() {
    assert_eq!(precision(), Precision::F32);
    assert_eq!(form(1024, 1024, 1024), None);
}
