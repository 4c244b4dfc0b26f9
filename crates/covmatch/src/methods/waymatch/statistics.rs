//! What the whole train split looks like to a teacher: features, their cross-covariance, and the means of their projections.
//!
//! ```text
//! H_v, H_l less their means        C_k = 1/(n-1) H_v^T H_l        mean z_v, mean z_l
//! ```
//! of `n` train images, each with one of its captions.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::config::Config;
use crate::data::Split;
use crate::encoders::{Mode, TextEncoder};
use crate::engine::Stream;
use crate::experiment::Experiment;
use crate::losses::cross_covariance::{Features, cross_covariance};
use crate::methods::MethodError;
use crate::model::Model;
use crate::tensor_file::{TensorFile, TensorFileError};

/// Real pairs as a teacher sees them.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// `h` of the entries less their means, `[n, d_v]` and `[n, d_l]`
    pub features: Features,
    /// `C_k` `[d_v, d_l]`
    pub covariance: Tensor<2>,
    /// Means of `z` `[1, z]`
    pub means: Features,
}

/// The train entries that statistics are taken over: images, each with one of its captions.
#[derive(Clone, Debug)]
pub struct Entries {
    images: Vec<u32>,
    captions: Vec<u32>,
}

impl Entries {
    /// As many as `waymatch.entries` of them, drawn from the seed.
    pub fn draw(experiment: &Experiment) -> Self {
        let Config { waymatch, .. } = &experiment.config;
        let mut stream = experiment.config.seed().stream("waymatch.entries", 0);
        let all = experiment.dataset.gallery(Split::Train).images;
        let order = stream.shuffle(all.len() as u32);
        let with_caption = |place: u32| {
            let image = all[place as usize];
            let captions = experiment.dataset.captions_of(image);
            (!captions.is_empty()).then(|| (image, captions.start as u32 + stream.below(captions.len() as u64) as u32))
        };
        let (images, captions) = order.into_iter().filter_map(with_caption).take(waymatch.entries).unzip();
        Self { images, captions }
    }

    /// The captions, indices into `Dataset::captions`.
    pub fn captions(&self) -> &[u32] {
        &self.captions
    }

    /// `h_v` and `h_l` of all of them under `model`.
    pub fn features(&self, experiment: &Experiment, model: &Model) -> Result<Features, MethodError> {
        let image = experiment.encode_images(self.images.clone(), |pixels| model.visual.encode(pixels))?;
        let text =
            experiment.encode_captions(&self.captions, |text, mask| model.text.encode(text, mask, &mut Mode::Eval))?;
        Ok(Features { image, text })
    }
}

impl Statistics {
    /// Those of `features` of real pairs under `model`.
    pub fn of(model: &Model, features: Features) -> Result<Self, MethodError> {
        let means = model.project(features.clone(), &mut Mode::Eval)?.map(|z| z.mean_dim(0));
        let covariance = cross_covariance(&features);
        let features = features.map(|h| h.clone() - h.mean_dim(0));
        Ok(Self { features, covariance, means })
    }

    /// Adds them to `file`.
    pub fn put_into(&self, file: &mut TensorFile) {
        file.put("statistics.features_image", self.features.image.clone());
        file.put("statistics.features_text", self.features.text.clone());
        file.put("statistics.covariance", self.covariance.clone());
        file.put("statistics.mean_image", self.means.image.clone());
        file.put("statistics.mean_text", self.means.text.clone());
    }

    /// Those that [`put_into`](Self::put_into) added to `file`.
    pub fn in_file(file: &TensorFile, device: &Device) -> Result<Self, TensorFileError> {
        let both = |name: &str| -> Result<Features, TensorFileError> {
            let [image, text] = ["image", "text"].map(|side| file.get(&format!("statistics.{name}_{side}"), device));
            Ok(Features { image: image?, text: text? })
        };
        Ok(Self {
            features: both("features")?,
            covariance: file.get("statistics.covariance", device)?,
            means: both("mean")?,
        })
    }

    /// The features of `count` entries, drawn from `stream`; of all if there are not more.
    pub fn some(&self, count: usize, stream: &mut Stream) -> Features {
        let all = self.features.image.dims()[0];
        if count >= all {
            return self.features.clone();
        }
        let rows: Vec<i64> = stream.shuffle(all as u32).into_iter().take(count).map(i64::from).collect();
        let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), &self.covariance.device());
        self.features.as_ref().map(|h| h.clone().select(0, rows.clone()))
    }
}
