//! Joint features of train entries, for coreset selection.
//!
//! ```text
//! f = (h_v / |h_v|, h_l / |h_l|)        of an image and one of its captions
//! ```
//! An image's part is kept once, however many captions it has: memory grows with images and captions, not with their
//! product. Every joint feature has norm `sqrt(2)`.

use rayon::prelude::*;

/// Features of entries, each a caption with its image.
#[derive(Clone, Debug, PartialEq)]
pub struct JointFeatures {
    /// `[images, d_v]`, rows of norm 1.
    image: Rows,
    /// `[entries, d_l]`, rows of norm 1.
    text: Rows,
    /// The image of each entry.
    image_of: Vec<u32>,
}

/// A matrix by rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// Values, row by row.
    pub values: Vec<f32>,
    /// Values in a row.
    pub width: usize,
}

impl Rows {
    fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.width..(index + 1) * self.width]
    }

    fn len(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// The product with a vector.
    fn times(&self, vector: &[f64]) -> Vec<f64> {
        let dot = |row: &[f32]| row.iter().zip(vector).map(|(&x, y)| f64::from(x) * y).sum();
        self.values.par_chunks(self.width.max(1)).map(dot).collect()
    }

    /// Rows divided by their norms.
    fn normalized(mut self) -> Self {
        self.values.par_chunks_mut(self.width.max(1)).for_each(|row| {
            let norm = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt().max(1e-12);
            row.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
        });
        self
    }
}

/// A vector in the space of joint features.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Joint {
    image: Vec<f64>,
    text: Vec<f64>,
}

impl Joint {
    /// `self + factor * other`, in place.
    pub(crate) fn add(&mut self, factor: f64, other: &Joint) {
        let add = |a: &mut [f64], b: &[f64]| a.iter_mut().zip(b).for_each(|(a, b)| *a += factor * b);
        add(&mut self.image, &other.image);
        add(&mut self.text, &other.text);
    }
}

impl JointFeatures {
    /// Joint features of entries with `text` features, which belong to the images `image_of` with `image` features.
    pub fn new(image: Rows, text: Rows, image_of: Vec<u32>) -> Self {
        Self { image: image.normalized(), text: text.normalized(), image_of }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.image_of.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.image_of.is_empty()
    }

    /// The image of `entry`.
    pub(crate) fn image_of(&self, entry: usize) -> u32 {
        self.image_of[entry]
    }

    /// The feature of `entry`.
    pub(crate) fn entry(&self, entry: usize) -> Joint {
        let wide = |row: &[f32]| row.iter().map(|&x| f64::from(x)).collect();
        Joint { image: wide(self.image.row(self.image_of[entry] as usize)), text: wide(self.text.row(entry)) }
    }

    /// The mean over entries.
    pub(crate) fn mean(&self) -> Joint {
        let mut captions = vec![0.0; self.image.len()];
        self.image_of.iter().for_each(|&image| captions[image as usize] += 1.0);
        let ones = vec![1.0; self.text.len()];
        let n = self.len().max(1) as f64;
        Joint { image: weighted_mean(&self.image, &captions, n), text: weighted_mean(&self.text, &ones, n) }
    }

    /// The inner product of every entry with `vector`.
    pub(crate) fn times(&self, vector: &Joint) -> Vec<f64> {
        let (image, text) = (self.image.times(&vector.image), self.text.times(&vector.text));
        self.image_of.iter().zip(text).map(|(&of, text)| image[of as usize] + text).collect()
    }
}

fn weighted_mean(rows: &Rows, weights: &[f64], n: f64) -> Vec<f64> {
    let mut sum = vec![0.0; rows.width];
    for (row, weight) in rows.values.chunks(rows.width.max(1)).zip(weights) {
        sum.iter_mut().zip(row).for_each(|(sum, &x)| *sum += weight * f64::from(x) / n);
    }
    sum
}

/// Entries that may still be chosen: an image is taken once.
pub(crate) struct Free {
    taken: Vec<bool>,
}

impl Free {
    pub(crate) fn new(features: &JointFeatures) -> Self {
        Self { taken: vec![false; features.image.len()] }
    }

    /// The free entry with the highest score, the first among equals.
    pub(crate) fn best(&self, features: &JointFeatures, score: impl Fn(usize) -> f64) -> Option<usize> {
        let free = (0..features.len()).filter(|&entry| !self.taken[features.image_of(entry) as usize]);
        free.map(|entry| (entry, score(entry)))
            .reduce(|best, next| if next.1 > best.1 { next } else { best })
            .map(|(entry, _)| entry)
    }

    pub(crate) fn take(&mut self, features: &JointFeatures, entry: usize) {
        self.taken[features.image_of(entry) as usize] = true;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Eight images with one to three captions, features from a formula.
    pub fn features() -> JointFeatures {
        let image_of: Vec<u32> = vec![0, 0, 0, 1, 2, 2, 3, 4, 4, 4, 5, 6, 6, 7];
        let value = |i: usize| ((i as f32 + 1.0) * 12.9898).sin();
        let image = Rows { values: (0..8 * 5).map(value).collect(), width: 5 };
        let text = Rows { values: (100..100 + 14 * 4).map(value).collect(), width: 4 };
        JointFeatures::new(image, text, image_of)
    }

    /// The same as whole vectors, and the image of each.
    pub fn brute() -> (Vec<Vec<f64>>, Vec<u32>) {
        let features = features();
        let whole = |entry: usize| {
            let Joint { image, text } = features.entry(entry);
            [image, text].concat()
        };
        ((0..features.len()).map(whole).collect(), features.image_of.clone())
    }

    #[test]
    fn means_and_products_are_those_of_whole_vectors() {
        let (features, (all, _)) = (features(), brute());
        let Joint { image, text } = features.mean();
        let mean = [image, text].concat();
        for (j, mean) in mean.iter().enumerate() {
            let expected = all.iter().map(|f| f[j]).sum::<f64>() / all.len() as f64;
            assert!((mean - expected).abs() < 1e-9);
        }
        let products = features.times(&features.entry(3));
        for (product, f) in products.iter().zip(&all) {
            let expected: f64 = f.iter().zip(&all[3]).map(|(a, b)| a * b).sum();
            assert!((product - expected).abs() < 1e-6);
        }
        assert!(all.iter().all(|f| (f.iter().map(|x| x * x).sum::<f64>() - 2.0).abs() < 1e-5));
    }
}
