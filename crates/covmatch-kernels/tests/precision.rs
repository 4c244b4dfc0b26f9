//! The precision is one setting of the process: this file is a process of its own, with one test.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use burn::tensor::{Device, Tensor};
use covmatch_kernels::simd::Bf16;
use covmatch_kernels::{
    Bf16Missing, Conv2dOptions, Padding, Precision, conv2d, linear, precision, set_precision, simd,
};

use common::{random, vec};

/// A layer's result, and the gradients of its input and weight.
fn layer() -> [Vec<f32>; 3] {
    let device = Device::flex().autodiff();
    let x: Tensor<2> = random([150, 200], 1, &device).require_grad();
    let weight: Tensor<2> = random([130, 200], 2, &device).require_grad();
    let bias: Tensor<1> = random([130], 3, &device);
    let y = linear(x.clone(), weight.clone(), Some(bias));
    let grads = (y.clone() * random([150, 130], 4, &device)).sum().backward();
    let [dx, dw] = [x, weight].map(|t| t.grad(&grads).unwrap().into_data().try_to_vec().unwrap());
    [vec(y), dx, dw]
}

/// A convolution's result, and the gradients of its input and weight: kernels of `k` x `k`, every other pixel.
fn convolution(k: usize) -> [Vec<f32>; 3] {
    let device = Device::flex().autodiff();
    let x: Tensor<4> = random([3, 17, 17, 64], 1, &device).require_grad();
    let weight: Tensor<4> = random([96, 32, k, k], 2, &device).require_grad();
    let options = Conv2dOptions { stride: 2, padding: Padding::Explicit(k / 2), groups: 2, ..Default::default() };
    let y = conv2d(x.clone(), weight.clone(), None, options);
    let grads = (y.clone() * random([3, 9, 9, 96], 4, &device)).sum().backward();
    let [dx, dw] = [x, weight].map(|t| t.grad(&grads).unwrap().into_data().try_to_vec().unwrap());
    [vec(y), dx, dw]
}

#[test]
fn f32_is_the_default_and_bf16_rounds_the_operands_of_all_three_products() {
    assert_eq!(precision(), Precision::F32);
    let (exact, convolved) = (layer(), [1, 3].map(convolution));
    if simd::bf16().is_none() {
        assert_eq!(set_precision(Precision::Bf16), Err(Bf16Missing));
        assert_eq!(precision(), Precision::F32);
        eprintln!("skipped: this test needs a CPU with fast bf16 products");
        return;
    }
    set_precision(Precision::Bf16).unwrap();
    assert_eq!(precision(), Precision::Bf16);
    let (rounded, again) = (layer(), layer());
    assert_eq!(rounded, again);
    for (rounded, exact) in rounded.iter().zip(&exact) {
        assert_ne!(rounded, exact);
        // Sums of at most 200 products of values below 1, which change by 2^-7 at most.
        let bound = 200.0 * (0.5f32.powi(7) + 0.5f32.powi(15));
        assert!(rounded.iter().zip(exact).all(|(r, e)| (r - e).abs() <= bound));
    }
    for (k, exact) in [1, 3].into_iter().zip(&convolved) {
        let (rounded, again) = (convolution(k), convolution(k));
        assert_eq!(rounded, again);
        // As many terms as a tap reads and taps, and as there are pixels; AMX leaves convolutions in f32.
        let terms = (48 * k * k).max(3 * 9 * 9) as f32;
        let bound = terms * (0.5f32.powi(7) + 0.5f32.powi(15));
        for (rounded, exact) in rounded.iter().zip(exact) {
            assert_eq!(rounded == exact, simd::bf16() == Some(Bf16::Amx));
            assert!(rounded.iter().zip(exact).all(|(r, e)| (r - e).abs() <= bound));
        }
    }
    set_precision(Precision::F32).unwrap();
    assert_eq!(layer(), exact);
    assert_eq!([1, 3].map(convolution), convolved);
}
