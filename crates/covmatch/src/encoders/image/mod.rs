//! Image encoders: pixels `[n, 3, h, w]` to features `[n, d_v]`.
//!
//! Each file is one architecture; [`AnyImageEncoder`] picks one by the name that configurations and flags use, and
//! [`info`] tells how that network wants its pixels. None of them drops activations: their only dropout is before the
//! classifier, which is left out. Batch norms keep their statistics frozen, so training and evaluation agree.

pub mod efficientnet_lite;
pub mod mobilenet_v2;
mod nf;
pub mod nf_regnet;
pub mod nf_resnet;
pub mod nfnet;
pub mod resnet;
pub mod squeezenet;
pub mod vit;

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::kinks::Kinks;
use super::{EncoderError, ImageEncoder, macs};
pub use crate::data::transform::{ChannelOrder, Normalization};
use efficientnet_lite::{EfficientNetLite, EfficientNetLiteConfig};
use mobilenet_v2::{MobileNetV2, MobileNetV2Config};
use nf_regnet::{NfRegNet, NfRegNetConfig};
use nf_resnet::{NfResNet, NfResNetConfig};
use nfnet::{NfNet, NfNetConfig};
use resnet::{ResNet, ResNetConfig};
use squeezenet::SqueezeNet;
use vit::{Vit, VitConfig};

/// What a network with a classifier returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// The pooled features before the classifier.
    #[default]
    Features,
    /// The classifier's 1000 logits.
    Logits,
}

/// What is known of an image encoder by its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageEncoderInfo {
    /// The name.
    pub name: &'static str,
    /// Height and width of the images it was trained on.
    pub input_size: usize,
    /// Dimension of its pooled features, `d_v`.
    pub feature_dim: usize,
    /// How it wants its pixels.
    pub normalization: Normalization,
}

const ENCODERS: [ImageEncoderInfo; 12] = [
    encoder("nfnet_l0", 224, 2304, Normalization::IMAGENET),
    encoder("nf_resnet50", 256, 2048, Normalization::IMAGENET),
    encoder("nf_regnet_b1", 256, 960, Normalization::IMAGENET),
    encoder("vit_base_patch16_224", 224, 768, Normalization::HALF),
    encoder("vit_tiny_patch16_224", 224, 192, Normalization::HALF),
    encoder("efficientnet_lite0", 224, 1280, Normalization::EFFICIENTNET_LITE),
    encoder("efficientnet_lite1", 240, 1280, Normalization::EFFICIENTNET_LITE),
    encoder("efficientnet_lite2", 260, 1280, Normalization::EFFICIENTNET_LITE),
    encoder("mobilenetv2_100", 224, 1280, Normalization::IMAGENET),
    encoder("resnet18", 224, 512, Normalization::IMAGENET),
    encoder("squeezenet1_1", 224, 512, Normalization::CAFFE),
    encoder("nfnet_scenes", 64, NfNetConfig::SCENES.features, Normalization::CLIP),
];

const fn encoder(
    name: &'static str,
    input_size: usize,
    feature_dim: usize,
    normalization: Normalization,
) -> ImageEncoderInfo {
    ImageEncoderInfo { name, input_size, feature_dim, normalization }
}

/// The names of all image encoders.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENCODERS.iter().map(|info| info.name)
}

/// What is known of the encoder `name`.
pub fn info(name: &str) -> Result<&'static ImageEncoderInfo, EncoderError> {
    ENCODERS.iter().find(|info| info.name == name).ok_or_else(|| unknown("image", name, names()))
}

/// Multiply-adds of one forward pass of the encoder `name` over one image of `size` x `size` pixels.
///
/// It is counted in a pass over zeros on `device`.
pub fn macs(name: &str, size: usize, device: &Device) -> Result<u64, EncoderError> {
    let encoder = AnyImageEncoder::new(name, device)?;
    let (features, multiply_adds) = macs::count(|| encoder.encode(Tensor::zeros([1, 3, size, size], device)));
    features.map(|_| multiply_adds)
}

/// Any of the image encoders. The variant is no part of a parameter's key.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // a program holds a few encoders
pub enum AnyImageEncoder {
    /// NFNet.
    NfNet(NfNet),
    /// NF-ResNet.
    NfResNet(NfResNet),
    /// NF-RegNet.
    NfRegNet(NfRegNet),
    /// Vision transformer.
    Vit(Vit),
    /// EfficientNet-Lite.
    EfficientNetLite(EfficientNetLite),
    /// MobileNetV2.
    MobileNetV2(MobileNetV2),
    /// ResNet.
    ResNet(ResNet),
    /// SqueezeNet.
    SqueezeNet(SqueezeNet),
}

impl AnyImageEncoder {
    /// The encoder `name` with weights yet to be loaded, returning pooled features.
    pub fn new(name: &str, device: &Device) -> Result<Self, EncoderError> {
        let lite = |config| Self::EfficientNetLite(EfficientNetLite::new(config, device));
        Ok(match name {
            "nfnet_l0" => Self::NfNet(NfNet::new(NfNetConfig::L0, device)),
            "nf_resnet50" => Self::NfResNet(NfResNet::new(NfResNetConfig::RESNET50, device)),
            "nf_regnet_b1" => Self::NfRegNet(NfRegNet::new(NfRegNetConfig::B1, device)),
            "vit_base_patch16_224" => Self::Vit(Vit::new(VitConfig::BASE_PATCH16_224, device)),
            "vit_tiny_patch16_224" => Self::Vit(Vit::new(VitConfig::TINY_PATCH16_224, device)),
            "efficientnet_lite0" => lite(EfficientNetLiteConfig::LITE0),
            "efficientnet_lite1" => lite(EfficientNetLiteConfig::LITE1),
            "efficientnet_lite2" => lite(EfficientNetLiteConfig::LITE2),
            "mobilenetv2_100" => Self::MobileNetV2(MobileNetV2::new(MobileNetV2Config::WIDTH_1, device)),
            "resnet18" => Self::ResNet(ResNet::new(ResNetConfig::RESNET18, device)),
            "squeezenet1_1" => Self::SqueezeNet(SqueezeNet::new(device)),
            "nfnet_scenes" => Self::NfNet(NfNet::new(NfNetConfig::SCENES, device)),
            _ => return Err(unknown("image", name, names())),
        })
    }

    /// The encoder `name` with weights yet to be loaded, returning its classifier's 1000 logits.
    ///
    /// Only the encoders that published baselines use in this way have a classifier here.
    pub fn with_logits(name: &str, device: &Device) -> Result<Self, EncoderError> {
        let output = Output::Logits;
        Ok(match name {
            "nf_resnet50" => {
                Self::NfResNet(NfResNet::new(NfResNetConfig { output, ..NfResNetConfig::RESNET50 }, device))
            }
            "nf_regnet_b1" => Self::NfRegNet(NfRegNet::new(NfRegNetConfig { output, ..NfRegNetConfig::B1 }, device)),
            _ => return Err(unknown("classifying image", name, ["nf_resnet50", "nf_regnet_b1"])),
        })
    }
}

impl ImageEncoder for AnyImageEncoder {
    fn forward(&self, pixels: Tensor<4>, kinks: &mut Kinks) -> Result<Tensor<2>, EncoderError> {
        match self {
            Self::NfNet(encoder) => encoder.forward(pixels, kinks),
            Self::NfResNet(encoder) => encoder.forward(pixels, kinks),
            Self::NfRegNet(encoder) => encoder.forward(pixels, kinks),
            Self::Vit(encoder) => encoder.forward(pixels, kinks),
            Self::EfficientNetLite(encoder) => encoder.forward(pixels, kinks),
            Self::MobileNetV2(encoder) => encoder.forward(pixels, kinks),
            Self::ResNet(encoder) => encoder.forward(pixels, kinks),
            Self::SqueezeNet(encoder) => encoder.forward(pixels, kinks),
        }
    }

    fn feature_dim(&self) -> usize {
        match self {
            Self::NfNet(encoder) => encoder.feature_dim(),
            Self::NfResNet(encoder) => encoder.feature_dim(),
            Self::NfRegNet(encoder) => encoder.feature_dim(),
            Self::Vit(encoder) => encoder.feature_dim(),
            Self::EfficientNetLite(encoder) => encoder.feature_dim(),
            Self::MobileNetV2(encoder) => encoder.feature_dim(),
            Self::ResNet(encoder) => encoder.feature_dim(),
            Self::SqueezeNet(encoder) => encoder.feature_dim(),
        }
    }
}

/// The smallest image that the convolutional encoders take: they halve its size five times.
pub(crate) const SMALLEST: usize = 32;

/// Refuses pixels that are not `[n, 3, h, w]` with `n >= 1` and `h, w >= smallest`.
pub(crate) fn check_pixels(encoder: &str, pixels: &Tensor<4>, smallest: usize) -> Result<(), EncoderError> {
    let got = pixels.dims();
    match got {
        [0, ..] => Err(EncoderError::EmptyBatch),
        [_, 3, h, w] if h >= smallest && w >= smallest => Ok(()),
        _ => Err(EncoderError::Shape {
            encoder: encoder.to_owned(),
            expected: format!("pixels [n, 3, h, w] with h and w of at least {smallest}"),
            got: got.to_vec(),
        }),
    }
}

/// The largest of 3x3 windows, 2 apart, whose centres are the even rows and columns of `x` `[n, h, w, c]`.
///
/// That is `MaxPool2d(3, stride=2, padding=1)` in PyTorch: the border never wins.
fn max_pool_3x3(x: Tensor<4>, kinks: &mut Kinks) -> Tensor<4> {
    let [_, h, w, _] = x.dims();
    let x = x.pad([(1, h % 2), (1, w % 2), (0, 0)], f32::NEG_INFINITY);
    kinks.max_pool2d(x, 3, 2)
}

/// The error for a name that does not exist.
pub(crate) fn unknown<'a>(kind: &'static str, name: &str, known: impl IntoIterator<Item = &'a str>) -> EncoderError {
    let known = known.into_iter().collect::<Vec<_>>().join(", ");
    EncoderError::Unknown { kind, name: name.to_owned(), known }
}
