//! The trained weights of a model as a point: all of a side's, each flat, in the order of the model's fields.
//!
//! They stay on the model's device; sums for inner products are all that is read from there. Frozen weights and stored
//! statistics are no part of a point.

use std::slice;

use burn::module::Module;
use burn::tensor::{Gradients, Tensor, TensorData};
use covmatch_kernels as kernels;

use crate::branches::Branches;
use crate::encoders::weights::{Parameter, advance, visit};
use crate::model::Model;
use crate::tensor_file::{TensorFile, TensorFileError};

/// The trained weights of both sides of a model, or a direction in their space.
pub type Point = Branches<Vec<Tensor<1>>>;

/// The trained weights of `model`.
pub fn point_of(model: &Model) -> Point {
    gathered(&model.clone().train(), |weight| weight.values())
}

/// The gradients of the trained weights of `model`, which is tracked; zero where there is none.
pub fn gradient_of(model: &Model, gradients: &Gradients) -> Point {
    gathered(model, |weight| weight.gradient(gradients).unwrap_or_else(|| weight.values().zeros_like()))
}

/// What `of` makes of every trained weight of `model`, which is tracked.
fn gathered(model: &Model, of: impl Fn(&dyn Parameter) -> Tensor<1>) -> Point {
    let mut point = Point::default();
    visit(model, |key, weight| {
        if weight.is_tracked() {
            side_of(key, &mut point).push(of(weight));
        }
    });
    point
}

/// `model` with its trained weights at `point`, tracked.
///
/// # Panics
/// If the point belongs to another model.
pub fn model_at(model: &Model, point: &Point) -> Model {
    let mut rest = point.as_ref().map(|weights| weights.iter());
    let trained = |weight: &dyn Parameter| weight.is_tracked().then_some(());
    let placed = advance(model.clone().train(), trained, |key, _, ()| next(side_of(key, &mut rest)));
    assert!(rest.image.len() + rest.text.len() == 0, "the point has more weights than the model");
    placed
}

fn next(rest: &mut slice::Iter<'_, Tensor<1>>) -> Tensor<1> {
    match rest.next() {
        Some(weight) => weight.clone(),
        None => panic!("the point has fewer weights than the model"),
    }
}

/// The trained weights of `model` by name.
pub fn named(model: &Model) -> TensorFile {
    let mut file = TensorFile::default();
    visit(&model.clone().train(), |key, weight| {
        if weight.is_tracked() {
            file.put_values(key, weight.shape(), weight.values());
        }
    });
    file
}

/// The point of the weights that [`named`] gave for a model like `model`.
pub fn point_in(file: &TensorFile, model: &Model) -> Result<Point, TensorFileError> {
    let device = model.devices().into_iter().next().unwrap_or_default();
    let mut point = Point::default();
    for (key, shape) in trained_keys(model) {
        let found = file.shape(&key)?;
        if found != shape {
            return Err(file.content(format!("has '{key}' with shape {found:?} where the model has {shape:?}")));
        }
        let values = file.values(&key)?.to_vec();
        let count = values.len();
        side_of(&key, &mut point).push(Tensor::from_data(TensorData::new(values, [count]), &device).inner());
    }
    Ok(point)
}

/// Keys and shapes of the trained weights.
pub fn trained_keys(model: &Model) -> Vec<(String, Vec<usize>)> {
    let mut found = Vec::new();
    visit(&model.clone().train(), |key, weight| {
        if weight.is_tracked() {
            found.push((key.to_owned(), weight.shape()));
        }
    });
    found
}

/// The side of the model that the parameter `key` belongs to.
fn side_of<'a, T>(key: &str, sides: &'a mut Branches<T>) -> &'a mut T {
    match key.starts_with("visual.") || key.starts_with("image_head.") {
        true => &mut sides.image,
        false => &mut sides.text,
    }
}

impl Branches<Vec<Tensor<1>>> {
    /// `self + factors * other`.
    pub fn plus(&self, factors: Branches<f32>, other: &Self) -> Self {
        let sum = |(a, b): (&Tensor<1>, &Tensor<1>), factor| a.clone() + b.clone().mul_scalar(factor);
        let both = self.as_ref().zip(other.as_ref(), |a, b| a.iter().zip(b));
        both.zip(factors, |both, factor| both.map(|pair| sum(pair, factor)).collect())
    }

    /// `self - other`.
    pub fn minus(&self, other: &Self) -> Self {
        self.plus(Branches { image: -1.0, text: -1.0 }, other)
    }

    /// `factors * self`.
    pub fn times(self, factors: Branches<f32>) -> Self {
        self.zip(factors, |weights, factor| weights.into_iter().map(|weight| weight.mul_scalar(factor)).collect())
    }

    /// The inner products of both sides.
    pub fn dot(&self, other: &Self) -> Branches<f64> {
        self.as_ref().zip(other.as_ref(), |a, b| kernels::dot(a, b))
    }

    /// The squared norms of both sides.
    pub fn squares(&self) -> Branches<f64> {
        self.dot(self)
    }

    /// The norm of the whole point.
    pub fn norm(&self) -> f64 {
        let Branches { image, text } = self.squares();
        (image + text).sqrt()
    }
}
