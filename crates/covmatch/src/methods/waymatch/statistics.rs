//! What the whole train split looks like to a teacher: the cross-covariance of its features and the means of its projections.
//!
//! ```text
//! C_k = 1/(n-1) Hc_v^T Hc_l        mean z_v, mean z_l        n: train images, each with one of its captions
//! ```

use burn::tensor::{Device, Tensor};

use super::canonical::canonical_directions;
use crate::config::{Config, WayMatchConfig};
use crate::data::Split;
use crate::encoders::{Mode, TextEncoder};
use crate::engine::Seed;
use crate::experiment::Experiment;
use crate::losses::cross_covariance::{Features, cross_covariance};
use crate::methods::MethodError;
use crate::model::Model;
use crate::tensor_file::{TensorFile, TensorFileError};

/// Features of real pairs under a teacher, in numbers.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// `C_k` `[d_v, d_l]`
    pub covariance: Tensor<2>,
    /// Canonical directions `Q_v` `[d_v, r]` and `Q_l` `[d_l, r]`
    pub directions: Features,
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
    /// Those of features `h` of real pairs under `model`, with as many directions as `config` says.
    pub fn of(model: &Model, features: Features, config: &WayMatchConfig) -> Result<Self, MethodError> {
        let covariance = cross_covariance(&features);
        let auto = |h: Tensor<2>| cross_covariance(&Features { image: h.clone(), text: h });
        let (count, ridge) = (config.directions, f64::from(config.ridge));
        let stream = &mut Seed(0).stream("waymatch.directions", 0);
        let directions = canonical_directions(&covariance, &features.clone().map(auto), count, ridge, stream);
        let means = model.project(features, &mut Mode::Eval)?.map(|z| z.mean_dim(0));
        Ok(Self { covariance, directions, means })
    }

    /// Adds them to `file`.
    pub fn put_into(&self, file: &mut TensorFile) {
        file.put("statistics.covariance", self.covariance.clone());
        file.put("statistics.directions_image", self.directions.image.clone());
        file.put("statistics.directions_text", self.directions.text.clone());
        file.put("statistics.mean_image", self.means.image.clone());
        file.put("statistics.mean_text", self.means.text.clone());
    }

    /// Those that [`put_into`](Self::put_into) added to `file`.
    pub fn in_file(file: &TensorFile, device: &Device) -> Result<Self, TensorFileError> {
        Ok(Self {
            covariance: file.get("statistics.covariance", device)?,
            directions: Features {
                image: file.get("statistics.directions_image", device)?,
                text: file.get("statistics.directions_text", device)?,
            },
            means: Features {
                image: file.get("statistics.mean_image", device)?,
                text: file.get("statistics.mean_text", device)?,
            },
        })
    }
}
