//! The models and batches of python/goldens/distill.py.
#![allow(dead_code)] // not every test file uses everything

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor, TensorData};
use covmatch::encoders::TextEncoder;
use covmatch::encoders::projection::{Depth, Projection, ProjectionConfig};
use covmatch::encoders::text::{AnyTextEncoder, Pooling};
use covmatch::encoders::weights::generated;
use covmatch::engine::Seed;
use covmatch::model::{AnyVisualEncoder, Inputs, Model, TextLevel};

use super::{Golden, uniform};

/// Height and width of the images.
pub const SIZE: usize = 32;
/// Width of the heads.
pub const WIDTH: usize = 64;

/// Two encoders, by the name of their golden files.
#[derive(Clone, Copy)]
pub struct Case {
    pub image: &'static str,
    /// Factor of the formula's kernels.
    louder: f32,
    text: &'static str,
    pooling: Pooling,
}

pub const EFFICIENTNET_LITE0: Case =
    Case { image: "efficientnet_lite0", louder: 1.5, text: "minilm-l3", pooling: Pooling::Cls };
pub const NFNET_L0: Case = Case { image: "nfnet_l0", louder: 1.0, text: "minilm-l6", pooling: Pooling::Mean };

impl Case {
    /// The golden file of that kind.
    pub fn golden(self, kind: &str) -> Golden {
        Golden::read(&format!("distill_{}_{kind}", self.image))
    }

    /// The model, filled by the formula.
    pub fn model(self, device: &Device) -> Model {
        let visual = AnyVisualEncoder::new(self.image, device).unwrap();
        let text = AnyTextEncoder::new(self.text, self.pooling, device).unwrap();
        let head = |inputs: usize| {
            let config = ProjectionConfig { inputs, width: WIDTH, depth: Depth::Two, dropout: 0.1 };
            Projection::new(config, &mut Seed(0).stream("init", 0), device)
        };
        let (image_head, text_head) = (Some(head(visual.feature_dim())), head(text.feature_dim()));
        let model = generated::fill(Model { visual, text, image_head, text_head });
        Model { visual: model.visual.map(&mut Louder(self.louder)), ..model }
    }
}

/// Multiplies the kernels of convolutions.
struct Louder(f32);

impl ModuleMapper for Louder {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if D == 4 { param.map(|kernel| kernel.mul_scalar(self.0)) } else { param }
    }
}

/// The batch `name`; a row of the golden `mask` is a caption.
pub fn batch(name: &str, mask: &[f64], rows: usize, model: &Model, device: &Device) -> Inputs {
    let (tokens, width) = (mask.len() / rows, model.text.feature_dim());
    let mask: Vec<f32> = mask.iter().map(|&m| m as f32).collect();
    Inputs {
        pixels: uniform(&format!("{name}.pixels"), [rows, 3, 1, SIZE, SIZE], device),
        text: uniform(&format!("{name}.text"), [rows, tokens, width], device),
        mask: Tensor::from_data(TensorData::new(mask, [rows, tokens]), device),
        level: TextLevel::Inputs,
    }
}
