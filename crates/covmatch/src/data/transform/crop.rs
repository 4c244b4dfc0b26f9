//! The random part of torchvision's `RandomResizedCrop`.
//!
//! The area is uniform in [`SCALE`] of the picture's, the logarithm of width / height uniform in that of [`RATIO`], the
//! place uniform; after [`TRIES`] boxes that do not fit, the largest central box whose ratio is allowed.

/// Part of the area of the picture that is kept.
const SCALE: (f64, f64) = (0.5, 1.0);
/// Width / height of the box.
const RATIO: (f64, f64) = (3.0 / 4.0, 4.0 / 3.0);
const TRIES: usize = 10;

/// A part of a picture, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crop {
    /// First column.
    pub left: usize,
    /// First row.
    pub top: usize,
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl Crop {
    /// All of a picture of `width` x `height` pixels.
    pub fn whole(width: usize, height: usize) -> Self {
        Self { left: 0, top: 0, width, height }
    }

    /// A random box of a picture of `width` x `height` pixels; `uniform` gives numbers in `[0, 1)`.
    pub fn draw(width: usize, height: usize, mut uniform: impl FnMut() -> f64) -> Self {
        let area = (width * height) as f64;
        for _ in 0..TRIES {
            let target = area * between(SCALE.0, SCALE.1, uniform());
            let ratio = between(RATIO.0.ln(), RATIO.1.ln(), uniform()).exp();
            let (w, h) = (rounded((target * ratio).sqrt()), rounded((target / ratio).sqrt()));
            if (1..=width).contains(&w) && (1..=height).contains(&h) {
                let top = index(height - h + 1, uniform());
                let left = index(width - w + 1, uniform());
                return Self { left, top, width: w, height: h };
            }
        }
        Self::central(width, height)
    }

    fn central(width: usize, height: usize) -> Self {
        let ratio = width as f64 / height as f64;
        let (w, h) = if ratio < RATIO.0 {
            (width, rounded(width as f64 / RATIO.0))
        } else if ratio > RATIO.1 {
            (rounded(height as f64 * RATIO.1), height)
        } else {
            (width, height)
        };
        Self { left: (width - w) / 2, top: (height - h) / 2, width: w, height: h }
    }
}

fn between(low: f64, high: f64, u: f64) -> f64 {
    low + (high - low) * u
}

/// To the nearest integer, halves to the even one, as Python rounds.
fn rounded(x: f64) -> usize {
    x.round_ties_even() as usize
}

/// One of `0..n`.
fn index(n: usize, u: f64) -> usize {
    ((n as f64 * u) as usize).min(n - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Seed;

    #[test]
    fn every_box_lies_in_its_picture() {
        let mut stream = Seed(1).stream("crop", 0);
        for (width, height) in [(1, 1), (1, 500), (500, 1), (2, 3), (500, 375), (128, 128)] {
            for _ in 0..500 {
                let Crop { left, top, width: w, height: h } = Crop::draw(width, height, || f64::from(stream.uniform()));
                assert!(w >= 1 && h >= 1 && left + w <= width && top + h <= height);
            }
        }
    }

    #[test]
    fn boxes_keep_half_to_all_of_the_area_and_spread_over_the_picture() {
        let mut stream = Seed(2).stream("crop", 0);
        let crops: Vec<_> = (0..2000).map(|_| Crop::draw(400, 400, || f64::from(stream.uniform()))).collect();
        let areas = crops.iter().map(|crop| (crop.width * crop.height) as f64 / 160_000.0);
        assert!(areas.clone().all(|area| (0.49..=1.0).contains(&area)));
        // A box of area s fits a square when |ln ratio| <= -ln s, so the density of s is min(1, -ln s / ln(4/3)), up to
        // a factor; its mean over 0.5..1 is 0.6916.
        assert!((areas.sum::<f64>() / 2000.0 - 0.6916).abs() < 0.012, "boxes that do not fit are drawn again");
        assert!(crops.iter().any(|crop| crop.left == 0) && crops.iter().any(|crop| crop.left > 80));
    }
}
