//! The training that some selections look at: a model on the whole train split, for a few epochs.
//!
//! InfoNCE and SGD as in evaluation, at constant rates: `select.batch` and `select.rates`. The model is a function of
//! the seed.

use std::sync::Arc;

use burn::tensor::Tensor;

use crate::data::loader::{Ahead, Prefetch};
use crate::distill::DistillError;
use crate::encoders::Mode;
use crate::engine::Seed;
use crate::evaluate::Progress;
use crate::experiment::Experiment;
use crate::model::{Model, ModelOptimizer, Trained};

/// A model after `epochs` epochs. `watch` is shown every step: the captions of its pairs, and their similarities
/// `[n, n]` before the step.
pub(super) fn warm_up(
    experiment: &Experiment,
    epochs: usize,
    watch: &mut dyn FnMut(&[u32], Tensor<2>),
    progress: &mut dyn FnMut(Progress),
) -> Result<Model, DistillError> {
    let (config, seed) = (&experiment.config, experiment.config.seed());
    let augment = config.distill.augmentation();
    let loader = experiment.train_loader(seed, "select", config.select.batch, augment)?;
    let steps = loader.batches_per_epoch() as usize;
    let mut batches = Prefetch::new(Arc::new(loader), 0, Ahead::default());
    let mut model = experiment.model(Seed(seed.stream("select.model", 0).next_u64()), 0);
    let mut optimizer = ModelOptimizer::default();
    for epoch in 0..epochs {
        let mut dropout = seed.stream("select.dropout", epoch as u64);
        let mut sum = 0.0;
        for batch in batches.by_ref().take(steps) {
            let (batch, mode) = (batch?, &mut Mode::Train(&mut dropout));
            let captions = batch.captions.clone();
            let inputs = model.inputs(batch, mode, &experiment.device)?;
            let (tau, rates) = (config.head.tau, config.select.rates);
            let trained = model.watched_step(inputs, tau, rates, &mut optimizer, mode)?;
            let Trained { loss, logits, .. } = trained;
            if !loss.is_finite() {
                return Err(DistillError::WarmUp { epoch });
            }
            watch(&captions, logits);
            (model, sum) = (trained.model, sum + loss);
        }
        progress(Progress::Epoch { run: 0, epoch, epochs, loss: sum / steps as f32 });
    }
    Ok(model)
}
