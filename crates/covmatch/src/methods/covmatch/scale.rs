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

use super::matching::{Matched, Objective, RealStatistics, match_pairs};
use crate::branches::Branches;
use crate::config::{DistillConfig, Units};
use crate::encoders::Mode;
use crate::experiment::Experiment;
use crate::losses::cross_covariance::energy;
use crate::methods::{MethodError, PairRates, Synthetic, relative_rate, rms};
use crate::model::Model;

/// The paper's learning rate of pixels and captions, in absolute units.
const AUTHORS_RATE: f32 = 1.0;

/// Real batches that are looked at.
const BATCHES: u64 = 4;

/// The constants of a run, in absolute units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CovMatchScale {
    /// Weight of `L_cov`.
    pub cov: f32,
    /// Weight of each `L_feat`.
    pub feat: f32,
    /// Learning rate of the pixels.
    #[serde(alias = "lr_img")]
    pub lr_image: f32,
    /// Learning rate of the embedded captions.
    #[serde(alias = "lr_txt")]
    pub lr_text: f32,
}

impl CovMatchScale {
    /// The constants of `experiment`, which starts from `synthetic` under `model`.
    pub fn new(experiment: &Experiment, model: &Model, synthetic: &Synthetic) -> Result<Self, MethodError> {
        let config = &experiment.config.distill;
        match config.units {
            Units::Absolute => {
                let Branches { image: lr_image, text: lr_text } = config.rates(AUTHORS_RATE);
                Ok(Self { cov: 1.0, feat: config.lambda(), lr_image, lr_text })
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
        PairRates { lr_image: self.lr_image, lr_text: self.lr_text, momentum: config.momentum }
    }

    fn measure(experiment: &Experiment, model: &Model, synthetic: &Synthetic) -> Result<Self, MethodError> {
        let config = &experiment.config.distill;
        let real = real_statistics(experiment, model)?;
        let energies = real.iter().map(|real| energy(&real.features).into_scalar::<f32>());
        let mean_energy = energies.sum::<f32>() / real.len() as f32;
        if !(mean_energy.is_finite() && mean_energy > 0.0) {
            return Err(MethodError::Calibration { what: "real cross-covariance", rms: mean_energy });
        }
        let (cov, feat) = (1.0 / mean_energy, config.lambda() / experiment.config.head.width as f32);
        let objective = Objective { rho: config.rho, cov, feat };

        let part = synthetic.inputs.first(config.synthetic_batch());
        let (mut image, mut text) = (0.0, 0.0);
        for real in &real {
            let Matched { gradients, .. } = match_pairs(model, real, part.clone(), objective, config.learn)?;
            image += gradients.pixels.map_or(0.0, rms) / BATCHES as f32;
            text += gradients.text.map_or(0.0, rms) / BATCHES as f32;
        }
        let rate = |fraction: f32, values: f32, gradient: f32, learned: bool, what: &'static str| match learned {
            true if fraction > 0.0 => relative_rate(fraction, values, gradient, what),
            _ => Ok(0.0),
        };
        let (pixels, captions) = (rms(part.pixels), rms(part.text));
        let Branches { image: lr_image, text: lr_text } = config.rates(AUTHORS_RATE);
        Ok(Self {
            cov,
            feat,
            lr_image: rate(lr_image, pixels, image, config.learn.image(), "pixels")?,
            lr_text: rate(lr_text, captions, text, config.learn.text(), "captions")?,
        })
    }
}

/// Statistics of a few real batches under `model`.
fn real_statistics(experiment: &Experiment, model: &Model) -> Result<Vec<RealStatistics>, MethodError> {
    let config = &experiment.config.distill;
    let (seed, augment) = (experiment.config.seed(), experiment.config.data.augmentation());
    let loader = experiment.train_loader(seed, "calibration", config.real_batch, augment)?;
    let statistics = |step| {
        let batch = loader.batch(step, crate::engine::threads())?;
        let real = model.inputs(batch, &mut Mode::Eval, &experiment.device)?;
        Ok(RealStatistics::new(model, real)?)
    };
    (0..BATCHES).map(statistics).collect()
}
