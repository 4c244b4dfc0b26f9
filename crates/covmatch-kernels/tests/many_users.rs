//! A tensor that several operations use gets the sum of their gradients, whoever adds them: this crate or burn.
#![allow(clippy::unwrap_used)]

use burn::tensor::{Device, Tensor};
use covmatch_kernels::{add, gelu, relu, sigmoid};

/// Far from zero, where the derivative of `relu` is plain.
const X: f32 = 0.7;

/// A leaf, and its values computed anew, so that they belong to a node with a history.
fn inputs() -> (Tensor<2>, Tensor<2>) {
    let leaf = Tensor::<2>::full([3, 5], X, &Device::flex().autodiff()).require_grad();
    (leaf.clone(), sigmoid(leaf))
}

/// The gradient of the sum of `y` with respect to `leaf`, which is the same everywhere.
fn gradient(leaf: &Tensor<2>, y: Tensor<2>) -> f32 {
    let gradients = y.sum().backward();
    let values: Vec<f32> = leaf.grad(&gradients).unwrap().into_data().iter::<f32>().collect();
    assert!(values.iter().all(|value| *value == values[0]));
    values[0]
}

fn close(got: f32, want: f32) {
    assert!((got - want).abs() < 1e-5 * want.abs().max(1.0), "{got} instead of {want}");
}

/// The derivative of `sigmoid` at [`X`].
fn slope() -> f32 {
    let s = 1.0 / (1.0 + (-X).exp());
    s * (1.0 - s)
}

#[test]
fn users_of_this_crate_and_of_burn_take_turns() {
    let (leaf, x) = inputs();
    // relu is the identity here: 1 + 3 + 1 + 2.
    let y = add(relu(x.clone()), x.clone().mul_scalar(3.0));
    let y = add(add(y, relu(x.clone())), x.mul_scalar(2.0));
    close(gradient(&leaf, y), 7.0 * slope());
}

#[test]
fn the_same_tensor_twice_in_one_operation() {
    let (leaf, x) = inputs();
    close(gradient(&leaf, add(x.clone(), x)), 2.0 * slope());
}

#[test]
fn a_leaf_with_several_users() {
    let (leaf, _) = inputs();
    close(gradient(&leaf, add(add(relu(leaf.clone()), relu(leaf.clone())), relu(leaf.clone()))), 3.0);
}

#[test]
fn more_tensors_than_are_remembered() {
    let (leaf, x) = inputs();
    // Every term is a node of burn's own, whose gradient this crate registers and burn takes: 6000 of them.
    let terms = (0..6000).map(|_| relu(x.clone().mul_scalar(1.0)));
    let y = terms.reduce(add).unwrap();
    close(gradient(&leaf, y), 6000.0 * slope());
}

#[test]
fn values_are_not_changed_by_gradients_added_in_place() {
    let (leaf, x) = inputs();
    let (y, before) = (gelu(x.clone()), x.to_data());
    let _ = gradient(&leaf, add(add(y, relu(x.clone())), x.clone()));
    assert_eq!(before, x.to_data());
}
