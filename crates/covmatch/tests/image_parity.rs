//! Image encoders against timm and torchvision: `python python/goldens/image.py` makes the golden values.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod parity;

use burn::tensor::{Device, Tensor};
use covmatch::encoders::image::{self, AnyImageEncoder, ChannelOrder, Normalization};
use covmatch::encoders::weights::generated;
use covmatch::encoders::{EncoderError, ImageEncoder};
use covmatch_kernels::plain_ops;
use parity::Golden;

/// The encoder of a golden file, whose name may end in `_logits` or `_odd`.
fn encoder(case: &str, device: &Device) -> AnyImageEncoder {
    match case.strip_suffix("_logits") {
        Some(name) => AnyImageEncoder::with_logits(name, device),
        None => AnyImageEncoder::new(case.strip_suffix("_odd").unwrap_or(case), device),
    }
    .unwrap()
}

fn check(case: &str) {
    let golden = Golden::read(&format!("image_{case}"));
    let device = Device::flex().autodiff();
    let encoder = generated::fill(encoder(case, &device));
    let pixels = golden.input::<4>(&device);
    let features = encoder.encode(pixels.clone()).unwrap();
    assert_eq!(features.dims()[1], encoder.feature_dim());
    golden.check(&encoder, &pixels, features);
}

macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        const CASES: &[&str] = &[$(stringify!($case)),*];
        $(mod $case {
            #[test]
            fn features_and_gradients_agree_with_upstream_on_the_cpu_kernels() {
                super::check(stringify!($case));
            }

            #[test]
            fn features_and_gradients_agree_with_upstream_on_plain_operations() {
                super::plain_ops(|| super::check(stringify!($case)));
            }
        })*
    };
}

cases!(
    nfnet_l0,
    nfnet_l0_odd,
    nf_resnet50,
    nf_resnet50_logits,
    nf_regnet_b1,
    nf_regnet_b1_logits,
    vit_base_patch16_224,
    vit_tiny_patch16_224,
    efficientnet_lite0,
    efficientnet_lite0_odd,
    efficientnet_lite1,
    efficientnet_lite2,
    mobilenetv2_100,
    resnet18,
    squeezenet1_1,
);

#[test]
fn every_encoder_has_a_golden_file() {
    for name in parity::upstream(image::names()) {
        assert!(CASES.contains(&name), "{name}");
    }
}

#[test]
fn parameter_counts_are_the_upstream_ones() {
    for case in CASES {
        let expected = Golden::read(&format!("image_{case}")).get("num_params")[0] as usize;
        assert_eq!(parity::num_params(&encoder(case, &Device::flex())), expected, "{case}");
    }
}

#[test]
fn published_parameter_counts_are_met() {
    for (case, expected) in [
        ("nfnet_l0", 32_769_488),
        ("nf_regnet_b1", 9_262_984),
        ("nf_regnet_b1_logits", 10_223_984),
        ("nf_resnet50_logits", 25_557_032),
        ("vit_base_patch16_224", 85_798_656),
        ("resnet18", 11_176_512),
    ] {
        assert_eq!(parity::num_params(&encoder(case, &Device::flex())), expected, "{case}");
    }
}

#[test]
fn multiply_adds_are_what_pytorch_counts() {
    for case in CASES {
        let golden = Golden::read(&format!("image_{case}"));
        let (device, [n, _, h, w]) = (Device::flex(), golden.input_shape());
        let encoder = encoder(case, &device);
        let pixels = Tensor::zeros([n, 3, h, w], &device);
        let (_, counted) = covmatch::encoders::macs::count(|| encoder.encode(pixels).unwrap());
        let expected = golden.get("macs")[0]; // rounded to f32
        assert!((counted as f64 - expected).abs() <= 1e-6 * expected, "{case}: {counted}, PyTorch {expected}");
    }
}

#[test]
fn multiply_adds_by_name_are_those_of_one_image() {
    let golden = Golden::read("image_vit_tiny_patch16_224"); // a batch of two
    let counted = image::macs("vit_tiny_patch16_224", 224, &Device::flex()).unwrap();
    assert_eq!(counted as f32, (golden.get("macs")[0] / 2.0) as f32);
}

#[test]
fn statistics_of_batch_norms_are_never_trained() {
    for name in ["efficientnet_lite0", "mobilenetv2_100", "resnet18"] {
        let device = Device::flex().autodiff();
        let encoder = generated::fill(encoder(name, &device));
        let pixels = Tensor::ones([1, 3, 32, 32], &device);
        parity::statistics_stay_frozen(encoder, |e| e.encode(pixels).unwrap());
    }
}

#[test]
fn frozen_weights_leave_the_gradient_of_the_pixels_as_it_was() {
    use burn::module::Module;
    let device = Device::flex().autodiff();
    let golden = Golden::read("image_mobilenetv2_100");
    let encoder = generated::fill(encoder("mobilenetv2_100", &device));
    let gradient = |encoder: &AnyImageEncoder| {
        let pixels = golden.input::<4>(&device);
        let features = encoder.encode(pixels.clone()).unwrap();
        pixels.grad(&features.sum().backward()).unwrap().into_data()
    };
    let trained = gradient(&encoder);
    let frozen = gradient(&encoder.freeze());
    trained.assert_approx_eq::<f32>(&frozen, burn::tensor::Tolerance::relative(1e-5));
}

#[test]
fn info_and_encoder_agree_on_the_feature_dimension() {
    for name in image::names() {
        let encoder = AnyImageEncoder::new(name, &Device::flex()).unwrap();
        assert_eq!(encoder.feature_dim(), image::info(name).unwrap().feature_dim, "{name}");
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_list_of_names() {
    let error = AnyImageEncoder::new("resnet50", &Device::flex()).unwrap_err();
    assert!(matches!(&error, EncoderError::Unknown { name, .. } if name == "resnet50"));
    for name in image::names() {
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(image::info("resnet50").unwrap_err(), error);
}

#[test]
fn logits_of_an_encoder_without_classifier_are_refused() {
    let error = AnyImageEncoder::with_logits("vit_tiny_patch16_224", &Device::flex()).unwrap_err();
    assert!(error.to_string().ends_with("known names: nf_resnet50, nf_regnet_b1"), "{error}");
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let device = Device::flex();
    for name in image::names() {
        let encoder = AnyImageEncoder::new(name, &device).unwrap();
        let encode = |shape: [usize; 4]| encoder.encode(Tensor::zeros(shape, &device)).unwrap_err();
        assert_eq!(encode([0, 3, 224, 224]), EncoderError::EmptyBatch, "{name}");
        for shape in [[1, 1, 224, 224], [1, 4, 224, 224], [1, 3, 31, 224], [1, 3, 224, 31], [1, 3, 0, 0]] {
            assert!(matches!(encode(shape), EncoderError::Shape { got, .. } if got == shape), "{name} {shape:?}");
        }
    }
}

#[test]
fn the_smallest_image_gives_one_feature_vector() {
    let device = Device::flex();
    for name in image::names().filter(|name| !name.starts_with("vit")) {
        let encoder = AnyImageEncoder::new(name, &device).unwrap();
        let features = encoder.encode(Tensor::ones([1, 3, 32, 32], &device)).unwrap();
        assert_eq!(features.dims(), [1, encoder.feature_dim()], "{name}");
    }
}

#[test]
fn normalizations_are_what_the_networks_were_trained_with() {
    let apply = |n: Normalization, channel: usize, x: f32| (x / 255.0 - n.mean[channel]) / n.std[channel];
    let lite = image::info("efficientnet_lite1").unwrap().normalization;
    for (x, expected) in [(127.0, 0.0), (255.0, 1.0), (63.0, -0.5)] {
        assert!((apply(lite, 0, x) - expected).abs() < 1e-6);
    }
    let squeezenet = image::info("squeezenet1_1").unwrap().normalization;
    assert_eq!(squeezenet.order, ChannelOrder::Bgr);
    for (channel, mean) in [103.939, 116.779, 123.68].into_iter().enumerate() {
        assert!((apply(squeezenet, channel, 200.0) - (200.0 - mean)).abs() < 1e-4);
    }
}
