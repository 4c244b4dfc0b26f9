//! A student: a model that is trained on some of the synthetic pairs.
//!
//! Its loss `l(theta, x)` has gradients with respect to its weights `theta` and to the pairs `x` (pixels, captions,
//! similarity). Matching needs how they change along a direction `v` of the weights: with `g = dl/dtheta`,
//!
//! ```text
//! d/dx (v . g)     = (dl/dx(theta + h v)     - dl/dx(theta - h v))     / 2h  + O(h^2)
//! d/dtheta (v . g) = (dl/dtheta(theta + h v) - dl/dtheta(theta - h v)) / 2h  + O(h^2)      (Hessian times v)
//! ```
//! since second derivatives can be taken in either order. At both points every unit of the visual encoder stays on the piece
//! that it is on at `theta` ([`crate::encoders::kinks`]): without that, differences see the units that cross a kink, and
//! little else.
//!
//! The step is `h = `[`STEP`]` ||theta|| / ||v||`: the weights move by that fraction of their length, whatever the length of
//! `v`. Smaller steps lose digits of f32 to the difference, larger ones meet the third derivative: against PyTorch's double
//! backward, steps of 1e-6 to 1e-4 agree (cosine above 0.999) and 1e-3 is too long, since a student moves along directions
//! of strong curvature. bf16 has no digits for such a difference: it is taken in f32 whatever the precision of the run.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use covmatch_kernels::in_f32;

use super::point::{Point, gradient_of, model_at};
use super::similarity::Factors;
use crate::branches::Branches;
use crate::encoders::kinks::Pattern;
use crate::encoders::{EncoderError, Mode};
use crate::engine::Stream;
use crate::losses::PairLoss;
use crate::losses::pair_loss::own_captions;
use crate::model::{Inputs, Model};

/// Length of a difference, relative to the weights.
pub const STEP: f64 = 1e-5;

/// What all students share.
#[derive(Clone, Copy, Debug)]
pub struct Student<'a> {
    /// Which weights are trained, and the values of the others.
    pub model: &'a Model,
    /// Temperature.
    pub tau: f32,
    /// What is minimised.
    pub loss: PairLoss,
    /// Weight of the low-rank part of the similarity.
    pub alpha: f32,
}

/// Pairs and, where it is learned, their similarity.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// Pixels and captions.
    pub inputs: Inputs,
    /// Factors of the similarity; without them a picture belongs to its own caption alone.
    pub similarity: Option<Factors>,
}

/// Gradients with respect to the pairs.
#[derive(Clone, Debug)]
pub struct PairsGradient {
    /// `[n, 3, t, h, w]`
    pub pixels: Tensor<5>,
    /// `[n, l, d_l]`
    pub text: Tensor<3>,
    /// Of the factors.
    pub similarity: Option<Factors>,
}

impl Pairs {
    /// The pairs at `rows`.
    pub fn select(&self, rows: &Tensor<1, Int>) -> Self {
        let similarity = self.similarity.as_ref().map(|factors| factors.select(rows));
        Self { inputs: self.inputs.select(rows), similarity }
    }
}

impl PairsGradient {
    /// Zeros in the shapes of `pairs`.
    pub fn zeros(pairs: &Pairs) -> Self {
        let Pairs { inputs, similarity } = pairs;
        Self {
            pixels: inputs.pixels.zeros_like(),
            text: inputs.text.zeros_like(),
            similarity: similarity.as_ref().map(Factors::zeros_like),
        }
    }

    /// `factor (self - other)`.
    fn difference(self, other: Self, factor: f32) -> Self {
        let similarity = self.similarity.zip(other.similarity);
        Self {
            pixels: (self.pixels - other.pixels).mul_scalar(factor),
            text: (self.text - other.text).mul_scalar(factor),
            similarity: similarity.map(|(a, b)| a.difference(b, factor)),
        }
    }

    /// `self` with `part` added at `rows`.
    pub fn add_at(self, rows: &Tensor<1, Int>, part: Self) -> Self {
        use burn::tensor::IndexingUpdateOp::Add;
        let similarity = self.similarity.zip(part.similarity);
        Self {
            pixels: self.pixels.select_assign(0, rows.clone(), part.pixels, Add),
            text: self.text.select_assign(0, rows.clone(), part.text, Add),
            similarity: similarity.map(|(all, part)| all.add_at(rows, part)),
        }
    }
}

impl Student<'_> {
    /// The loss at `theta` on `pairs` and its gradient with respect to the weights. `dropout` draws the masks; without
    /// it nothing is dropped.
    pub fn weights_gradient(
        &self,
        theta: &Point,
        pairs: &Pairs,
        dropout: Option<&Stream>,
    ) -> Result<(f32, Point), EncoderError> {
        let model = model_at(self.model, theta);
        let similarity = pairs.similarity.clone().map(Factors::autodiff);
        let visual = |pixels| model.visual.encode(pixels);
        let loss = self.forward(&model, visual, pairs.inputs.clone().autodiff(), similarity, dropout)?;
        let value = loss.clone().into_scalar::<f32>();
        Ok((value, gradient_of(&model, &loss.backward())))
    }

    /// The pieces that the units of the visual encoder at `theta` are on.
    fn pattern(&self, theta: &Point, pairs: &Pairs) -> Result<Pattern, EncoderError> {
        let Model { visual, .. } = model_at(self.model, theta).valid();
        visual.pattern(pairs.inputs.pixels.clone())
    }

    /// The gradients of `model`, with respect to the weights as far as they are tracked, and to `pairs`, on the pieces of
    /// `pattern`.
    fn gradients(
        &self,
        model: &Model,
        pattern: &Pattern,
        pairs: &Pairs,
        dropout: Option<&Stream>,
    ) -> Result<(Point, PairsGradient), EncoderError> {
        let Inputs { pixels, text, mask, level } = pairs.inputs.clone().autodiff();
        let inputs = Inputs { pixels: pixels.require_grad(), text: text.require_grad(), mask, level };
        let similarity = pairs.similarity.clone().map(Factors::tracked);
        let visual = |pixels| model.visual.encode_on(pattern, pixels);
        let gradients = self.forward(model, visual, inputs.clone(), similarity.clone(), dropout)?.backward();
        let of_factors = |factors: Factors| Factors {
            diagonal: factors.diagonal.grad(&gradients).unwrap_or_else(|| factors.diagonal.inner().zeros_like()),
            left: factors.left.grad(&gradients).unwrap_or_else(|| factors.left.inner().zeros_like()),
            right: factors.right.grad(&gradients).unwrap_or_else(|| factors.right.inner().zeros_like()),
        };
        let of_pairs = PairsGradient {
            pixels: inputs.pixels.grad(&gradients).unwrap_or_else(|| inputs.pixels.inner().zeros_like()),
            text: inputs.text.grad(&gradients).unwrap_or_else(|| inputs.text.inner().zeros_like()),
            similarity: similarity.map(of_factors),
        };
        Ok((gradient_of(model, &gradients), of_pairs))
    }

    /// The loss of `model`, with visual features as `visual` makes them of pixels.
    fn forward(
        &self,
        model: &Model,
        visual: impl FnOnce(Tensor<5>) -> Result<Tensor<2>, EncoderError> + Send,
        inputs: Inputs,
        similarity: Option<Factors>,
        dropout: Option<&Stream>,
    ) -> Result<Tensor<1>, EncoderError> {
        let (n, device) = (inputs.len(), inputs.pixels.device());
        let mut stream = dropout.cloned();
        let mut mode = stream.as_mut().map_or(Mode::Eval, Mode::Train);
        let features = model.features_by(visual, inputs, &mut mode)?;
        let z = model.project(features, &mut mode)?;
        let target = similarity.map_or_else(|| own_captions(n, &device), |factors| factors.matrix(self.alpha));
        Ok(self.loss.of(z, self.tau, target))
    }

    /// `d/dx (v . g)` at `theta`, for the direction `v` and the pairs `x`.
    pub fn along(
        &self,
        theta: &Point,
        v: &Point,
        pairs: &Pairs,
        dropout: Option<&Stream>,
    ) -> Result<PairsGradient, EncoderError> {
        let Some(chord) = Chord::new(theta, v) else { return Ok(PairsGradient::zeros(pairs)) };
        let pattern = self.pattern(theta, pairs)?;
        let at = |theta: &Point| self.gradients(&model_at(self.model, theta).no_grad(), &pattern, pairs, dropout);
        let ((_, ahead), (_, behind)) = in_f32(|| Ok::<_, EncoderError>((at(&chord.ahead)?, at(&chord.behind)?)))?;
        Ok(ahead.difference(behind, chord.factor))
    }

    /// `d/dtheta (v . g)` and `d/dx (v . g)` at `theta`, for the direction `v` and the pairs `x`.
    pub fn along_with_hessian(
        &self,
        theta: &Point,
        v: &Point,
        pairs: &Pairs,
        dropout: Option<&Stream>,
    ) -> Result<(Point, PairsGradient), EncoderError> {
        let Some(chord) = Chord::new(theta, v) else {
            let nowhere = Branches { image: 0.0, text: 0.0 };
            return Ok((theta.clone().times(nowhere), PairsGradient::zeros(pairs)));
        };
        let pattern = self.pattern(theta, pairs)?;
        let at = |theta: &Point| self.gradients(&model_at(self.model, theta), &pattern, pairs, dropout);
        let ((weights_ahead, ahead), (weights_behind, behind)) =
            in_f32(|| Ok::<_, EncoderError>((at(&chord.ahead)?, at(&chord.behind)?)))?;
        let factor = Branches { image: chord.factor, text: chord.factor };
        Ok((weights_ahead.minus(&weights_behind).times(factor), ahead.difference(behind, chord.factor)))
    }
}

/// Two points on both sides of another.
struct Chord {
    ahead: Point,
    behind: Point,
    /// `1 / 2h`
    factor: f32,
}

impl Chord {
    /// Those on the line from `theta` along `v`; none if `v` has no length.
    fn new(theta: &Point, v: &Point) -> Option<Self> {
        let length = v.norm();
        let h = STEP * theta.norm() / length;
        if length == 0.0 || !h.is_finite() {
            return None;
        }
        let at = |h: f64| theta.plus(Branches { image: h as f32, text: h as f32 }, v);
        Some(Self { ahead: at(h), behind: at(-h), factor: (0.5 / h) as f32 })
    }
}
