//! Recall at 1, 5 and 10, from images to captions and back: a function of a similarity matrix and a list of owners.
//!
//! ```text
//! TR@K  percent of images whose best own caption is among the K most similar captions
//! IR@K  percent of captions whose image is among the K most similar images
//! Avg   mean of the six
//! ```
//! A wrong candidate that is as similar as the right one is ranked before it: a tie never counts as a hit. An image may
//! have any number of captions. The matrix is made a block of rows at a time and never kept.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The `K` of `R@K`.
pub const RANKS: [usize; 3] = [1, 5, 10];

/// Rows of similarity that are in memory at a time.
const BLOCK: usize = 256;

/// Recalls in percent, at 1, 5 and 10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recalls {
    /// Images found by captions.
    pub ir: [f64; 3],
    /// Captions found by images.
    pub tr: [f64; 3],
}

impl Recalls {
    /// The names of [`Recalls::values`].
    pub const NAMES: [&'static str; 7] = ["IR@1", "IR@5", "IR@10", "TR@1", "TR@5", "TR@10", "Avg"];

    /// The mean of the six recalls.
    pub fn avg(&self) -> f64 {
        self.ir.iter().chain(&self.tr).sum::<f64>() / 6.0
    }

    /// The six recalls and their mean.
    pub fn values(&self) -> [f64; 7] {
        let ([a, b, c], [d, e, f]) = (self.ir, self.tr);
        [a, b, c, d, e, f, self.avg()]
    }

    /// From how many wrong candidates stand before each right one.
    fn from_ranks(image_ranks: &[u32], caption_ranks: &[u32]) -> Self {
        let percent = |ranks: &[u32], k: usize| {
            let hits = ranks.iter().filter(|&&rank| (rank as usize) < k).count();
            100.0 * hits as f64 / ranks.len().max(1) as f64
        };
        Self { ir: RANKS.map(|k| percent(caption_ranks, k)), tr: RANKS.map(|k| percent(image_ranks, k)) }
    }
}

/// Mean and standard deviation over repetitions, of the six recalls and their mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Means, in the order of [`Recalls::NAMES`].
    pub mean: [f64; 7],
    /// Sample standard deviations (divided by `n - 1`); none for a single repetition.
    pub std: Option<[f64; 7]>,
}

impl Spread {
    /// That of `runs`; none without any.
    pub fn of(runs: &[Recalls]) -> Option<Self> {
        let n = runs.len() as f64;
        let sum = |f: &dyn Fn(&[f64; 7]) -> [f64; 7]| {
            runs.iter().map(|run| f(&run.values())).fold([0.0; 7], |a, b| std::array::from_fn(|i| a[i] + b[i]))
        };
        let mean = sum(&|values| *values).map(|total| total / n);
        let squares = sum(&|values| std::array::from_fn(|i| (values[i] - mean[i]).powi(2)));
        let std = (runs.len() > 1).then(|| squares.map(|total| (total / (n - 1.0)).sqrt()));
        (!runs.is_empty()).then_some(Self { mean, std })
    }
}

/// The recalls of `images` images and as many captions as `owners` has, each with the image that it belongs to.
///
/// `similarity(rows)` gives the similarities of a range of images to all captions, row by row; it is asked for each
/// row twice and must answer the same.
pub fn recalls(images: usize, owners: &[u32], similarity: impl Fn(Range<usize>) -> Vec<f32>) -> Recalls {
    let captions = owners.len();
    let blocks = || (0..images).step_by(BLOCK).map(|first| first..images.min(first + BLOCK));

    // The similarity of every caption to its own image, and of every image to its best own caption.
    let mut own = vec![f32::NAN; captions];
    let mut best = vec![f32::NEG_INFINITY; images];
    for rows in blocks() {
        let block = similarity(rows.clone());
        for (caption, &owner) in owners.iter().enumerate().filter(|(_, owner)| rows.contains(&(**owner as usize))) {
            own[caption] = block[(owner as usize - rows.start) * captions + caption];
            best[owner as usize] = best[owner as usize].max(own[caption]);
        }
    }

    let mut image_ranks = vec![0; images];
    let mut caption_ranks = vec![0; captions];
    for rows in blocks() {
        let block = similarity(rows.clone());
        image_ranks[rows.clone()].par_iter_mut().enumerate().for_each(|(row, rank)| {
            let (image, scores) = (rows.start + row, &block[row * captions..(row + 1) * captions]);
            let wrong = scores.iter().zip(owners).filter(|(_, owner)| **owner as usize != image);
            *rank = wrong.filter(|(score, _)| stands_before(**score, best[image])).count() as u32;
        });
        caption_ranks.par_iter_mut().enumerate().for_each(|(caption, rank)| {
            let wrong = rows.clone().filter(|&image| image != owners[caption] as usize);
            let score = |image: usize| block[(image - rows.start) * captions + caption];
            *rank += wrong.filter(|&image| stands_before(score(image), own[caption])).count() as u32;
        });
    }
    Recalls::from_ranks(&image_ranks, &caption_ranks)
}

/// Whether a wrong candidate with similarity `wrong` is ranked before the right one; so is what cannot be compared.
fn stands_before(wrong: f32, right: f32) -> bool {
    wrong.partial_cmp(&right) != Some(std::cmp::Ordering::Less)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn of_matrix(matrix: &[Vec<f32>], owners: &[u32]) -> Recalls {
        recalls(matrix.len(), owners, |rows| matrix[rows].concat())
    }

    /// Sorts every row and column, the wrong candidates first among equals, and looks for the right one.
    fn brute_force(matrix: &[Vec<f32>], owners: &[u32]) -> Recalls {
        let position = |mut candidates: Vec<(f32, bool)>| {
            candidates.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap().then(a.1.cmp(&b.1)));
            candidates
                .iter()
                .position(|(_, right)| *right)
                .map_or(usize::MAX, |p| candidates[..p].iter().filter(|(_, right)| !right).count())
        };
        let tr: Vec<usize> = (0..matrix.len())
            .map(|i| position(owners.iter().enumerate().map(|(c, &o)| (matrix[i][c], o as usize == i)).collect()))
            .collect();
        let ir: Vec<usize> = owners
            .iter()
            .enumerate()
            .map(|(c, &o)| position((0..matrix.len()).map(|i| (matrix[i][c], o as usize == i)).collect()))
            .collect();
        let share = |ranks: &[usize], k| 100.0 * ranks.iter().filter(|&&r| r < k).count() as f64 / ranks.len() as f64;
        Recalls { ir: RANKS.map(|k| share(&ir, k)), tr: RANKS.map(|k| share(&tr, k)) }
    }

    proptest! {
        #[test]
        fn recalls_equal_a_brute_force_count(
            images in 1usize..40,
            captions_of in proptest::collection::vec(1u32..5, 40),
            levels in 2u32..60,
            seed in 0u64..1000,
        ) {
            let owners: Vec<u32> = (0..images as u32).flat_map(|i| vec![i; captions_of[i as usize] as usize]).collect();
            let mut stream = crate::engine::Seed(seed).stream("scores", 0);
            let mut score = || (stream.below(u64::from(levels))) as f32; // few levels: many ties
            let matrix: Vec<Vec<f32>> = (0..images).map(|_| owners.iter().map(|_| score()).collect()).collect();
            prop_assert_eq!(of_matrix(&matrix, &owners), brute_force(&matrix, &owners));
        }
    }

    #[test]
    fn a_matrix_without_information_has_no_hit() {
        let matrix = vec![vec![0.5; 40]; 20];
        let owners: Vec<u32> = (0..40).map(|c| c / 2).collect();
        assert_eq!(of_matrix(&matrix, &owners), Recalls::default());
        let nan = vec![vec![f32::NAN; 40]; 20];
        assert_eq!(of_matrix(&nan, &owners), Recalls::default());
    }

    #[test]
    fn an_own_caption_does_not_stand_in_the_way_of_another() {
        // Both captions of image 0 come before those of image 1, whose best is then third for image 0, first for itself.
        let matrix = vec![vec![0.9, 0.8, 0.1], vec![0.2, 0.1, 0.7]];
        let recalls = of_matrix(&matrix, &[0, 0, 1]);
        assert_eq!((recalls.ir[0], recalls.tr[0], recalls.avg()), (100.0, 100.0, 100.0));
    }

    #[test]
    fn many_blocks_give_what_one_gives() {
        let (images, mut stream) = (3 * BLOCK + 17, crate::engine::Seed(3).stream("scores", 0));
        let owners: Vec<u32> = (0..images as u32).collect();
        let matrix: Vec<Vec<f32>> = (0..images)
            .map(|i| (0..images).map(|c| stream.uniform() + f32::from(u8::from(i == c))).collect())
            .collect();
        let recalls = of_matrix(&matrix, &owners);
        assert_eq!(recalls, brute_force(&matrix, &owners));
        assert!(recalls.avg() > 50.0);
    }

    #[test]
    fn the_spread_of_two_runs_follows_the_formula() {
        let run = |x: f64| Recalls { ir: [x; 3], tr: [x; 3] };
        let spread = Spread::of(&[run(1.0), run(3.0)]).unwrap();
        assert_eq!(spread.mean, [2.0; 7]);
        assert_eq!(spread.std.unwrap(), [2f64.sqrt(); 7]);
        assert_eq!(Spread::of(&[run(1.0)]).unwrap().std, None);
        assert_eq!(Spread::of(&[]), None);
    }
}
