//! The training that some selections look at: a model on the whole train split, for a few epochs.
//!
//! InfoNCE and SGD as in evaluation, at constant rates: `select.batch` and `select.rates`. The model is a function of
//! the seed.

use crate::engine::Seed;
use crate::experiment::Experiment;
use crate::methods::{EpochDone, MethodError};
use crate::model::{Example, Model, Seen, Trainer};

/// A model after `epochs` epochs; `watch` is shown every step.
pub(crate) fn warm_up(
    experiment: &Experiment,
    epochs: usize,
    watch: &mut dyn FnMut(&Seen),
    progress: &mut dyn FnMut(EpochDone),
) -> Result<Model, MethodError> {
    let (config, seed) = (&experiment.config, experiment.config.seed());
    let model = experiment.model(Seed(seed.stream("select.model", 0).next_u64()), 0);
    let mut trainer = Trainer::new(model, config.head.tau, &experiment.device);
    for epoch in 0..epochs {
        let batches = experiment.epoch(seed, "select", config.select.batch, epoch)?;
        let examples = batches.map(|batch| Ok::<_, MethodError>(Example::Batch(batch?)));
        let mut dropout = seed.stream("select.dropout", epoch as u64);
        let loss;
        (trainer, loss) = trainer.epoch(examples, config.select.rates.into(), &mut dropout, watch)?;
        if !loss.is_finite() {
            return Err(MethodError::WarmUp { epoch });
        }
        progress(EpochDone { epoch, epochs, loss });
    }
    Ok(trainer.into_model())
}
