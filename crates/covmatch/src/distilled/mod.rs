//! A distilled set on the disk: a folder that PyTorch loads in two lines.
//!
//! ```text
//! distilled.safetensors   image [N, 3, h, w] (clips: video [N, 3, t, h, w]), text [N, l, d_l], mask [N, l];
//!                         MTT-VL and LoRS: text [N, d_l], similarity [N, N], syn_lr_img and syn_lr_txt
//! images/0000.png ...     a view of the pictures, clipped to colours
//! metadata.jsonl          for each pair: file_name, the caption it began with, the nearest train caption
//! ```
//! With `metadata.jsonl` the folder is also an image folder as Hugging Face `datasets` reads it.

mod adapt;
mod pictures;

pub use adapt::AdaptError;
pub use pictures::{file_name, picture, save_pictures};

use std::path::Path;
use std::{fs, io};

use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::branches::Branches;
use crate::data::transform::{ChannelOrder, Normalization};
use crate::losses::PairLoss;
use crate::model::{Inputs, TextLevel};
use crate::tensor_file::{TensorFile, TensorFileError};

/// Name of the file with the tensors.
pub const FILE: &str = "distilled.safetensors";

/// The pairs, and what a user of them must know.
#[derive(Clone, Debug)]
pub struct DistilledSet {
    /// The pairs.
    pub pairs: Inputs,
    /// What they were made with.
    pub about: About,
    /// What was learned beside them; none for methods that learn pairs alone.
    pub learned: Option<Learned>,
}

/// What a trajectory method learns beside the pairs, for models that are trained on them.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Similarity of every picture and caption `[N, N]`; none: each picture belongs to its own caption.
    pub similarity: Option<Tensor<2>>,
    /// Learning rates of both sides of a model; none: those of the protocol.
    pub rates: Option<Branches<f32>>,
    /// The loss that they were learned with.
    pub loss: PairLoss,
}

/// What a set was made with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The method.
    pub method: String,
    /// The image or video encoder.
    pub image_encoder: String,
    /// The text encoder; captions are embedded by it.
    pub text_encoder: String,
    /// Which vector stands for a caption: `cls` or `mean`.
    pub pooling: String,
    /// Order of the channels, `rgb` or `bgr`.
    pub channels: String,
    /// Mean of each channel; pixels are `(colour - mean) / std`, colours in 0..1.
    pub mean: [f32; 3],
    /// Divisor of each channel.
    pub std: [f32; 3],
    /// Steps of distillation.
    pub step: u64,
    /// Version of covmatch.
    pub version: String,
}

/// One line of `metadata.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairInfo {
    /// The view of the picture.
    pub file_name: String,
    /// The real image that the pair began with.
    pub init_image: String,
    /// The caption that the pair began with.
    pub init_caption: String,
    /// The train caption whose text feature is nearest to the pair's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nearest_caption: Option<String>,
}

impl PairInfo {
    /// The lines of the file at `path`.
    pub fn read_all(path: &Path) -> io::Result<Vec<Self>> {
        let text = fs::read_to_string(path)?;
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }
}

impl About {
    /// How the pixels are normalised.
    pub fn normalization(&self) -> Normalization {
        let order = if self.channels == "bgr" { ChannelOrder::Bgr } else { ChannelOrder::Rgb };
        Normalization { order, mean: self.mean, std: self.std }
    }

    /// The name of a channel order.
    pub fn channels_name(order: ChannelOrder) -> &'static str {
        match order {
            ChannelOrder::Rgb => "rgb",
            ChannelOrder::Bgr => "bgr",
        }
    }
}

impl DistilledSet {
    /// Writes `distilled.safetensors` in `folder`.
    pub fn save(&self, folder: &Path) -> Result<(), TensorFileError> {
        let mut file = TensorFile::default();
        let [n, channels, frames, height, width] = self.pairs.pixels.dims();
        match frames {
            1 => file.put("image", self.pairs.pixels.clone().reshape([n, channels, height, width])),
            _ => file.put("video", self.pairs.pixels.clone()),
        }
        match self.pairs.level {
            TextLevel::Features => file.put::<2>("text", self.pairs.text.clone().squeeze_dim(1)),
            TextLevel::Inputs => {
                file.put("text", self.pairs.text.clone());
                file.put("mask", self.pairs.mask.clone());
            }
        }
        if let Some(Learned { similarity, rates, loss }) = &self.learned {
            if let Some(similarity) = similarity {
                file.put("similarity", similarity.clone());
            }
            if let Some(rates) = rates {
                file.put_value("syn_lr_img", &rates.image);
                file.put_value("syn_lr_txt", &rates.text);
            }
            file.put_value("loss", loss);
        }
        let about = serde_json::to_value(&self.about).map_err(|cause| file.content(cause.to_string()))?;
        for (key, value) in about.as_object().into_iter().flatten() {
            let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            file.metadata.insert(key.clone(), word);
        }
        Ok(file.write(&folder.join(FILE))?)
    }

    /// Reads `distilled.safetensors` of `folder`.
    pub fn load(folder: &Path, device: &Device) -> Result<Self, TensorFileError> {
        let file = TensorFile::read(&folder.join(FILE))?;
        let pixels = if file.contains("video") {
            file.get("video", device)?
        } else {
            let pixels = file.get::<4>("image", device)?;
            let [n, channels, height, width] = pixels.dims();
            pixels.reshape([n, channels, 1, height, width])
        };
        let pairs = match file.shape("text")?.len() {
            2 => {
                let text: Tensor<2> = file.get("text", device)?;
                let mask = Tensor::ones([text.dims()[0], 1], device);
                Inputs { pixels, text: text.unsqueeze_dim(1), mask, level: TextLevel::Features }
            }
            _ => {
                let (text, mask) = (file.get("text", device)?, file.get("mask", device)?);
                Inputs { pixels, text, mask, level: TextLevel::Inputs }
            }
        };
        check_shapes(&file, &pairs)?;
        let learned = learned(&file, pairs.len(), device)?;
        Ok(Self { pairs, about: about(&file)?, learned })
    }
}

fn learned(file: &TensorFile, n: usize, device: &Device) -> Result<Option<Learned>, TensorFileError> {
    if !file.metadata.contains_key("loss") {
        return Ok(None);
    }
    let similarity = file.contains("similarity").then(|| file.get::<2>("similarity", device)).transpose()?;
    if let Some(shape) = similarity.as_ref().map(Tensor::dims).filter(|shape| *shape != [n, n]) {
        return Err(file.content(format!("has a similarity of shape {shape:?} for {n} pairs")));
    }
    let rates = match file.metadata.contains_key("syn_lr_img") {
        true => Some(Branches { image: file.value("syn_lr_img")?, text: file.value("syn_lr_txt")? }),
        false => None,
    };
    Ok(Some(Learned { similarity, rates, loss: file.value("loss")? }))
}

/// The words about a set; numbers and lists are JSON.
fn about(file: &TensorFile) -> Result<About, TensorFileError> {
    let text = |key: &str| file.about(key).map(str::to_owned);
    let wrong = |key: &str| file.content(format!("has a '{key}' that cannot be read"));
    let numbers = |key: &str| serde_json::from_str::<[f32; 3]>(file.about(key)?).map_err(|_| wrong(key));
    Ok(About {
        method: text("method")?,
        image_encoder: text("image_encoder")?,
        text_encoder: text("text_encoder")?,
        pooling: text("pooling")?,
        channels: text("channels")?,
        mean: numbers("mean")?,
        std: numbers("std")?,
        step: file.about("step")?.parse().map_err(|_| wrong("step"))?,
        version: text("version")?,
    })
}

fn check_shapes(file: &TensorFile, pairs: &Inputs) -> Result<(), TensorFileError> {
    let ([n, channels, ..], [n_text, l, _], [n_mask, l_mask]) =
        (pairs.pixels.dims(), pairs.text.dims(), pairs.mask.dims());
    if channels != 3 || n != n_text || n != n_mask || l != l_mask || n == 0 {
        let shapes = format!("{:?}, {:?} and {:?}", pairs.pixels.dims(), pairs.text.dims(), pairs.mask.dims());
        return Err(file.content(format!("has pixels, text and mask of shapes {shapes}, which do not fit together")));
    }
    Ok(())
}
