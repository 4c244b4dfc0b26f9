//! The image transforms agree with PIL, torchvision and OpenCV (python/goldens/data_transforms.py).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;

use covmatch::data::transform::{
    Augmentation, ChannelOrder, Crop, Normalization, Operation, RgbView, Scratch, Transform,
};
use safetensors::SafeTensors;

/// The largest mean absolute difference, of 255 levels.
const TOLERANCE: f64 = 0.5;

/// The picture of the generator of the golden values, `[h, w, 3]`.
fn picture(width: usize, height: usize) -> Vec<u8> {
    let (w, h) = (width as i64, height as i64);
    let radius = w.min(h) * 6 / 10;
    let value = |x: i64, y: i64, c: i64| {
        let (dx, dy) = (2 * x - w, 2 * y - h);
        let mut value = 40 + (x * 120) / w + (y * (30 + 20 * c)) / h;
        if dx * dx + dy * dy < radius * radius {
            value = 230 - 60 * c + (x * 20) / w;
        } else if (x / 7 + y / 5) % 4 == 0 {
            value += 15 * c - 30;
        }
        let grain = (x * 7919 + y * 104_729 + c * 1_299_709 + x * y * 31) % 17;
        (value + grain - 8).clamp(0, 255) as u8
    };
    (0..h).flat_map(|y| (0..w).flat_map(move |x| (0..3).map(move |c| value(x, y, c)))).collect()
}

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name)).unwrap()
}

/// What `plan` makes of the generator's picture.
fn transformed(width: usize, height: usize, size: usize, plan: &Augmentation) -> Vec<u8> {
    let pixels = picture(width, height);
    let view = RgbView::new(width, height, &pixels).unwrap();
    let transform = Transform::new(size, &Normalization::CLIP);
    transform.pixels(view, plan, &mut Scratch::default()).unwrap().to_vec()
}

/// Mean and largest absolute difference.
fn differences(ours: &[u8], theirs: &[u8]) -> (f64, u8) {
    assert_eq!(ours.len(), theirs.len());
    let each = || ours.iter().zip(theirs).map(|(&a, &b)| a.abs_diff(b));
    (each().map(f64::from).sum::<f64>() / ours.len() as f64, each().max().unwrap())
}

#[track_caller]
fn assert_close(name: &str, ours: &[u8], theirs: &[u8]) {
    let (mean, largest) = differences(ours, theirs);
    println!("{name}: mean difference {mean:.4}, largest {largest}");
    assert!(mean <= TOLERANCE, "{name}: mean difference {mean}, largest {largest}");
}

fn operation(name: &str, parameter: f32) -> Operation {
    match name {
        "auto_contrast" => Operation::AutoContrast,
        "equalize" => Operation::Equalize,
        "brightness" => Operation::Brightness(parameter),
        "sharpness" => Operation::Sharpness(parameter),
        "shear_x" => Operation::ShearX(parameter),
        "shear_y" => Operation::ShearY(parameter),
        "translate_x" => Operation::TranslateX(parameter as i32),
        "translate_y" => Operation::TranslateY(parameter as i32),
        "rotate" => Operation::Rotate(parameter),
        _ => panic!("{name} is no operation"),
    }
}

#[test]
fn the_test_transform_agrees_with_torchvision_on_pil_images() {
    let file = golden("data_resize.safetensors");
    let tensors = SafeTensors::deserialize(&file).unwrap();
    assert_eq!(tensors.len(), 6);
    for (name, tensor) in tensors.tensors() {
        let sizes: Vec<usize> = name.split('.').skip(1).map(|number| number.parse().unwrap()).collect();
        let [width, height, size] = sizes[..] else { panic!("{name}") };
        let ours = transformed(width, height, size, &Augmentation::none(width, height));
        assert_close(&name, &ours, tensor.data());
    }
}

#[test]
fn every_operation_agrees_with_pil_or_opencv() {
    let file = golden("data_operations.safetensors");
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let operations: Vec<_> = tensors.tensors().into_iter().filter(|(name, _)| name.starts_with("op.")).collect();
    assert_eq!(operations.len(), 16);
    for (key, tensor) in operations {
        let (name, parameter) = key.trim_start_matches("op.").split_once('.').unwrap();
        let operations = [operation(name, parameter.parse().unwrap()), Operation::Identity];
        let plan = Augmentation { operations, ..Augmentation::none(64, 64) };
        let ours = transformed(64, 64, 64, &plan);
        assert_close(&key, &ours, tensor.data());
        let changed = differences(&ours, &picture(64, 64)).0;
        assert!(changed > 1.0, "{key} changes nothing: {changed}");
    }
}

#[test]
fn whole_train_transforms_agree_with_torchvision_and_opencv() {
    let file = golden("data_operations.safetensors");
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let shear = Augmentation {
        crop: Crop { left: 31, top: 17, width: 411, height: 320 },
        flip: true,
        operations: [Operation::ShearX(0.15), Operation::Equalize],
    };
    let rotate = Augmentation {
        crop: Crop { left: 0, top: 40, width: 101, height: 103 },
        flip: false,
        operations: [Operation::AutoContrast, Operation::Rotate(-15.0)],
    };
    for (name, (width, height), plan) in [("train.shear", (500, 375), shear), ("train.rotate", (120, 160), rotate)] {
        assert_close(name, &transformed(width, height, 64, &plan), tensors.tensor(name).unwrap().data());
    }
}

#[test]
fn random_boxes_are_those_of_torchvision_for_the_same_random_numbers() {
    let file = golden("data_operations.safetensors");
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let cases = tensors.tensor("crop.cases").unwrap();
    let boxes = tensors.tensor("crop.boxes").unwrap();
    let numbers: Vec<f64> = cases.data().as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
    let boxes: Vec<i64> = boxes.data().as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
    assert_eq!(boxes.len(), 4 * 24);
    for (case, expected) in numbers.chunks(cases.shape()[1]).zip(boxes.chunks(4)) {
        let (width, height) = (case[0] as usize, case[1] as usize);
        let mut uniform = case[2..].iter().copied();
        let crop = Crop::draw(width, height, || uniform.next().unwrap());
        let ours = [crop.left, crop.top, crop.width, crop.height].map(|side| side as i64);
        assert_eq!(ours, expected, "{width} x {height}");
    }
}

#[test]
fn normalised_colours_equal_torchvisions_to_the_last_bit() {
    let (ours, theirs) = normalised(&Normalization::CLIP, "normalize.clip");
    assert_eq!(ours, theirs);
}

#[test]
fn the_caffe_convention_is_blue_green_red_minus_the_mean() {
    assert_eq!(Normalization::CAFFE.order, ChannelOrder::Bgr);
    let (ours, theirs) = normalised(&Normalization::CAFFE, "normalize.caffe");
    for (a, b) in ours.iter().zip(&theirs) {
        assert!((a - b).abs() < 2e-5 * 255.0, "{a} {b}");
    }
}

/// Our planes of the generator's picture of all colours, and its own.
fn normalised(normalization: &Normalization, name: &str) -> (Vec<f32>, Vec<f32>) {
    let file = golden("data_operations.safetensors");
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let theirs = tensors.tensor(name).unwrap();
    let theirs = theirs.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();

    let pixels: Vec<u8> = (0..256u32).flat_map(|v| [v as u8, 255 - v as u8, (v * 37 % 256) as u8]).collect();
    let mut planes = vec![0.0; 3 * 256];
    let (first, rest) = planes.split_at_mut(256);
    let (second, third) = rest.split_at_mut(256);
    let view = RgbView::new(16, 16, &pixels).unwrap();
    let plan = Augmentation::none(16, 16);
    let transform = Transform::new(16, normalization);
    transform.apply(view, &plan, &mut Scratch::default(), [first, second, third]).unwrap();
    (planes, theirs)
}

#[test]
fn pixels_outside_of_the_crop_take_no_part() {
    let (width, height) = (40, 30);
    let crop = Crop { left: 10, top: 8, width: 12, height: 9 };
    let inside = |x: usize, y: usize| (10..22).contains(&x) && (8..17).contains(&y);
    let pixels: Vec<u8> =
        (0..height * width).flat_map(|i| [if inside(i % width, i / width) { 200 } else { 0 }; 3]).collect();
    let plan = Augmentation { crop, ..Augmentation::none(width, height) };
    let transform = Transform::new(24, &Normalization::CLIP);
    let view = RgbView::new(width, height, &pixels).unwrap();
    let mut scratch = Scratch::default();
    assert!(transform.pixels(view, &plan, &mut scratch).unwrap().iter().all(|&value| value == 200));
}

#[test]
fn a_picture_without_pixels_and_a_box_outside_are_errors() {
    assert!(RgbView::new(0, 0, &[]).is_err());
    let error = RgbView::new(2, 2, &[0; 11]).unwrap_err();
    assert!(error.to_string().contains("2 x 2"), "{error}");
    let pixels = [0; 12];
    let view = RgbView::new(2, 2, &pixels).unwrap();
    let plan = Augmentation { crop: Crop { left: 1, top: 0, width: 2, height: 2 }, ..Augmentation::none(2, 2) };
    let transform = Transform::new(4, &Normalization::CLIP);
    let error = transform.pixels(view, &plan, &mut Scratch::default()).unwrap_err();
    assert!(error.to_string().contains("does not lie in it"), "{error}");
}
