//! Video encoders against torchvision: `python python/goldens/video.py` makes the golden values.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod parity;

use burn::tensor::{Device, Tensor};
use covmatch::encoders::video::{self, AnyVideoEncoder};
use covmatch::encoders::weights::generated;
use covmatch::encoders::{EncoderError, VideoEncoder};
use covmatch_kernels::plain_ops;
use parity::Golden;

fn check(case: &str) {
    let golden = Golden::read(case);
    let device = Device::flex().autodiff();
    let encoder = generated::fill(AnyVideoEncoder::new("r3d_18", &device).unwrap());
    let frames = golden.input::<5>(&device);
    let features = encoder.encode(frames.clone()).unwrap();
    golden.check(&encoder, &frames, features);
}

#[test]
fn r3d_18_agrees_with_torchvision_on_the_cpu_kernels() {
    check("video_r3d_18");
}

#[test]
fn r3d_18_agrees_with_torchvision_on_plain_operations() {
    plain_ops(|| check("video_r3d_18"));
}

#[test]
fn r3d_18_agrees_with_torchvision_on_odd_sizes() {
    check("video_r3d_18_odd");
}

#[test]
fn the_parameter_count_is_the_upstream_one() {
    let encoder = AnyVideoEncoder::new("r3d_18", &Device::flex()).unwrap();
    assert_eq!(parity::num_params(&encoder), Golden::read("video_r3d_18").get("num_params")[0] as usize);
}

#[test]
fn multiply_adds_are_what_pytorch_counts() {
    let golden = Golden::read("video_r3d_18");
    let device = Device::flex();
    let encoder = AnyVideoEncoder::new("r3d_18", &device).unwrap();
    let frames = Tensor::zeros(golden.input_shape::<5>(), &device);
    let (_, counted) = covmatch::encoders::macs::count(|| encoder.encode(frames).unwrap());
    let expected = golden.get("macs")[0]; // rounded to f32
    assert!((counted as f64 - expected).abs() <= 1e-6 * expected, "{counted}, PyTorch {expected}");
}

#[test]
fn statistics_of_batch_norms_are_never_trained() {
    let device = Device::flex().autodiff();
    let encoder = generated::fill(AnyVideoEncoder::new("r3d_18", &device).unwrap());
    let frames = Tensor::ones([1, 3, 1, 16, 16], &device);
    parity::statistics_stay_frozen(encoder, |e| e.encode(frames).unwrap());
}

#[test]
fn info_and_encoder_agree_on_the_feature_dimension() {
    for name in video::names() {
        let encoder = AnyVideoEncoder::new(name, &Device::flex()).unwrap();
        assert_eq!(encoder.feature_dim(), video::info(name).unwrap().feature_dim, "{name}");
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_list_of_names() {
    let error = AnyVideoEncoder::new("mc3_18", &Device::flex()).unwrap_err();
    assert_eq!(error.to_string(), "there is no video encoder 'mc3_18'; known names: r3d_18");
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let device = Device::flex();
    let encoder = AnyVideoEncoder::new("r3d_18", &device).unwrap();
    let encode = |shape: [usize; 5]| encoder.encode(Tensor::zeros(shape, &device)).unwrap_err();
    assert_eq!(encode([0, 3, 4, 32, 32]), EncoderError::EmptyBatch);
    for shape in [[1, 1, 4, 32, 32], [1, 3, 0, 32, 32], [1, 3, 4, 15, 32], [1, 3, 4, 32, 15]] {
        assert!(matches!(encode(shape), EncoderError::Shape { got, .. } if got == shape), "{shape:?}");
    }
}
