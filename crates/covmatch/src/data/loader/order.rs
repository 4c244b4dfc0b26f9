//! Which entries are in which batch.
//!
//! Epoch `e` is a shuffle (Fisher-Yates) drawn from the stream (purpose, e); batch `step` is the part of its epoch at
//! `step mod batches`. Only the latest epoch's shuffle is kept.

use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::Seed;

/// The order in which entries are visited: a function of (seed, purpose, step).
#[derive(Debug)]
pub struct Order {
    entries: u32,
    batch: usize,
    seed: Seed,
    purpose: String,
    latest: Mutex<Option<Epoch>>,
}

#[derive(Clone, Debug)]
struct Epoch {
    number: u64,
    shuffled: Arc<[u32]>,
}

impl Order {
    /// Batches of `batch` of the entries `0..entries`; none if there are too few for one batch.
    pub fn new(entries: usize, batch: usize, seed: Seed, purpose: &str) -> Option<Self> {
        let fits = batch > 0 && batch <= entries;
        let entries = u32::try_from(entries).ok().filter(|_| fits)?;
        Some(Self { entries, batch, seed, purpose: purpose.to_owned(), latest: Mutex::new(None) })
    }

    /// Batches of an epoch; what does not fill a batch is left out.
    pub fn batches_per_epoch(&self) -> u64 {
        (self.entries as usize / self.batch) as u64
    }

    /// The entries of batch `step`.
    pub fn entries(&self, step: u64) -> Vec<u32> {
        let batches = self.batches_per_epoch();
        let first = (step % batches) as usize * self.batch;
        self.shuffled(step / batches)[first..first + self.batch].to_vec()
    }

    fn shuffled(&self, epoch: u64) -> Arc<[u32]> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Epoch { shuffled, .. }) = latest.as_ref().filter(|latest| latest.number == epoch) {
            return Arc::clone(shuffled);
        }
        let shuffled: Arc<[u32]> = self.seed.stream(&self.purpose, epoch).shuffle(self.entries).into();
        *latest = Some(Epoch { number: epoch, shuffled: Arc::clone(&shuffled) });
        shuffled
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn order(entries: usize, batch: usize, seed: u64, purpose: &str) -> Order {
        Order::new(entries, batch, Seed(seed), purpose).unwrap()
    }

    #[test]
    fn an_epoch_visits_no_entry_twice_and_leaves_out_less_than_a_batch() {
        let order = order(103, 10, 5, "online");
        for epoch in 0..4 {
            let mut seen: Vec<u32> = (0..10).flat_map(|batch| order.entries(epoch * 10 + batch)).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 100);
            assert!(seen.iter().all(|&entry| entry < 103));
        }
    }

    #[test]
    fn a_step_is_the_same_whatever_was_asked_before() {
        let forward = order(50, 7, 1, "real");
        let steps: Vec<_> = (0..30).map(|step| forward.entries(step)).collect();
        let backward = order(50, 7, 1, "real");
        for step in (0..30).rev() {
            assert_eq!(backward.entries(step), steps[step as usize]);
        }
    }

    #[test]
    fn another_seed_purpose_or_epoch_is_another_order() {
        let base = order(1000, 100, 1, "real").entries(0);
        assert_ne!(base, order(1000, 100, 2, "real").entries(0));
        assert_ne!(base, order(1000, 100, 1, "online").entries(0));
        assert_ne!(base, order(1000, 100, 1, "real").entries(10));
    }

    #[test]
    fn every_entry_is_equally_likely_to_come_first() {
        let order = order(5, 1, 9, "uniform");
        let mut first = [0u32; 5];
        (0..5000).for_each(|epoch| first[order.entries(epoch * 5)[0] as usize] += 1);
        // 1000 each, standard deviation 28
        assert!(first.iter().all(|&count| (880..1120).contains(&count)), "{first:?}");
    }

    #[test]
    fn fewer_entries_than_a_batch_have_no_order() {
        assert!(Order::new(3, 4, Seed(0), "x").is_none());
        assert!(Order::new(3, 0, Seed(0), "x").is_none());
        assert!(Order::new(4, 4, Seed(0), "x").is_some());
    }
}
