//! The head that projects an encoder's features into the space that images and captions share.
//!
//! ```text
//! p = W_1 x + b_1
//! depth 1:  z = LayerNorm(p)
//! depth 2:  z = LayerNorm(p + Dropout(W_2 gelu(p) + b_2))                       the paper's default
//! depth 3:  z = LayerNorm(p + Dropout(W_3 gelu(W_2 gelu(p) + b_2) + b_3))
//! ```
//! Depth 2 is the head of the baselines (LoRS, MTT-VL), whose parameter names it keeps: `projection`, `fc`,
//! `layer_norm`. The paper ablates the depth without spelling out depths 1 and 3; here they leave out, or repeat, the
//! residual branch's layer.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use covmatch_kernels::gelu;

use super::layers::{LayerNorm, Linear};
use super::{EncoderError, Mode};
use crate::engine::Stream;

/// Epsilon of the layer norm, PyTorch's default.
const EPS: f32 = 1e-5;

/// The form of a projection head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProjectionConfig {
    /// Dimension of the encoder's features.
    pub inputs: usize,
    /// Dimension of the shared space, `z`.
    pub width: usize,
    /// Number of linear layers.
    pub depth: Depth,
    /// Dropout at the end of the residual branch.
    pub dropout: f32,
}

impl ProjectionConfig {
    /// The paper's head on features of dimension `inputs`: width 2304, two layers, dropout 0.1.
    pub const fn paper(inputs: usize) -> Self {
        Self { inputs, width: 2304, depth: Depth::Two, dropout: 0.1 }
    }
}

/// Number of linear layers in a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// A linear layer and a layer norm.
    One,
    /// The paper's default.
    #[default]
    Two,
    /// One more layer in the residual branch.
    Three,
}

/// A head of that depth does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a projection head of depth {0} does not exist; choose 1, 2 or 3")]
pub struct UnknownDepth(pub usize);

impl TryFrom<usize> for Depth {
    type Error = UnknownDepth;

    fn try_from(layers: usize) -> Result<Self, UnknownDepth> {
        match layers {
            1 => Ok(Depth::One),
            2 => Ok(Depth::Two),
            3 => Ok(Depth::Three),
            _ => Err(UnknownDepth(layers)),
        }
    }
}

/// A projection head.
#[derive(Module, Debug)]
pub struct Projection {
    projection: Linear,
    fc: Option<Linear>,
    fc2: Option<Linear>,
    layer_norm: LayerNorm,
    #[module(skip)]
    config: ProjectionConfig,
}

impl Projection {
    /// A head with PyTorch's default initialisation drawn from `init`: weights and biases uniform within
    /// `1 / sqrt(fan_in)` of zero.
    ///
    /// # Panics
    /// If `inputs` or `width` is 0.
    pub fn new(config: ProjectionConfig, init: &mut Stream, device: &Device) -> Self {
        let ProjectionConfig { inputs, width, depth, .. } = config;
        assert!(inputs > 0 && width > 0, "a projection head needs inputs and outputs, got {inputs} and {width}");
        Self {
            projection: uniform_linear(inputs, width, init, device),
            fc: (depth != Depth::One).then(|| uniform_linear(width, width, init, device)),
            fc2: (depth == Depth::Three).then(|| uniform_linear(width, width, init, device)),
            layer_norm: LayerNorm::new(width, EPS, device),
            config,
        }
    }

    /// Features `[n, inputs]` to `[n, width]`.
    pub fn forward(&self, features: Tensor<2>, mode: &mut Mode) -> Result<Tensor<2>, EncoderError> {
        self.check(&features)?;
        let p = self.projection.forward(features);
        let mut branch = None;
        for layer in [&self.fc, &self.fc2].into_iter().flatten() {
            branch = Some(layer.forward(gelu(branch.unwrap_or_else(|| p.clone()))));
        }
        Ok(match branch {
            None => self.layer_norm.forward(p),
            Some(branch) => self.layer_norm.forward_sum(mode.dropout(branch, self.config.dropout), p),
        })
    }

    /// Dimension of what it returns.
    pub fn width(&self) -> usize {
        self.config.width
    }

    fn check(&self, features: &Tensor<2>) -> Result<(), EncoderError> {
        match features.dims() {
            [0, _] => Err(EncoderError::EmptyBatch),
            [_, inputs] if inputs == self.config.inputs => Ok(()),
            got => Err(EncoderError::Shape {
                encoder: "the projection head".to_owned(),
                expected: format!("features [n, {}]", self.config.inputs),
                got: got.to_vec(),
            }),
        }
    }
}

/// A linear layer drawn as PyTorch draws `nn.Linear`.
fn uniform_linear(inputs: usize, outputs: usize, init: &mut Stream, device: &Device) -> Linear {
    let bound = 1.0 / (inputs as f32).sqrt();
    let mut draw = |n: usize| (0..n).map(|_| (2.0 * init.uniform() - 1.0) * bound).collect::<Vec<f32>>();
    let weight = TensorData::new(draw(outputs * inputs), [outputs, inputs]);
    let bias = TensorData::new(draw(outputs), [outputs]);
    Linear::from_values(Tensor::from_data(weight, device), Tensor::from_data(bias, device))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::encoders::weights::keys;
    use crate::engine::Seed;

    fn head(depth: Depth) -> Projection {
        let config = ProjectionConfig { inputs: 6, width: 10, depth, dropout: 0.1 };
        Projection::new(config, &mut Seed(1).stream("init", 0), &Device::flex())
    }

    #[test]
    fn the_paper_s_text_head_has_the_published_number_of_parameters() {
        let head = Projection::new(ProjectionConfig::paper(768), &mut Seed(1).stream("init", 0), &Device::flex());
        assert_eq!(head.num_params(), 7_087_104);
    }

    #[test]
    fn keys_are_those_of_the_baselines() {
        let names = |depth| keys(&head(depth)).into_iter().map(|k| k.key).collect::<Vec<_>>().join(" ");
        let two = "projection.weight projection.bias fc.weight fc.bias layer_norm.weight layer_norm.bias";
        assert_eq!(names(Depth::Two), two);
        assert_eq!(names(Depth::One), two.replace("fc.weight fc.bias ", ""));
        assert_eq!(names(Depth::Three), two.replace("fc.bias", "fc.bias fc2.weight fc2.bias"));
    }

    #[test]
    fn initial_weights_fill_the_interval_of_pytorch_and_depend_on_the_seed() {
        let config = ProjectionConfig { inputs: 100, width: 64, depth: Depth::One, dropout: 0.0 };
        let draw = |seed| {
            let head = Projection::new(config, &mut Seed(seed).stream("init", 0), &Device::flex());
            head.projection.forward(Tensor::eye(100, &Device::flex())).into_data().iter::<f32>().collect::<Vec<_>>()
        };
        let (a, b) = (draw(1), draw(2)); // weights plus biases: within 2 / sqrt(100)
        let largest = a.iter().fold(0f32, |m, x| m.max(x.abs()));
        assert!(largest < 0.2 && largest > 0.18, "{largest}");
        assert!(a.iter().sum::<f32>().abs() / (a.len() as f32) < 0.02);
        assert_eq!(a, draw(1));
        assert_ne!(a, b);
    }

    #[test]
    fn dropout_acts_in_train_mode_only() {
        let head = head(Depth::Two);
        let x = Tensor::ones([3, 6], &Device::flex());
        let run =
            |mode: &mut Mode| head.forward(x.clone(), mode).unwrap().into_data().iter::<f32>().collect::<Vec<_>>();
        let mut stream = Seed(3).stream("dropout", 0);
        let mut high = head.clone();
        high.config.dropout = 0.9;
        let dropped = high
            .forward(x.clone(), &mut Mode::Train(&mut stream))
            .unwrap()
            .into_data()
            .iter::<f32>()
            .collect::<Vec<_>>();
        assert_eq!(run(&mut Mode::Eval), run(&mut Mode::Eval));
        assert_ne!(run(&mut Mode::Eval), dropped);
    }

    #[test]
    fn bad_input_and_bad_depth_are_errors() {
        let head = head(Depth::Two);
        let device = Device::flex();
        assert_eq!(
            head.forward(Tensor::zeros([0, 6], &device), &mut Mode::Eval).unwrap_err(),
            EncoderError::EmptyBatch
        );
        let error = head.forward(Tensor::zeros([2, 7], &device), &mut Mode::Eval).unwrap_err();
        assert_eq!(error.to_string(), "the projection head takes features [n, 6], got [2, 7]");
        assert_eq!(Depth::try_from(4).unwrap_err(), UnknownDepth(4));
        assert_eq!(Depth::try_from(3).unwrap(), Depth::Three);
    }
}
