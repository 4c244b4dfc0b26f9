//! Which parts of a range of addresses are free: best fit, with neighbours joined.
//!
//! A training step frees and asks for the same few hundred large buffers over and over. The smallest free piece that is
//! large enough, cut to size, keeps the range close to what is in use; size classes would round each buffer up and leave
//! what one phase frees unfit for the next.

use std::collections::{BTreeMap, BTreeSet};

/// Hands out pieces of the range from 0 to `end`.
#[derive(Debug)]
pub struct Heap {
    end: usize,
    /// From here on nothing was ever handed out.
    top: usize,
    /// Free pieces below `top`: start to size. No two are neighbours.
    by_start: BTreeMap<usize, usize>,
    /// The same as (size, start).
    by_size: BTreeSet<(usize, usize)>,
}

impl Heap {
    /// A range of which everything is free.
    pub const fn new(end: usize) -> Self {
        Self { end, top: 0, by_start: BTreeMap::new(), by_size: BTreeSet::new() }
    }

    /// The start of a piece of `size`, which is no longer free; none if the range is full.
    pub fn take(&mut self, size: usize) -> Option<usize> {
        let fit = self.by_size.range((size, 0)..).next().copied();
        if let Some((found, start)) = fit {
            self.remove(start, found);
            if found > size {
                self.insert(start + size, found - size);
            }
            return Some(start);
        }
        let last = self.by_start.last_key_value().filter(|(start, size)| *start + *size == self.top);
        let (start, found) = last.map_or((self.top, 0), |(start, size)| (*start, *size));
        let top = start.checked_add(size).filter(|top| *top <= self.end)?;
        if found > 0 {
            self.remove(start, found);
        }
        self.top = top;
        Some(start)
    }

    /// Frees a piece that was taken.
    pub fn give(&mut self, mut start: usize, mut size: usize) {
        if let Some((&before, &length)) = self.by_start.range(..start).next_back()
            && before + length == start
        {
            self.remove(before, length);
            (start, size) = (before, length + size);
        }
        if let Some(&length) = self.by_start.get(&(start + size)) {
            self.remove(start + size, length);
            size += length;
        }
        self.insert(start, size);
    }

    fn insert(&mut self, start: usize, size: usize) {
        self.by_start.insert(start, size);
        self.by_size.insert((size, start));
    }

    fn remove(&mut self, start: usize, size: usize) {
        self.by_start.remove(&start);
        self.by_size.remove(&(size, start));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_smallest_piece_that_is_large_enough_is_taken() {
        let mut heap = Heap::new(100);
        let pieces: Vec<usize> = [10, 1, 20, 1, 15, 1].into_iter().map(|size| heap.take(size).unwrap()).collect();
        assert_eq!(pieces, [0, 10, 11, 31, 32, 47]);
        for (start, size) in [(0, 10), (11, 20), (32, 15)] {
            heap.give(start, size);
        }
        assert_eq!(heap.take(12), Some(32));
        assert_eq!(heap.take(3), Some(44), "what is left of a piece is free");
    }

    #[test]
    fn neighbours_are_joined_and_the_last_free_piece_grows() {
        let mut heap = Heap::new(40);
        for _ in 0..3 {
            heap.take(10).unwrap();
        }
        heap.give(0, 10);
        heap.give(20, 10);
        heap.give(10, 10);
        assert_eq!(heap.take(40), Some(0), "the free 30 and 10 that were never used");
        assert_eq!(heap.take(1), None);
    }

    #[test]
    fn pieces_in_use_never_overlap() {
        let mut heap = Heap::new(5_000);
        let mut used: Vec<(usize, usize)> = Vec::new();
        let mut random = 88_172_645_463_325_252_u64;
        let mut refused = 0;
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let size = 1 + (random >> 20) as usize % 200;
            if random % 5 < 3 {
                match heap.take(size) {
                    Some(start) => {
                        assert!(start + size <= 5_000);
                        let apart =
                            |&(other, length): &(usize, usize)| start + size <= other || other + length <= start;
                        assert!(used.iter().all(apart), "{start} {size} {used:?}");
                        used.push((start, size));
                    }
                    None => refused += 1,
                }
            } else if !used.is_empty() {
                let (start, size) = used.swap_remove((random >> 8) as usize % used.len());
                heap.give(start, size);
            }
        }
        assert!(refused > 0, "the range was never full");
        used.into_iter().for_each(|(start, size)| heap.give(start, size));
        assert_eq!(heap.take(5_000), Some(0));
    }
}
