//! Forgetting: entries that a model learns and then forgets least often (Toneva et al. 2019).
//!
//! ```text
//! correct(i, e)  entry i is the most similar one of its batch, from image to caption and back, in epoch e
//! forgotten(i)   = number of epochs with correct(i, e - 1) and not correct(i, e)
//! order          = ascending in (never correct, forgotten, i)
//! ```
//! Entries that were never learned come last, however seldom they were forgotten. An image is taken once.

use std::collections::HashSet;

use super::{Choose, EpochDone, Method, MethodError, Selects, Work, coreset, selection};
use crate::experiment::Experiment;
use crate::losses::info_nce::logits;
use crate::model::Seen;

/// The entry of Forgetting.
pub fn method() -> Method {
    let choose: Choose = least_forgotten;
    let selects = Selects { choose, epochs: |config| config.select.forgetting_epochs, once_an_image: true };
    let method = Method::selects("forgetting", "Forgetting", choose).with_sections(&["select"]);
    Method { work: Work::Selects(selects), ..method }
}

/// The captions of the train entries that a model in training forgets least.
fn least_forgotten(experiment: &Experiment, progress: &mut dyn FnMut(EpochDone)) -> Result<Vec<u32>, MethodError> {
    let (config, captions) = (&experiment.config, experiment.dataset.train_entries());
    let mut memory = Forgetting::new(captions.len());
    let mut watch = |seen: &Seen| {
        let logits = logits(seen.z.image.clone(), seen.z.text.clone(), config.head.tau);
        let logits: Vec<f32> = logits.into_data().iter::<f32>().collect();
        for (caption, hit) in seen.captions.iter().zip(hits(&logits, seen.captions.len())) {
            let entry = captions.binary_search(caption); // captions are in ascending order
            entry.into_iter().for_each(|entry| memory.see(entry, hit));
        }
    };
    coreset::warm_up(experiment, config.select.forgetting_epochs, &mut watch, progress)?;
    let image = |&caption: &u32| experiment.dataset.captions[caption as usize].image;
    let image_of: Vec<u32> = captions.iter().map(image).collect();
    selection::captions_of(experiment, &memory.choose(&image_of, config.distill.pairs))
}

/// What a model remembered of each entry so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgetting {
    entries: Vec<Memory>,
}

/// What a model remembered of one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Memory {
    /// When it was last seen.
    correct: bool,
    /// At any time.
    learned: bool,
    /// Times that it was correct and at the next sight was not.
    forgotten: u32,
}

impl Forgetting {
    /// `entries` entries that have not been seen.
    pub fn new(entries: usize) -> Self {
        Self { entries: vec![Memory::default(); entries] }
    }

    /// Records that `entry` was seen, and whether it was correct.
    pub fn see(&mut self, entry: usize, correct: bool) {
        let memory = &mut self.entries[entry];
        memory.forgotten += u32::from(memory.correct && !correct);
        memory.learned |= correct;
        memory.correct = correct;
    }

    /// All entries, those that are best remembered first; among equals in their own order.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|&entry| (!self.entries[entry].learned, self.entries[entry].forgotten));
        order
    }

    /// The first `count` entries of the order, or as many as there are images; `image_of` has the image of each entry.
    pub fn choose(&self, image_of: &[u32], count: usize) -> Vec<usize> {
        let mut taken = HashSet::new();
        self.order().into_iter().filter(|&entry| taken.insert(image_of[entry])).take(count).collect()
    }
}

/// Which of `n` pairs with similarities `logits` `[n, n]` are more similar than every other pair of their row and of
/// their column. A tie is no hit.
pub fn hits(logits: &[f32], n: usize) -> Vec<bool> {
    let at = |row: usize, column: usize| logits[row * n + column];
    let hit = |i: usize| (0..n).filter(|&j| j != i).all(|j| at(i, i) > at(i, j) && at(i, i) > at(j, i));
    (0..n).map(hit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five entries over four epochs, worked out by hand:
    ///
    /// ```text
    /// entry  epochs 1 2 3 4   learned  forgotten
    /// 0             - - - -   no       0
    /// 1             + - + -   yes      2
    /// 2             - + + +   yes      0
    /// 3             + + + -   yes      1
    /// 4             + + + +   yes      0
    /// ```
    fn worked_out() -> Forgetting {
        let mut forgetting = Forgetting::new(5);
        for epoch in ["-+-++", "--+++", "-++++", "--+-+"] {
            for (entry, sign) in epoch.chars().enumerate() {
                forgetting.see(entry, sign == '+');
            }
        }
        forgetting
    }

    #[test]
    fn entries_are_ordered_as_worked_out_by_hand() {
        assert_eq!(worked_out().order(), [2, 4, 3, 1, 0]);
    }

    #[test]
    fn an_image_is_taken_once_and_the_end_is_no_error() {
        assert_eq!(worked_out().choose(&[0, 0, 1, 2, 1], 3), [2, 3, 1]);
        assert_eq!(worked_out().choose(&[0, 0, 1, 2, 1], 1), [2]);
        assert_eq!(worked_out().choose(&[0, 0, 1, 2, 1], 9), [2, 3, 1]);
    }

    #[test]
    fn an_entry_that_was_never_seen_counts_as_never_learned() {
        let mut forgetting = Forgetting::new(3);
        for correct in [true, false, true, false] {
            forgetting.see(2, correct);
        }
        assert_eq!(forgetting.order(), [2, 0, 1]);
    }

    #[test]
    fn a_hit_is_the_best_of_its_row_and_of_its_column() {
        let logits = [
            5.0, 1.0, 0.0, 2.0, // best of row and column
            1.0, 3.0, 3.0, 0.0, // a tie in the row
            0.0, 1.0, 4.0, 6.0, // not the best of its row
            1.0, 0.0, 0.0, 5.0, // best of its row, not of its column
        ];
        assert_eq!(hits(&logits, 4), [true, false, false, false]);
        assert_eq!(hits(&[0.5], 1), [true]);
    }
}
