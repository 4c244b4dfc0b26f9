//! Batches made ahead of their use.
//!
//! One thread makes the batches in order and hands them over through a queue of bounded length; within a batch its
//! helpers share the pictures. At most [`Ahead::batches`] batches are finished or being made, so memory does not grow
//! with the number of threads.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::data::DataError;

/// Something that makes batch number `step`.
pub trait Batches: Send + Sync + 'static {
    /// What it makes.
    type Batch: Send + 'static;

    /// Batch `step`, made by `threads` threads.
    fn batch(&self, step: u64, threads: usize) -> Result<Self::Batch, DataError>;

    /// Number of batches; none if there is no end.
    fn len(&self) -> Option<u64>;

    /// Whether there is no batch at all.
    fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }
}

/// How far and with what batches are made ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Threads that prepare pictures.
    pub threads: usize,
    /// Batches that are finished or being made before they are used.
    pub batches: usize,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { threads: thread::available_parallelism().map_or(1, usize::from), batches: 2 }
    }
}

/// Batches in order, made ahead. After an error there are no more.
#[derive(Debug)]
pub struct Prefetch<B> {
    queue: Option<Receiver<Result<B, DataError>>>,
    maker: Option<JoinHandle<()>>,
}

impl<B: Send + 'static> Prefetch<B> {
    /// The batches of `source` from `first` on.
    pub fn new<S: Batches<Batch = B>>(source: Arc<S>, first: u64, ahead: Ahead) -> Self {
        let (sender, queue) = sync_channel(ahead.batches.max(1) - 1);
        let maker = thread::spawn(move || make(&*source, first, ahead.threads, &sender));
        Self { queue: Some(queue), maker: Some(maker) }
    }
}

fn make<S: Batches>(source: &S, first: u64, threads: usize, queue: &SyncSender<Result<S::Batch, DataError>>) {
    for step in first..source.len().unwrap_or(u64::MAX) {
        let batch = source.batch(step, threads);
        let failed = batch.is_err();
        if queue.send(batch).is_err() || failed {
            return;
        }
    }
}

impl<B> Iterator for Prefetch<B> {
    type Item = Result<B, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.queue.as_ref().and_then(|queue| queue.recv().ok());
        if next.is_none() {
            self.finish();
        }
        next
    }
}

impl<B> Prefetch<B> {
    /// Ends the maker; a panic of it goes on here.
    fn finish(&mut self) {
        self.queue = None;
        let ended = self.maker.take().map(JoinHandle::join);
        if let Some(Err(panic)) = ended.filter(|_| !thread::panicking()) {
            std::panic::resume_unwind(panic);
        }
    }
}

impl<B> Drop for Prefetch<B> {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(maker) = self.maker.take() {
            // A panic of the maker is of no interest to someone who wants no more batches.
            drop(maker.join());
        }
    }
}
