//! Weight standardisation, pooling, held pieces and the gated residual, with their gradients, against burn's own operations and
//! against finite differences.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use burn::tensor::{Device, Tensor, TensorData};
use covmatch_kernels::{
    Epilogue, avg_pool2d, gated_residual, global_avg_pool, hold, max_pool2d, max_pool2d_at, plain_ops, relu6,
    standardize,
};
use proptest::prelude::*;

use common::{fill, random, vec};

/// `[value, gradient of each input..]` of `sum(f(inputs) * cotangent)`.
type Results = Vec<Vec<f32>>;

/// Compares what `run` gives on the kernels and on burn's own operations.
fn check(what: &str, run: impl Fn() -> Results) {
    let (got, want) = (run(), plain_ops(&run));
    assert_eq!(got.len(), want.len());
    for (which, (got, want)) in got.iter().zip(&want).enumerate() {
        assert_eq!(got.len(), want.len(), "{what}, result {which}");
        let scale = want.iter().fold(1e-3_f32, |m, v| m.max(v.abs()));
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            assert!((g - w).abs() <= 2e-5 * scale, "{what}, result {which}[{i}] = {g}, burn says {w}");
        }
    }
}

/// Value and gradient of an operation of one image tensor.
fn image_op<const D: usize>(shape: [usize; 4], op: impl Fn(Tensor<4>) -> Tensor<D>) -> Results {
    let device = Device::flex().autodiff();
    let x = random(shape, 1, &device).require_grad();
    let y = op(x.clone());
    let grads = (y.clone() * random(y.dims(), 2, &device)).sum().backward();
    vec![vec(y), vec(x.grad(&grads).unwrap())]
}

fn standardized(shape: [usize; 4], gamma: f32, eps: f32) -> Results {
    let device = Device::flex().autodiff();
    let w = random(shape, 1, &device).require_grad();
    let gain = random([shape[0], 1, 1, 1], 2, &device).require_grad();
    let y = standardize(w.clone(), gain.clone(), gamma, eps);
    let grads = (y.clone() * random(y.dims(), 3, &device)).sum().backward();
    vec![vec(y), vec(w.grad(&grads).unwrap()), vec(gain.grad(&grads).unwrap())]
}

fn gated([n, h, w, c]: [usize; 4], scale: f32) -> Results {
    let device = Device::flex().autodiff();
    let branch = random([n, h, w, c], 1, &device).require_grad();
    let gate = random([n, c], 2, &device).require_grad();
    let shortcut = random([n, h, w, c], 3, &device).require_grad();
    let y = gated_residual(branch.clone(), gate.clone(), shortcut.clone(), scale);
    let grads = (y.clone() * random(y.dims(), 4, &device)).sum().backward();
    vec![
        vec(y),
        vec(branch.grad(&grads).unwrap()),
        vec(gate.grad(&grads).unwrap()),
        vec(shortcut.grad(&grads).unwrap()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn averages_of_any_shape_match_burn(
        n in 1_usize..4, h in 1_usize..10, w in 1_usize..10, c in 1_usize..40, size in 1_usize..5
    ) {
        check("global_avg_pool", || image_op([n, h, w, c], global_avg_pool));
        check("avg_pool2d", || image_op([n, h.max(size), w.max(size), c], |x| avg_pool2d(x, size)));
    }

    #[test]
    fn maxima_of_any_shape_match_burn(
        n in 1_usize..4, h in 1_usize..10, w in 1_usize..10, c in 1_usize..40, size in 1_usize..5, stride in 1_usize..4
    ) {
        prop_assume!(stride <= size);
        check("max_pool2d", || image_op([n, h.max(size), w.max(size), c], |x| max_pool2d(x, size, stride)));
    }

    #[test]
    fn pieces_and_maxima_of_other_images_match_burn(
        n in 1_usize..4, h in 1_usize..10, w in 1_usize..10, c in 1_usize..40, size in 1_usize..5, stride in 1_usize..4
    ) {
        prop_assume!(stride <= size);
        let shape = [n, h.max(size), w.max(size), c];
        let other = |shape: [usize; 4]| random(shape, 5, &Device::flex().autodiff());
        check("max_pool2d_at", || image_op(shape, |x| max_pool2d_at(x, other(shape), size, stride)));
        // Some of them below 0, some between the bounds, some above 6.
        let clamped = || relu6(other(shape).mul_scalar(12.0));
        check("hold", || image_op(shape, |x| hold(x, clamped(), Epilogue::Relu6)));
    }

    #[test]
    fn standardisation_of_any_shape_matches_burn(
        out in 1_usize..30, i in 1_usize..30, k in 1_usize..4, gamma in 0.5_f32..2.0
    ) {
        // Two weights of a row become +-s whatever they are: their gradient is what rounding leaves of a difference of
        // equal numbers, and has nothing to be compared with.
        prop_assume!(i * k * k > 2);
        check("standardize", || standardized([out, i, k, k], gamma, 1e-5));
    }

    #[test]
    fn gated_residuals_of_any_shape_match_burn(
        n in 1_usize..4, h in 1_usize..8, w in 1_usize..8, c in 1_usize..70, scale in -2.0_f32..2.0
    ) {
        check("gated_residual", || gated([n, h, w, c], scale));
    }
}

#[test]
fn windows_past_the_edge_average_what_they_cover() {
    let x = Tensor::<4>::from_data(TensorData::new((0..9).map(|v| v as f32).collect(), [1, 3, 3, 1]), &Device::flex());
    // torch.nn.functional.avg_pool2d(torch.arange(9.).view(1, 1, 3, 3), 2, 2, ceil_mode=True, count_include_pad=False)
    assert_eq!(vec(avg_pool2d(x.clone(), 2)), [2.0, 3.5, 6.5, 8.0]);
    // torch.nn.functional.max_pool2d(torch.arange(9.).view(1, 1, 3, 3), 2, 2, ceil_mode=True)
    assert_eq!(vec(max_pool2d(x, 2, 2)), [4.0, 5.0, 7.0, 8.0]);
}

#[test]
fn of_equal_maxima_the_first_gets_the_gradient() {
    let device = Device::flex().autodiff();
    let x = Tensor::<4>::ones([1, 3, 3, 2], &device).require_grad();
    let grads = max_pool2d(x.clone(), 2, 1).sum().backward();
    // x = torch.ones(1, 1, 3, 3, requires_grad=True); F.max_pool2d(x, 2, 1).sum().backward(); x.grad
    let want = [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(vec(x.grad(&grads).unwrap()), want.iter().flat_map(|v| [*v, *v]).collect::<Vec<f32>>());
}

#[test]
fn a_window_with_nan_gives_nan() {
    let values = vec![1.0, f32::NAN, 3.0, 2.0, 5.0, 4.0];
    let x = Tensor::<4>::from_data(TensorData::new(values, [1, 2, 3, 1]), &Device::flex());
    let y = vec(max_pool2d(x, 2, 1));
    assert!(y[0].is_nan() && y[1].is_nan());
}

#[test]
fn standardised_weights_match_finite_differences() {
    let (shape, gamma, eps) = ([3, 4, 2, 2], 1.7, 1e-3);
    let results = standardized(shape, gamma, eps);
    let (w, gain, cotangent) = (fill(48, 1), fill(3, 2), fill(48, 3));
    // The definition in f64.
    let loss = |w: &[f64], gain: &[f64]| -> f64 {
        let mut total = 0.0;
        for (out, w) in w.chunks_exact(16).enumerate() {
            let mean = w.iter().sum::<f64>() / 16.0;
            let var = w.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 16.0;
            let s = gain[out] * f64::from(gamma) / 4.0 / (var + f64::from(eps)).sqrt();
            total += w.iter().zip(&cotangent[out * 16..]).map(|(v, c)| (v - mean) * s * f64::from(*c)).sum::<f64>();
        }
        total
    };
    let (w, gain): (Vec<f64>, Vec<f64>) =
        (w.into_iter().map(f64::from).collect(), gain.into_iter().map(f64::from).collect());
    let step = 1e-5;
    for i in 0..w.len() {
        let at = |delta: f64| {
            let mut w = w.clone();
            w[i] += delta;
            loss(&w, &gain)
        };
        let want = (at(step) - at(-step)) / (2.0 * step);
        assert!((f64::from(results[1][i]) - want).abs() <= 1e-5, "w[{i}]: {} {want}", results[1][i]);
    }
    for i in 0..gain.len() {
        let at = |delta: f64| {
            let mut gain = gain.clone();
            gain[i] += delta;
            loss(&w, &gain)
        };
        let want = (at(step) - at(-step)) / (2.0 * step);
        assert!((f64::from(results[2][i]) - want).abs() <= 1e-5, "gain[{i}]: {} {want}", results[2][i]);
    }
}

#[test]
fn strided_inputs_and_gradients_are_accepted() {
    check("permuted pooling", || {
        image_op([2, 5, 7, 6], |x| avg_pool2d(x.permute([0, 2, 3, 1]), 2).permute([0, 3, 1, 2]))
    });
    check("permuted maximum", || {
        image_op([2, 5, 7, 6], |x| max_pool2d(x.permute([0, 2, 3, 1]), 3, 2).permute([0, 3, 1, 2]))
    });
    check("permuted gate", || {
        image_op([2, 5, 7, 6], |x| {
            let x = x.permute([0, 2, 3, 1]);
            let gate = global_avg_pool(x.clone());
            gated_residual(x.clone(), gate, x, 0.5).permute([0, 3, 1, 2])
        })
    });
}

#[test]
fn gradients_that_are_not_tracked_are_not_made() {
    let device = Device::flex().autodiff();
    let (branch, shortcut) = (random([1, 2, 2, 3], 1, &device), random([1, 2, 2, 3], 3, &device));
    let gate = random([1, 3], 2, &device).require_grad();
    let grads = gated_residual(branch.clone(), gate.clone(), shortcut.clone(), 1.0).sum().backward();
    assert!(gate.grad(&grads).is_some() && branch.grad(&grads).is_none() && shortcut.grad(&grads).is_none());
}

#[test]
#[should_panic(expected = "global_avg_pool: empty batch")]
fn global_average_of_an_empty_batch_is_refused() {
    global_avg_pool(Tensor::zeros([0, 2, 2, 3], &Device::flex()));
}

#[test]
#[should_panic(expected = "avg_pool2d: empty batch")]
fn average_of_an_empty_batch_is_refused() {
    avg_pool2d(Tensor::zeros([0, 2, 2, 3], &Device::flex()), 2);
}

#[test]
#[should_panic(expected = "max_pool2d: empty batch")]
fn maximum_of_an_empty_batch_is_refused() {
    max_pool2d(Tensor::zeros([0, 2, 2, 3], &Device::flex()), 2, 2);
}

#[test]
#[should_panic(expected = "gated_residual: empty batch")]
fn gated_residual_of_an_empty_batch_is_refused() {
    let device = Device::flex();
    gated_residual(
        Tensor::zeros([0, 2, 2, 3], &device),
        Tensor::zeros([0, 3], &device),
        Tensor::zeros([0, 2, 2, 3], &device),
        1.0,
    );
}

#[test]
#[should_panic(expected = "gated_residual: shape of the gate")]
fn a_gate_of_the_wrong_shape_is_refused() {
    let device = Device::flex();
    let x = Tensor::<4>::zeros([1, 2, 2, 3], &device);
    gated_residual(x.clone(), Tensor::zeros([1, 4], &device), x, 1.0);
}
