//! The trained weights of a model as a point: all of a side's in one vector, in the order of the model's fields.
//!
//! Frozen weights and stored statistics are no part of it.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor, TensorData};
use rayon::prelude::*;

use crate::branches::Branches;
use crate::encoders::weights::KeyPath;
use crate::model::Model;
use crate::tensor_file::{TensorFile, TensorFileError};

/// The trained weights of both sides of a model, or a direction in their space.
pub type Point = Branches<Vec<f32>>;

/// Elements that a thread adds up at a time.
const CHUNK: usize = 1 << 16;

/// The trained weights of `model`.
pub fn point_of(model: &Model) -> Point {
    point(walk(&model.clone().train(), Source::Weights))
}

/// The gradients of the trained weights of `model`, which is tracked; zero where there is none.
pub fn gradient_of(model: &Model, gradients: &Gradients) -> Point {
    point(walk(model, Source::Gradients(gradients)))
}

/// `model` with its trained weights at `point`, tracked.
///
/// # Panics
/// If the point belongs to another model.
pub fn model_at(model: &Model, point: &Point) -> Model {
    let mut place = Place { path: KeyPath::default(), rest: point.as_ref().map(Vec::as_slice) };
    let placed = model.clone().train().map(&mut place);
    assert!(place.rest.image.is_empty() && place.rest.text.is_empty(), "the point has more weights than the model");
    placed
}

/// The trained weights of `model` by name.
pub fn named(model: &Model) -> TensorFile {
    let mut file = TensorFile::default();
    for Weight { key, shape, values } in walk(&model.clone().train(), Source::Weights) {
        file.put_values(&key, shape, values);
    }
    file
}

/// The point of the weights that [`named`] gave for a model like `model`.
pub fn point_in(file: &TensorFile, model: &Model) -> Result<Point, TensorFileError> {
    let mut point = Point::default();
    for (key, shape) in trained_keys(model) {
        if file.shape(&key)? != shape {
            let found = file.shape(&key)?;
            return Err(file.content(format!("has '{key}' with shape {found:?} where the model has {shape:?}")));
        }
        side_of(&key, &mut point).extend(file.values(&key)?);
    }
    Ok(point)
}

/// Keys and shapes of the trained weights.
pub fn trained_keys(model: &Model) -> Vec<(String, Vec<usize>)> {
    let weights = walk(&model.clone().train(), Source::Shapes);
    weights.into_iter().map(|Weight { key, shape, .. }| (key, shape)).collect()
}

/// The side of the model that the parameter `key` belongs to.
fn side_of<'a, T>(key: &str, sides: &'a mut Branches<T>) -> &'a mut T {
    match key.starts_with("visual.") || key.starts_with("image_head.") {
        true => &mut sides.image,
        false => &mut sides.text,
    }
}

impl Branches<Vec<f32>> {
    /// `self + factors * other`.
    pub fn plus(&self, factors: Branches<f32>, other: &Self) -> Self {
        let mut sum = self.clone();
        add(&mut sum.image, factors.image, &other.image);
        add(&mut sum.text, factors.text, &other.text);
        sum
    }

    /// `self - other`.
    pub fn minus(&self, other: &Self) -> Self {
        self.plus(Branches { image: -1.0, text: -1.0 }, other)
    }

    /// `factors * self`.
    pub fn times(mut self, factors: Branches<f32>) -> Self {
        self.image.par_iter_mut().for_each(|x| *x *= factors.image);
        self.text.par_iter_mut().for_each(|x| *x *= factors.text);
        self
    }

    /// The inner products of both sides.
    pub fn dot(&self, other: &Self) -> Branches<f64> {
        Branches { image: dot(&self.image, &other.image), text: dot(&self.text, &other.text) }
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

fn add(sum: &mut [f32], factor: f32, other: &[f32]) {
    sum.par_iter_mut().zip(other).for_each(|(x, y)| *x += factor * y);
}

/// The inner product, added up in chunks of fixed size: the same whatever the number of threads.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let part = |(a, b): (&[f32], &[f32])| a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>();
    a.par_chunks(CHUNK).zip(b.par_chunks(CHUNK)).map(part).collect::<Vec<f64>>().into_iter().sum()
}

/// A trained weight, or its gradient.
struct Weight {
    key: String,
    shape: Vec<usize>,
    values: Vec<f32>,
}

/// What of a weight is wanted.
#[derive(Clone, Copy)]
enum Source<'a> {
    Shapes,
    Weights,
    Gradients(&'a Gradients),
}

/// The trained weights of `model`, which is tracked, in the order of its fields.
fn walk(model: &Model, source: Source<'_>) -> Vec<Weight> {
    let mut walk = Walk { path: KeyPath::default(), source, found: Vec::new() };
    model.visit(&mut walk);
    walk.found
}

fn point(weights: Vec<Weight>) -> Point {
    let mut point = Point::default();
    for Weight { key, values, .. } in weights {
        side_of(&key, &mut point).extend(values);
    }
    point
}

struct Walk<'a> {
    path: KeyPath,
    source: Source<'a>,
    found: Vec<Weight>,
}

impl ModuleVisitor for Walk<'_> {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, container_type: &str) {
        self.path.exit(container_type);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weight = param.base();
        if !weight.is_require_grad() {
            return;
        }
        let (key, shape) = (self.path.key(), weight.dims().to_vec());
        let values = match self.source {
            Source::Shapes => Vec::new(),
            Source::Weights => flat(weight.inner()),
            Source::Gradients(gradients) => {
                weight.grad(gradients).map_or_else(|| vec![0.0; shape.iter().product()], flat)
            }
        };
        self.found.push(Weight { key, shape, values });
    }
}

struct Place<'a> {
    path: KeyPath,
    rest: Branches<&'a [f32]>,
}

impl ModuleMapper for Place<'_> {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, container_type: &str) {
        self.path.exit(container_type);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !param.base().is_require_grad() {
            return param;
        }
        let rest = side_of(&self.path.key(), &mut self.rest);
        param.map(|weight| {
            let (shape, device) = (weight.dims(), weight.inner().device());
            let (values, behind) = rest.split_at(shape.iter().product());
            *rest = behind;
            Tensor::from_data(TensorData::new(values.to_vec(), shape), &device).autodiff().require_grad()
        })
    }
}

fn flat<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.into_data();
    match data.as_slice::<f32>() {
        Ok(values) => values.to_vec(),
        Err(_) => data.iter::<f32>().collect(),
    }
}
