//! Vision transformer.
//!
//! Paper: Dosovitskiy et al. 2021, <https://arxiv.org/abs/2010.11929>.
//! Upstream: timm's `vit_base_patch16_224` and `vit_tiny_patch16_224`; the feature is the class token after the final
//! norm, as timm gives it with `num_classes=0`.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use covmatch_kernels as kernels;

use crate::encoders::kinks::Kinks;
use crate::encoders::layers::{LayerNorm, Linear, linear, zeros};
use crate::encoders::{EncoderError, ImageEncoder, macs};

/// The form of a vision transformer.
#[derive(Clone, Copy, Debug)]
pub struct VitConfig {
    /// Height and width of the images.
    pub image: usize,
    /// Height and width of a patch.
    pub patch: usize,
    /// Dimension of tokens and of the features.
    pub width: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Attention heads of a block.
    pub heads: usize,
}

impl VitConfig {
    /// timm's `vit_base_patch16_224`.
    pub const BASE_PATCH16_224: Self = Self { image: 224, patch: 16, width: 768, depth: 12, heads: 12 };
    /// timm's `vit_tiny_patch16_224`.
    pub const TINY_PATCH16_224: Self = Self { image: 224, patch: 16, width: 192, depth: 12, heads: 3 };
}

/// Vision transformer with a class token and learned positions.
#[derive(Module, Debug)]
pub struct Vit {
    cls_token: Param<Tensor<3>>, // [1, 1, width]
    pos_embed: Param<Tensor<3>>, // [1, 1 + patches, width]
    patch_embed: PatchEmbed,
    blocks: Vec<Block>,
    norm: LayerNorm,
    #[module(skip)]
    config: VitConfig,
}

const EPS: f32 = 1e-6;

impl Vit {
    /// The network with weights yet to be loaded.
    pub fn new(config: VitConfig, device: &Device) -> Self {
        let VitConfig { image, patch, width, depth, heads } = config;
        let patches = (image / patch) * (image / patch);
        Self {
            cls_token: zeros([1, 1, width], device),
            pos_embed: zeros([1, 1 + patches, width], device),
            patch_embed: PatchEmbed { proj: PatchProjection::new(patch, width, device) },
            blocks: (0..depth).map(|_| Block::new(width, heads, device)).collect(),
            norm: LayerNorm::new(width, EPS, device),
            config,
        }
    }

    fn check(&self, pixels: &Tensor<4>) -> Result<(), EncoderError> {
        let (got, image) = (pixels.dims(), self.config.image);
        match got {
            [0, ..] => Err(EncoderError::EmptyBatch),
            [_, 3, h, w] if h == image && w == image => Ok(()),
            _ => Err(EncoderError::Shape {
                encoder: "ViT".to_owned(),
                expected: format!("pixels [n, 3, {image}, {image}]"),
                got: got.to_vec(),
            }),
        }
    }
}

impl ImageEncoder for Vit {
    fn forward(&self, pixels: Tensor<4>, _: &mut Kinks) -> Result<Tensor<2>, EncoderError> {
        self.check(&pixels)?;
        let (n, width) = (pixels.dims()[0], self.config.width);
        let patches = self.patch_embed.proj.forward(pixels); // [n, patches, width]
        let cls = self.cls_token.val().expand([n, 1, width]);
        let tokens = Tensor::cat(vec![cls, patches], 1) + self.pos_embed.val(); // [n, 1 + patches, width]
        let tokens = self.blocks.iter().fold(tokens, |x, block| block.forward(x));
        Ok(self.norm.forward(tokens.narrow(1, 0, 1).reshape([n, width])))
    }

    fn feature_dim(&self) -> usize {
        self.config.width
    }
}

#[derive(Module, Debug)]
struct PatchEmbed {
    proj: PatchProjection,
}

/// A convolution with stride = kernel = patch, computed as one linear layer over flattened patches.
#[derive(Module, Debug)]
struct PatchProjection {
    weight: Param<Tensor<4>>, // [width, 3, patch, patch]
    bias: Param<Tensor<1>>,
}

impl PatchProjection {
    fn new(patch: usize, width: usize, device: &Device) -> Self {
        Self { weight: zeros([width, 3, patch, patch], device), bias: zeros([width], device) }
    }

    /// `[n, 3, h, w]` to `[n, (h / patch) * (w / patch), width]`.
    fn forward(&self, pixels: Tensor<4>) -> Tensor<3> {
        let [width, _, p, _] = self.weight.dims();
        let [n, _, h, w] = pixels.dims();
        let (rows, columns) = (h / p, w / p);
        let patches = pixels.reshape([n, 3, rows, p, columns, p]).permute([0, 2, 4, 1, 3, 5]);
        let patches = patches.reshape([n, rows * columns, 3 * p * p]);
        linear(patches, self.weight.val().reshape([width, 3 * p * p]), Some(self.bias.val()))
    }
}

/// A pre-norm transformer block: `x += attn(norm1(x)); x += mlp(norm2(x))`.
#[derive(Module, Debug)]
struct Block {
    norm1: LayerNorm,
    attn: Attention,
    norm2: LayerNorm,
    mlp: Mlp,
}

impl Block {
    fn new(width: usize, heads: usize, device: &Device) -> Self {
        Self {
            norm1: LayerNorm::new(width, EPS, device),
            attn: Attention {
                qkv: Linear::new(width, 3 * width, device),
                proj: Linear::new(width, width, device),
                heads,
            },
            norm2: LayerNorm::new(width, EPS, device),
            mlp: Mlp { fc1: Linear::new(width, 4 * width, device), fc2: Linear::new(4 * width, width, device) },
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let x = kernels::add(self.attn.forward(self.norm1.forward(x.clone())), x);
        kernels::add(self.mlp.forward(self.norm2.forward(x.clone())), x)
    }
}

#[derive(Module, Debug)]
struct Attention {
    qkv: Linear,
    proj: Linear,
    heads: usize,
}

impl Attention {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [n, l, width] = x.dims();
        let [q, k, v] = self.qkv.forward_split(x);
        macs::record((2 * n * l * l * width) as u64);
        self.proj.forward(kernels::attention(q, k, v, None, self.heads, None))
    }
}

#[derive(Module, Debug)]
struct Mlp {
    fc1: Linear,
    fc2: Linear,
}

impl Mlp {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        self.fc2.forward(kernels::gelu(self.fc1.forward(x)))
    }
}
