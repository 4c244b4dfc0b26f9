//! An encoder of any kind with generated weights, and generated input for it.

use burn::module::Module;
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use covmatch::encoders::image::{self, AnyImageEncoder};
use covmatch::encoders::text::{self, AnyTextEncoder, Pooling};
use covmatch::encoders::video::{self, AnyVideoEncoder};
use covmatch::encoders::weights::{generated, visit};
use covmatch::encoders::{EncoderError, ImageEncoder, Mode, TextEncoder, VideoEncoder};

/// What an encoder takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pixels.
    Image,
    /// Frames.
    Video,
    /// Captions.
    Text,
}

impl Kind {
    /// The kind of the encoder `name`; the error lists all names.
    pub fn of(name: &str) -> Result<Self, EncoderError> {
        let found = all_names().find(|(_, known)| *known == name).map(|(kind, _)| kind);
        found.ok_or_else(|| EncoderError::Unknown {
            kind: "image, video or text",
            name: name.to_owned(),
            known: all_names().map(|(_, known)| known).collect::<Vec<_>>().join(", "),
        })
    }

    /// What the encoder takes, in a word.
    pub fn input(self) -> &'static str {
        match self {
            Kind::Image => "images",
            Kind::Video => "clips",
            Kind::Text => "captions",
        }
    }

    /// The kind in a word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Image => "image",
            Kind::Video => "video",
            Kind::Text => "text",
        }
    }
}

/// Every encoder there is.
pub fn all_names() -> impl Iterator<Item = (Kind, &'static str)> {
    let images = image::names().map(|name| (Kind::Image, name));
    let videos = video::names().map(|name| (Kind::Video, name));
    images.chain(videos).chain(text::names().map(|name| (Kind::Text, name)))
}

/// An encoder of any kind.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // a command holds one or two
pub enum Network {
    /// An image encoder.
    Image(AnyImageEncoder),
    /// A video encoder.
    Video(AnyVideoEncoder),
    /// A text encoder that pools the first token.
    Text(AnyTextEncoder),
}

impl Network {
    /// The encoder `name` with weights yet to be loaded, which take no memory before that.
    pub fn new(name: &str, device: &Device) -> Result<Self, EncoderError> {
        Ok(match Kind::of(name)? {
            Kind::Image => Network::Image(AnyImageEncoder::new(name, device)?),
            Kind::Video => Network::Video(AnyVideoEncoder::new(name, device)?),
            Kind::Text => Network::Text(AnyTextEncoder::new(name, Pooling::Cls, device)?),
        })
    }

    /// The encoder `name` with generated weights.
    pub fn generated(name: &str, device: &Device) -> Result<Self, EncoderError> {
        Ok(match Self::new(name, device)? {
            Network::Image(encoder) => Network::Image(generated::fill(encoder)),
            Network::Video(encoder) => Network::Video(generated::fill(encoder)),
            Network::Text(encoder) => Network::Text(generated::fill(encoder)),
        })
    }

    /// Features `[n, d]` of `input`, without dropout.
    pub fn features(&self, input: &Input) -> anyhow::Result<Tensor<2>> {
        match (self, input.clone()) {
            (Network::Image(encoder), Input::Pixels(pixels)) => Ok(encoder.encode(pixels)?),
            (Network::Video(encoder), Input::Frames(frames)) => Ok(encoder.encode(frames)?),
            (Network::Text(encoder), Input::Embedded { embedded, mask }) => {
                Ok(encoder.encode(embedded, mask, &mut Mode::Eval)?)
            }
            _ => anyhow::bail!("the input is of another kind than the encoder"),
        }
    }

    /// Dimension of the features.
    pub fn feature_dim(&self) -> usize {
        match self {
            Network::Image(encoder) => encoder.feature_dim(),
            Network::Video(encoder) => encoder.feature_dim(),
            Network::Text(encoder) => encoder.feature_dim(),
        }
    }
}

/// The number of parameters of `network` that `gradients` has a gradient for.
pub fn parameters_with_gradient(network: &Network, gradients: &Gradients) -> usize {
    let mut found = 0;
    visit(network, |_, parameter| found += usize::from(parameter.gradient(gradients).is_some()));
    found
}

/// A batch for an encoder.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // a command holds one or two
pub enum Input {
    /// `[n, 3, h, w]`
    Pixels(Tensor<4>),
    /// `[n, 3, t, h, w]`
    Frames(Tensor<5>),
    /// Captions after the embedding layer.
    Embedded {
        /// `[n, l, d_l]`
        embedded: Tensor<3>,
        /// `[n, l]`, all ones.
        mask: Tensor<2>,
    },
}

impl Input {
    /// Generated pixels of `batch` square images.
    pub fn pixels(batch: usize, size: usize, device: &Device) -> Self {
        Input::Pixels(uniform("input", [batch, 3, size, size], device))
    }

    /// Generated pixels of `batch` clips of square frames.
    pub fn frames(batch: usize, frames: usize, size: usize, device: &Device) -> Self {
        Input::Frames(uniform("input", [batch, 3, frames, size, size], device))
    }

    /// Generated embeddings of `batch` captions without padding.
    pub fn embedded(batch: usize, tokens: usize, width: usize, device: &Device) -> Self {
        let embedded = uniform("input", [batch, tokens, width], device);
        Input::Embedded { embedded, mask: Tensor::ones([batch, tokens], device) }
    }

    /// Examples in the batch.
    pub fn batch(&self) -> usize {
        match self {
            Input::Pixels(pixels) => pixels.dims()[0],
            Input::Frames(frames) => frames.dims()[0],
            Input::Embedded { embedded, .. } => embedded.dims()[0],
        }
    }

    /// The same values in the graph of autodiff, but not tracked.
    pub fn autodiff(self) -> Self {
        match self {
            Input::Pixels(pixels) => Input::Pixels(pixels.autodiff()),
            Input::Frames(frames) => Input::Frames(frames.autodiff()),
            Input::Embedded { embedded, mask } => {
                Input::Embedded { embedded: embedded.autodiff(), mask: mask.autodiff() }
            }
        }
    }

    /// The same values, tracked: a backward pass computes their gradient.
    pub fn tracked(self) -> Self {
        match self.autodiff() {
            Input::Pixels(pixels) => Input::Pixels(pixels.require_grad()),
            Input::Frames(frames) => Input::Frames(frames.require_grad()),
            Input::Embedded { embedded, mask } => Input::Embedded { embedded: embedded.require_grad(), mask },
        }
    }

    /// Whether `gradients` has the gradient of this input.
    pub fn has_gradient(&self, gradients: &Gradients) -> bool {
        match self {
            Input::Pixels(pixels) => pixels.grad(gradients).is_some(),
            Input::Frames(frames) => frames.grad(gradients).is_some(),
            Input::Embedded { embedded, .. } => embedded.grad(gradients).is_some(),
        }
    }
}

/// The generated numbers of `key` in -1..1, in a tensor.
pub fn uniform<const D: usize>(key: &str, shape: [usize; D], device: &Device) -> Tensor<D> {
    let values = generated::uniform(key, shape.iter().product());
    Tensor::from_data(TensorData::new(values, shape), device)
}
