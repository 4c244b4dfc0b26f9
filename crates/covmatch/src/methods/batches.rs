//! Real batches of one purpose, made ahead of their use.

use std::sync::Arc;

use crate::data::DataError;
use crate::data::loader::{Ahead, Batch, Prefetch};
use crate::experiment::Experiment;

/// Real batches of one purpose, without an end.
pub struct RealBatches {
    queue: Box<dyn Iterator<Item = Result<Batch, DataError>>>,
}

impl RealBatches {
    /// Batches of `pairs` pairs for `purpose`, from number `first` on, made ahead. Which pairs are in batch `t` is a
    /// function of (seed, purpose, t).
    pub fn new(experiment: &Experiment, purpose: &str, pairs: usize, first: u64) -> Result<Self, DataError> {
        let (seed, augment) = (experiment.config.seed(), experiment.config.data.augmentation());
        let loader = experiment.train_loader(seed, purpose, pairs, augment)?;
        Ok(Self { queue: Box::new(Prefetch::new(Arc::new(loader), first, Ahead::default())) })
    }

    /// The same batch again and again: without the wait for data that a run has.
    pub fn repeated(batch: Batch) -> Self {
        Self { queue: Box::new(std::iter::repeat_with(move || Ok(batch.clone()))) }
    }

    /// The next batch.
    pub fn next_batch(&mut self) -> Result<Batch, DataError> {
        // Training batches have no end: the queue is empty only after an error that was already reported.
        let ended = || DataError::Transform {
            picture: "a training batch".to_owned(),
            cause: "no more batches are made after an error".to_owned(),
        };
        self.queue.next().unwrap_or_else(|| Err(ended()))
    }
}
