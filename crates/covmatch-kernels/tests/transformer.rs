//! The elementwise and transformer operations against the same mathematics in burn's own operations, and against
//! finite differences.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use burn::tensor::{DType, Device, Tensor, TensorData};
use covmatch_kernels::*;
use proptest::prelude::*;

use common::fill;

/// How an operation under test gets its inputs and its gradient.
#[derive(Clone, Copy, Debug)]
struct Handling {
    /// Inputs that nothing else refers to, so that the operation may work in place.
    fresh: bool,
    /// A gradient that is not contiguous.
    strided: bool,
}

fn handling() -> impl Strategy<Value = Handling> {
    (any::<bool>(), any::<bool>()).prop_map(|(fresh, strided)| Handling { fresh, strided })
}

/// Values and gradients (one for each input, `None` if frozen) of an operation.
struct Outcome {
    y: Vec<f32>,
    gradients: Vec<Option<Vec<f32>>>,
}

/// Inputs of an operation and whether each is tracked.
type Inputs<'a> = &'a [(Vec<f32>, bool)];

/// Runs `f` on flat inputs and differentiates `sum(y * c)` with fixed random `c`.
fn run(inputs: Inputs, how: Handling, f: &dyn Fn(Vec<Tensor<1>>) -> Tensor<2>) -> Outcome {
    let device = Device::flex().autodiff();
    let leaves: Vec<Tensor<1>> = inputs
        .iter()
        .map(|(values, tracked)| {
            let leaf = Tensor::from_data(TensorData::new(values.clone(), [values.len()]), &device);
            if *tracked { leaf.require_grad() } else { leaf }
        })
        .collect();
    let y = f(leaves.iter().map(|t| if how.fresh { t.clone().mul_scalar(1.0) } else { t.clone() }).collect());
    let values = y.to_data().try_to_vec::<f32>().unwrap();
    let y = if how.strided { y.swap_dims(0, 1) } else { y };
    let c = Tensor::<2>::from_data(TensorData::new(fill(values.len(), 99), y.dims()), &device);
    let grads = (y * c).sum().backward();
    let gradients = leaves.iter().map(|t| t.grad(&grads).map(|g| g.to_data().try_to_vec().unwrap())).collect();
    Outcome { y: values, gradients }
}

/// The largest difference, relative to the largest value or 1.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let scale = b.iter().fold(1.0_f32, |m, v| m.max(v.abs()));
    let difference = a.iter().zip(b).map(|(a, b)| if (a - b).is_nan() { f32::INFINITY } else { (a - b).abs() });
    difference.fold(0.0_f32, f32::max) / scale
}

/// Asserts that kernels and burn's operations agree in values and in every tracked gradient.
fn check(name: &str, inputs: Inputs, how: Handling, tolerance: f32, f: &dyn Fn(Vec<Tensor<1>>) -> Tensor<2>) {
    let ours = run(inputs, how, f);
    let plain = plain_ops(|| run(inputs, how, f));
    let d = distance(&ours.y, &plain.y);
    assert!(d <= tolerance, "{name} {how:?}: values differ by {d}");
    for (i, ((ours, plain), (_, tracked))) in ours.gradients.iter().zip(&plain.gradients).zip(inputs).enumerate() {
        assert_eq!(ours.is_some(), *tracked, "{name}: gradient {i}");
        if let (Some(ours), Some(plain)) = (ours, plain) {
            let d = distance(ours, plain);
            assert!(d <= tolerance, "{name} {how:?}: gradients of input {i} differ by {d}");
        }
    }
}

/// Asserts that the gradient of `sum(y * c)` along a random direction is the difference quotient of the values.
fn check_slope(name: &str, inputs: Inputs, f: &dyn Fn(Vec<Tensor<1>>) -> Tensor<2>) {
    let how = Handling { fresh: false, strided: false };
    let epsilon = 1e-2_f32;
    let directions: Vec<Vec<f32>> = inputs.iter().enumerate().map(|(i, (v, _))| fill(v.len(), 50 + i as u64)).collect();
    let loss = |sign: f32| -> f64 {
        let moved: Vec<_> = inputs
            .iter()
            .zip(&directions)
            .map(|((v, t), d)| (v.iter().zip(d).map(|(v, d)| v + sign * epsilon * d).collect(), *t))
            .collect();
        let y = run(&moved, how, f).y;
        let c = fill(y.len(), 99);
        y.iter().zip(c).map(|(y, c)| f64::from(*y) * f64::from(c)).sum()
    };
    let quotient = (loss(1.0) - loss(-1.0)) / (2.0 * f64::from(epsilon));
    let gradients = run(inputs, how, f).gradients;
    let slope: f64 = gradients
        .iter()
        .zip(&directions)
        .flat_map(|(g, d)| g.as_ref().unwrap().iter().zip(d).map(|(g, d)| f64::from(*g) * f64::from(*d)))
        .sum();
    assert!((slope - quotient).abs() <= 2e-3 * quotient.abs().max(1.0), "{name}: slope {slope}, quotient {quotient}");
}

fn scaled(values: Vec<f32>, scale: f32) -> Vec<f32> {
    values.into_iter().map(|v| v * scale).collect()
}

type Elementwise = fn(Tensor<2>) -> Tensor<2>;

const ELEMENTWISE: [(&str, Elementwise); 6] = [
    ("silu", |x| silu(x, 1.788)),
    ("gelu", gelu),
    ("relu", relu),
    ("relu6", relu6),
    ("sigmoid", sigmoid),
    ("dropout", |x| dropout(x, Dropout { probability: 0.3, seed: 5 })),
];

const PLAIN: Handling = Handling { fresh: false, strided: false };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn elementwise_operations_agree_with_burn(rows in 1usize..9, cols in 1usize..70, how in handling()) {
        for (name, f) in ELEMENTWISE {
            let x = scaled(fill(rows * cols, 1), 8.0);
            check(name, &[(x, true)], how, 2e-6, &|x| f(x[0].clone().reshape([rows, cols])));
        }
    }

    #[test]
    fn add_agrees_with_burn(rows in 1usize..9, cols in 1usize..70, how in handling(), x: bool, y: bool) {
        prop_assume!(x || y);
        let inputs = [(fill(rows * cols, 1), x), (fill(rows * cols, 2), y)];
        check("add", &inputs, how, 1e-6, &|mut t| {
            let y = t.remove(1).reshape([rows, cols]);
            add(t.remove(0).reshape([rows, cols]), y)
        });
    }

    #[test]
    fn linear_agrees_with_burn(
        rows in 1usize..40, d_in in 1usize..80, d_out in 1usize..150, bias: bool, how in handling(), tracked in 1u8..8
    ) {
        let bit = |i: u8| tracked >> i & 1 == 1;
        prop_assume!(bias || tracked & 3 != 0);
        let inputs = [
            (fill(rows * d_in, 1), bit(0)), (fill(d_out * d_in, 2), bit(1)), (fill(d_out, 3), bias && bit(2)),
        ];
        check("linear", &inputs, how, 2e-5, &|t| {
            let [x, w, b] = t.try_into().unwrap();
            linear(x.reshape([rows, d_in]), w.reshape([d_out, d_in]), bias.then_some(b))
        });
    }

    #[test]
    fn layer_norm_agrees_with_burn(rows in 1usize..40, d in 1usize..100, how in handling(), tracked in 1u8..8) {
        let bit = |i: u8| tracked >> i & 1 == 1;
        let inputs = [(fill(rows * d, 1), bit(0)), (fill(d, 2), bit(1)), (fill(d, 3), bit(2))];
        check("layer_norm", &inputs, how, 2e-4, &|t| {
            let [x, gamma, beta] = t.try_into().unwrap();
            layer_norm(x.reshape([rows, d]), gamma, beta, 1e-3)
        });
    }

    #[test]
    fn add_layer_norm_agrees_with_burn(rows in 1usize..40, d in 1usize..100, how in handling(), tracked in 1u8..16) {
        let bit = |i: u8| tracked >> i & 1 == 1;
        let inputs =
            [(fill(rows * d, 1), bit(0)), (fill(rows * d, 4), bit(1)), (fill(d, 2), bit(2)), (fill(d, 3), bit(3))];
        check("add_layer_norm", &inputs, how, 2e-4, &|t| {
            let [x, residual, gamma, beta] = t.try_into().unwrap();
            add_layer_norm(x.reshape([rows, d]), residual.reshape([rows, d]), gamma, beta, 1e-3)
        });
    }

    #[test]
    fn attention_agrees_with_burn(
        n in 1usize..4, queries in 1usize..40, l in 1usize..40, heads in 1usize..4,
        d in prop_oneof![Just(32), Just(64), 1usize..20], masked: bool, dropped: bool, how in handling(), tracked in 1u8..8
    ) {
        let bit = |i: u8| tracked >> i & 1 == 1;
        // Sequence b has l - 3 b keys, at least one.
        let mask: Vec<f32> = (0..n * l).map(|i| if i % l < l.saturating_sub(3 * (i / l)).max(1) { 1.0 } else { 0.0 }).collect();
        let size = |i| n * if i == 1 { queries } else { l } * heads * d;
        let inputs = [1, 2, 3].map(|i| (scaled(fill(size(i), i), 2.0), bit(i as u8 - 1)));
        check("attention", &inputs, how, 2e-5, &|t| attend(t, [n, queries, l, heads, d], masked.then_some(&mask), dropped));
    }
}

/// [`attention`] on flat inputs.
fn attend(
    t: Vec<Tensor<1>>,
    [n, queries, l, heads, d]: [usize; 5],
    mask: Option<&Vec<f32>>,
    dropped: bool,
) -> Tensor<2> {
    let mask = mask.map(|m| Tensor::from_data(TensorData::new(m.clone(), [n, l]), &t[0].device()));
    let [q, k, v] = <[_; 3]>::try_from(t).unwrap().map(|t| t.reshape([n as i32, -1, (heads * d) as i32]));
    let drop = dropped.then_some(Dropout { probability: 0.2, seed: 17 });
    attention(q, k, v, mask, heads, drop).reshape([n * queries, heads * d])
}

#[test]
fn large_shapes_agree_with_burn() {
    for (name, f) in ELEMENTWISE {
        let x = scaled(fill(37 * 3001, 1), 8.0);
        check(name, &[(x, true)], PLAIN, 2e-6, &|x| f(x[0].clone().reshape([37, 3001])));
    }
    let (rows, d) = (130, 1030);
    let inputs = [(fill(rows * d, 1), true), (fill(rows * d, 4), true), (fill(d, 2), true), (fill(d, 3), true)];
    check("add_layer_norm", &inputs, Handling { fresh: true, strided: true }, 1e-4, &|t| {
        let [x, residual, gamma, beta] = t.try_into().unwrap();
        add_layer_norm(x.reshape([rows, d]), residual.reshape([rows, d]), gamma, beta, 1e-5)
    });
    let (rows, d_in, d_out) = (200, 300, 700);
    let inputs = [(fill(rows * d_in, 1), true), (fill(d_out * d_in, 2), true), (fill(d_out, 3), true)];
    check("linear", &inputs, PLAIN, 2e-5, &|t| {
        let [x, w, b] = t.try_into().unwrap();
        linear(x.reshape([rows, d_in]), w.reshape([d_out, d_in]), Some(b))
    });
    for [n, l, heads, d] in [[2, 65, 2, 64], [1, 197, 3, 64], [1, 512, 1, 32], [2, 33, 1, 80]] {
        let (size, shape) = (n * l * heads * d, [n, l, l, heads, d]);
        let inputs = [1, 2, 3].map(|i| (scaled(fill(size, i), 2.0), true));
        check("attention", &inputs, PLAIN, 2e-5, &|t| attend(t, shape, None, true));
    }
}

#[test]
fn gelu_and_its_gradient_are_exact_to_a_millionth() {
    let n = 24_001;
    let x: Vec<f32> = (0..n).map(|i| i as f32 / 1000.0 - 12.0).collect();
    let precise = (&Device::flex(), DType::F64);
    let wide = Tensor::<1>::from_data(TensorData::new(x.iter().map(|v| f64::from(*v)).collect(), [n]), precise);
    let cumulative = wide.clone().div_scalar(std::f64::consts::SQRT_2).erf().add_scalar(1.0).mul_scalar(0.5);
    let density = (wide.clone() * wide.clone()).mul_scalar(-0.5).exp().div_scalar(std::f64::consts::TAU.sqrt());
    let slope = (cumulative.clone() + wide.clone() * density).to_data().try_to_vec::<f64>().unwrap();
    let value = (wide * cumulative).to_data().try_to_vec::<f64>().unwrap();

    let leaf = Tensor::<1>::from_data(TensorData::new(x.clone(), [n]), &Device::flex().autodiff()).require_grad();
    let y = gelu(leaf.clone());
    let got = y.to_data().try_to_vec::<f32>().unwrap();
    let gradient = leaf.grad(&y.sum().backward()).unwrap().to_data().try_to_vec::<f32>().unwrap();
    for i in 0..n {
        assert!((f64::from(got[i]) - value[i]).abs() <= 1e-6, "gelu({}) = {}, want {}", x[i], got[i], value[i]);
        assert!(
            (f64::from(gradient[i]) - slope[i]).abs() <= 1e-6,
            "gelu'({}) = {}, want {}",
            x[i],
            gradient[i],
            slope[i]
        );
    }
}

#[test]
fn slopes_agree_with_finite_differences() {
    for (name, f) in ELEMENTWISE {
        if !name.starts_with("relu") {
            check_slope(name, &[(scaled(fill(60, 1), 3.0), true)], &|x| f(x[0].clone().reshape([5, 12])));
        }
    }
    let inputs = [(fill(60, 1), true), (fill(60, 4), true), (fill(12, 2), true), (fill(12, 3), true)];
    check_slope("add_layer_norm", &inputs, &|t| {
        let [x, residual, gamma, beta] = t.try_into().unwrap();
        add_layer_norm(x.reshape([5, 12]), residual.reshape([5, 12]), gamma, beta, 1e-5)
    });
    let inputs = [(fill(60, 1), true), (fill(84, 2), true), (fill(7, 3), true)];
    check_slope("linear", &inputs, &|t| {
        let [x, w, b] = t.try_into().unwrap();
        linear(x.reshape([5, 12]), w.reshape([7, 12]), Some(b))
    });
    let inputs = [1, 2, 3].map(|i| (fill(2 * 6 * 10, i), true));
    let mask = [vec![1.0; 6], vec![1.0, 1.0, 1.0, 1.0, 0.0, 0.0]].concat();
    check_slope("attention", &inputs, &|t| attend(t, [2, 6, 6, 2, 5], Some(&mask), true));
}

#[test]
fn nan_is_not_hidden() {
    for (name, f) in ELEMENTWISE {
        let x = Tensor::<2>::from_data([[f32::NAN, 1.0]], &Device::flex());
        let y = f(x).to_data().try_to_vec::<f32>().unwrap();
        assert!(y[0].is_nan() && !y[1].is_nan(), "{name}: {y:?}");
    }
}

#[test]
fn padded_keys_do_not_matter_and_a_sequence_of_padding_attends_uniformly() {
    let (l, d) = (5, 4);
    let device = Device::flex();
    let tensor = |values: Vec<f32>| Tensor::<3>::from_data(TensorData::new(values, [2, l, d]), &device);
    let (q, k, v) = (fill(2 * l * d, 1), fill(2 * l * d, 2), fill(2 * l * d, 3));
    let mask = Tensor::<2>::from_data([[1.0, 1.0, 1.0, 0.0, 0.0], [0.0; 5]], &device);
    // Huge values in the padded keys of the first sequence.
    let spoil = |values: &[f32]| {
        values.iter().enumerate().map(|(i, v)| if (3 * d..l * d).contains(&i) { 1e4 } else { *v }).collect::<Vec<_>>()
    };
    let run = |k: Vec<f32>, v: Vec<f32>| {
        attention(tensor(q.clone()), tensor(k), tensor(v), Some(mask.clone()), 1, None)
            .to_data()
            .try_to_vec::<f32>()
            .unwrap()
    };
    let (clean, spoiled) = (run(k.clone(), v.clone()), run(spoil(&k), spoil(&v)));
    assert_eq!(clean[..l * d], spoiled[..l * d]);
    let plain = plain_ops(|| run(k.clone(), v.clone()));
    assert!(distance(&clean, &plain) <= 1e-6);
    for (i, got) in clean[l * d..].iter().enumerate() {
        let mean = (0..l).map(|j| v[(l + j) * d + i % d]).sum::<f32>() / l as f32;
        assert!((got - mean).abs() <= 1e-6, "{got} {mean}");
    }
}

#[test]
fn dropout_keeps_its_fraction_and_its_mask_whatever_the_thread_count() {
    let n = 300_000;
    let drop = Dropout { probability: 0.1, seed: 42 };
    let drop_ones = || dropout(Tensor::<1>::ones([n], &Device::flex()), drop).to_data().try_to_vec::<f32>().unwrap();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(drop_ones)
    };
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(5));
    assert_eq!(one, plain_ops(drop_ones));
    let kept = one.iter().filter(|v| **v != 0.0).count() as f64 / n as f64;
    assert!((kept - 0.9).abs() < 0.003, "kept {kept}");
    assert!(one.iter().all(|v| *v == 0.0 || *v == 1.0 / 0.9));
    let other = dropout(Tensor::<1>::ones([n], &Device::flex()), Dropout { seed: 43, ..drop });
    assert_ne!(one, other.to_data().try_to_vec::<f32>().unwrap());
}

#[test]
fn frozen_weights_cost_no_weight_gradient_and_frozen_inputs_no_input_gradient() {
    let counts = |x: bool, w: bool| {
        let before = (counters::input_gradients(), counters::weight_gradients());
        let inputs = [(fill(12, 1), x), (fill(20, 2), w)];
        run(&inputs, PLAIN, &|t| linear(t[0].clone().reshape([3, 4]), t[1].clone().reshape([5, 4]), None));
        (counters::input_gradients() - before.0, counters::weight_gradients() - before.1)
    };
    assert_eq!(counts(true, false), (1, 0));
    assert_eq!(counts(false, true), (0, 1));
    assert_eq!(counts(true, true), (1, 1));
}

#[test]
fn gradient_checkpointing_gives_the_same_gradients() {
    let gradients = |device: Device| {
        let leaf = |n: usize, seed| Tensor::<1>::from_data(TensorData::new(fill(n, seed), [n]), &device).require_grad();
        let (x, w, gamma) = (leaf(24, 1), leaf(16, 2), leaf(4, 3));
        let h = gelu(silu(x.clone().reshape([6, 4]), 1.5));
        let h = linear(h, w.clone().reshape([4, 4]), None);
        let h = relu(layer_norm(h.clone(), gamma.clone(), gamma.clone(), 1e-5));
        let h = h.reshape([2, 3, 4]);
        let y = attention(h.clone(), h.clone(), gelu(h), None, 2, None);
        let grads = (y.clone() * y).sum().backward();
        [x, w, gamma].map(|t| t.grad(&grads).unwrap().to_data().try_to_vec::<f32>().unwrap())
    };
    let stored = gradients(Device::flex().autodiff());
    let recomputed = gradients(Device::flex().autodiff().gradient_checkpointing());
    for (a, b) in stored.iter().zip(&recomputed) {
        assert!(distance(a, b) <= 1e-6);
    }
}

/// The message that `f` panics with.
fn panic_message(f: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let payload = std::panic::catch_unwind(f).expect_err("must panic");
    payload.downcast_ref::<String>().cloned().unwrap_or_else(|| (*payload.downcast_ref::<&str>().unwrap()).to_string())
}

#[test]
fn an_empty_batch_is_refused_by_name() {
    fn empty() -> Tensor<2> {
        Tensor::zeros([0, 4], &Device::flex())
    }
    fn vector() -> Tensor<1> {
        Tensor::zeros([4], &Device::flex())
    }
    for (name, f) in ELEMENTWISE {
        let message = panic_message(move || drop(f(empty())));
        assert!(message.starts_with(&format!("{name}: empty input")), "{message}");
    }
    let operations: [(&str, fn()); 5] = [
        ("add", || drop(add(empty(), empty()))),
        ("linear", || drop(linear(empty(), Tensor::zeros([3, 4], &Device::flex()), None))),
        ("layer_norm", || drop(layer_norm(empty(), vector(), vector(), 1e-5))),
        ("add_layer_norm", || drop(add_layer_norm(empty(), empty(), vector(), vector(), 1e-5))),
        ("attention", || {
            let empty = Tensor::<3>::zeros([0, 5, 4], &Device::flex());
            drop(attention(empty.clone(), empty.clone(), empty, None, 2, None));
        }),
    ];
    for (name, f) in operations {
        let message = panic_message(f);
        assert!(message.starts_with(&format!("{name}: empty input")), "{message}");
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused_by_name() {
    fn x() -> Tensor<2> {
        Tensor::zeros([3, 4], &Device::flex())
    }
    let message = panic_message(|| drop(linear(x(), Tensor::zeros([5, 3], &Device::flex()), None)));
    assert!(message.contains("linear: input [3, 4] does not fit weight [5, 3]"), "{message}");
    let message = panic_message(|| {
        let three = Tensor::<1>::zeros([3], &Device::flex());
        drop(layer_norm(x(), three.clone(), three, 1e-5));
    });
    assert!(message.contains("layer_norm: gamma does not fit input [3, 4]"), "{message}");
    let message = panic_message(|| drop(dropout(x(), Dropout { probability: 1.0, seed: 0 })));
    assert!(message.contains("dropout: probability 1 is not in [0, 1)"), "{message}");
}
