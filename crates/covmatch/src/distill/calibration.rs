//! Units in which rates carry over from one pair of encoders to another.
//!
//! `L_cov` grows with the fourth power of the features' scale, and the pixels' gradient with the third: the paper's rate
//! of 1.0 is right for its encoders and wrecks the pairs for others. In relative units, two things are measured once at
//! the beginning, on a few real batches with the pretrained encoders and the initial pairs:
//!
//! ```text
//! w_cov  = 1 / mean ||C_T||_F^2                     so that L_cov = 1 means: as far off as no pair at all (rho = 1)
//! w_feat = lambda / z                               z: width of the heads, whose outputs have norm sqrt(z)
//! lr     = r rms(x) / mean rms(dL/dx)               so that a first step changes x by the fraction r
//! ```
//! for pixels and for embedded captions alike. They are constants of the run: within it, this is plain SGD.

use serde::{Deserialize, Serialize};

use burn::tensor::Tensor;

use super::DistillError;
use super::matching::{Matched, Objective, RealStatistics, match_pairs};
use super::synthetic::{PairRates, Synthetic};
use crate::config::{DistillConfig, Units};
use crate::encoders::Mode;
use crate::experiment::Experiment;
use crate::losses::cross_covariance::energy;
use crate::model::Model;

/// Real batches that are looked at.
const BATCHES: u64 = 4;

/// The constants of a run, in absolute units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Weight of `L_cov`.
    pub cov: f32,
    /// Weight of each `L_feat`.
    pub feat: f32,
    /// Learning rate of the pixels.
    pub lr_img: f32,
    /// Learning rate of the embedded captions.
    pub lr_txt: f32,
}

impl Scale {
    /// The constants of `experiment`, which starts from `synthetic` under `model`.
    pub fn new(experiment: &Experiment, model: &Model, synthetic: &Synthetic) -> Result<Self, DistillError> {
        let config = &experiment.config.distill;
        match config.units {
            Units::Absolute => {
                Ok(Self { cov: 1.0, feat: config.lambda(), lr_img: config.lr_img(), lr_txt: config.lr_txt() })
            }
            Units::Relative => Self::measure(experiment, model, synthetic),
        }
    }

    /// The weights of the matching loss.
    pub fn objective(&self, config: &DistillConfig) -> Objective {
        Objective { rho: config.rho, cov: self.cov, feat: self.feat }
    }

    /// The rates of the pairs.
    pub fn rates(&self, config: &DistillConfig) -> PairRates {
        PairRates { lr_img: self.lr_img, lr_txt: self.lr_txt, momentum: config.momentum }
    }

    fn measure(experiment: &Experiment, model: &Model, synthetic: &Synthetic) -> Result<Self, DistillError> {
        let config = &experiment.config.distill;
        let real = real_statistics(experiment, model)?;
        let energies = real.iter().map(|real| energy(&real.features).into_scalar::<f32>());
        let mean_energy = energies.sum::<f32>() / real.len() as f32;
        if !(mean_energy.is_finite() && mean_energy > 0.0) {
            return Err(DistillError::Calibration { what: "real cross-covariance", rms: mean_energy });
        }
        let (cov, feat) = (1.0 / mean_energy, config.lambda() / experiment.config.head.width as f32);
        let objective = Objective { rho: config.rho, cov, feat };

        let part = synthetic.inputs.first(config.synthetic_batch());
        let (mut image, mut text) = (0.0, 0.0);
        for real in &real {
            let Matched { gradients, .. } = match_pairs(model, real, part.clone(), objective, config.distil)?;
            image += gradients.pixels.map_or(0.0, rms) / BATCHES as f32;
            text += gradients.text.map_or(0.0, rms) / BATCHES as f32;
        }
        let lr = |rate: f32, values: f32, gradient: f32, learned: bool, what: &'static str| match gradient {
            _ if !learned || rate == 0.0 => Ok(0.0),
            rms if rms.is_finite() && rms > 0.0 => Ok(rate * values / rms),
            rms => Err(DistillError::Calibration { what, rms }),
        };
        let (pixels, captions) = (rms(part.pixels), rms(part.text));
        Ok(Self {
            cov,
            feat,
            lr_img: lr(config.lr_img(), pixels, image, config.distil.image(), "pixels")?,
            lr_txt: lr(config.lr_txt(), captions, text, config.distil.text(), "captions")?,
        })
    }
}

/// Statistics of a few real batches under `model`.
fn real_statistics(experiment: &Experiment, model: &Model) -> Result<Vec<RealStatistics>, DistillError> {
    let config = &experiment.config.distill;
    let (seed, augment) = (experiment.config.seed(), config.augmentation());
    let loader = experiment.train_loader(seed, "calibration", config.real_batch, augment)?;
    let statistics = |step| {
        let batch = loader.batch(step, crate::engine::threads())?;
        let real = model.inputs(batch, &mut Mode::Eval, &experiment.device)?;
        Ok(RealStatistics::new(model, real)?)
    };
    (0..BATCHES).map(statistics).collect()
}

/// The root mean square of all values.
pub(crate) fn rms<const D: usize>(x: Tensor<D>) -> f32 {
    x.powi_scalar(2).mean().into_scalar::<f32>().sqrt()
}
