//! Random: entries of the train split, uniformly and without replacement.
//!
//! They are the entries that a learner of the same seed starts from.

use super::{Method, MethodError};
use crate::data::loader::Augment;
use crate::experiment::Experiment;

/// The entry of Random.
pub fn method() -> Method {
    Method::selects("random", "Random", |experiment, _| random(experiment))
}

/// The captions of random entries, indices into `Dataset::captions`.
pub fn random(experiment: &Experiment) -> Result<Vec<u32>, MethodError> {
    let config = &experiment.config;
    let loader = experiment.train_loader(config.seed(), "synthetic.init", config.distill.pairs, Augment::None)?;
    Ok(loader.batch(0, crate::engine::threads())?.captions)
}
