//! Losses of a batch of pairs against a matrix of target similarities, as LoRS learns it.
//!
//! With logits `s_ij = cos(z_v_i, z_l_j) / tau`, targets `S` and `p = sigmoid(s)`:
//!
//! ```text
//! infonce       -1/(2n) sum_ij S_ij (log softmax_j(s_i.) + log softmax_i(s_.j))      S = I: plain InfoNCE
//! bce           mean_ij (-S_ij log p_ij - (1 - S_ij) log(1 - p_ij))
//! weighted-bce  l_ij = -S_ij log(p_ij + e) - (1 - S_ij) log(1 - p_ij + e),  e = 1e-6
//!               1/2 (mean of l over S_ij > 1/2 + mean of l over the others)
//! ```

use burn::tensor::activation::{log_sigmoid, log_softmax, sigmoid};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use super::info_nce::logits;
use crate::losses::cross_covariance::Features;

/// Added to probabilities and to counts in the weighted form.
const EPSILON: f32 = 1e-6;

/// A loss of pairs against target similarities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairLoss {
    /// Cross-entropy of both directions.
    #[serde(rename = "infonce")]
    InfoNce,
    /// Binary cross-entropy of all pairs of a picture and a caption.
    Bce,
    /// Binary cross-entropy in which similar and dissimilar pairs weigh the same.
    WeightedBce,
}

impl PairLoss {
    /// The loss of projected features `[n, z]` at temperature `tau` against `target` `[n, n]`; one element.
    pub fn of(self, z: Features, tau: f32, target: Tensor<2>) -> Tensor<1> {
        let logits = logits(z.image, z.text, tau);
        match self {
            PairLoss::InfoNce => info_nce(logits, target),
            PairLoss::Bce => bce(logits, target),
            PairLoss::WeightedBce => weighted_bce(logits, target),
        }
    }
}

/// The target in which every picture belongs to its own caption alone, `[n, n]`.
pub fn own_captions(n: usize, device: &Device) -> Tensor<2> {
    Tensor::eye(n, device)
}

fn info_nce(logits: Tensor<2>, target: Tensor<2>) -> Tensor<1> {
    let n = logits.dims()[0] as f32;
    let rows = log_softmax(logits.clone(), 1) * target.clone(); // captions of a picture
    let columns = log_softmax(logits.transpose(), 1) * target.transpose(); // pictures of a caption
    (rows.sum() + columns.sum()).div_scalar(-2.0 * n)
}

fn bce(logits: Tensor<2>, target: Tensor<2>) -> Tensor<1> {
    let (positive, negative) = (log_sigmoid(logits.clone()), log_sigmoid(logits.neg()));
    (target.clone() * positive + (target.neg().add_scalar(1.0)) * negative).mean().neg()
}

fn weighted_bce(logits: Tensor<2>, target: Tensor<2>) -> Tensor<1> {
    let p = sigmoid(logits);
    let similar = target.clone() * p.clone().add_scalar(EPSILON).log();
    let dissimilar = target.clone().neg().add_scalar(1.0) * p.neg().add_scalar(1.0 + EPSILON).log();
    let losses = (similar + dissimilar).neg(); // [n, n]
    let positive = target.detach().greater_elem(0.5).float();
    let mean_over = |chosen: Tensor<2>| {
        let count = chosen.clone().sum().add_scalar(EPSILON);
        (losses.clone() * chosen).sum() / count
    };
    (mean_over(positive.clone()) + mean_over(positive.neg().add_scalar(1.0))).div_scalar(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::losses;

    fn features() -> Features {
        let device = Device::flex();
        Features {
            image: Tensor::from_floats([[1.0, 0.2, -0.3], [0.3, -1.0, 0.8], [0.5, 0.4, 0.1]], &device),
            text: Tensor::from_floats([[0.1, 0.9, 0.4], [-0.7, 0.2, 0.5], [0.6, 0.6, -0.2]], &device),
        }
    }

    fn of(loss: PairLoss, target: Tensor<2>) -> f32 {
        loss.of(features(), 0.3, target).into_scalar::<f32>()
    }

    /// Cosines over the temperature, in f64.
    fn reference_logits() -> [[f64; 3]; 3] {
        let rows = |t: Tensor<2>| -> Vec<Vec<f64>> {
            let values: Vec<f64> = t.into_data().iter::<f32>().map(f64::from).collect();
            let unit = |row: &[f64]| {
                let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
                row.iter().map(|x| x / norm).collect()
            };
            values.chunks(3).map(unit).collect()
        };
        let Features { image, text } = features();
        let (image, text) = (rows(image), rows(text));
        let cosine = |i: usize, j: usize| image[i].iter().zip(&text[j]).map(|(a, b)| a * b).sum::<f64>();
        std::array::from_fn(|i| std::array::from_fn(|j| cosine(i, j) / 0.3))
    }

    #[test]
    fn with_own_captions_infonce_is_plain_infonce() {
        let Features { image, text } = features();
        let plain = losses::info_nce(image, text, 0.3).into_scalar::<f32>();
        assert!((of(PairLoss::InfoNce, own_captions(3, &Device::flex())) - plain).abs() < 1e-6);
    }

    /// A target that is not symmetric.
    const TARGET: [[f64; 3]; 3] = [[1.2, 0.1, -0.2], [0.4, 0.8, 0.6], [0.0, 0.3, 0.9]];

    #[test]
    fn infonce_weighs_each_picture_and_caption_as_the_target_says() {
        let tensor = Tensor::from_floats(TARGET.map(|row: [f64; 3]| row.map(|s| s as f32)), &Device::flex());
        let logits = reference_logits();
        let mut loss = 0.0;
        for (i, row) in TARGET.iter().enumerate() {
            for (j, s) in row.iter().enumerate() {
                let captions: f64 = (0..3).map(|other| logits[i][other].exp()).sum();
                let pictures: f64 = (0..3).map(|other| logits[other][j].exp()).sum();
                loss -= s * (2.0 * logits[i][j] - captions.ln() - pictures.ln()) / 6.0;
            }
        }
        assert!((f64::from(of(PairLoss::InfoNce, tensor)) - loss).abs() < 1e-5);
    }

    #[test]
    fn binary_losses_are_their_formulas() {
        let target = TARGET;
        let tensor = Tensor::from_floats(target.map(|row: [f64; 3]| row.map(|s| s as f32)), &Device::flex());
        let logits = reference_logits();
        let (mut plain, mut similar, mut others) = (0.0, (0.0, 0.0), (0.0, 0.0));
        for (i, row) in target.iter().enumerate() {
            for (j, s) in row.iter().enumerate() {
                let p = 1.0 / (1.0 + (-logits[i][j]).exp());
                plain += -s * p.ln() - (1.0 - s) * (1.0 - p).ln();
                let part = if *s > 0.5 { &mut similar } else { &mut others };
                part.0 += -s * (p + 1e-6).ln() - (1.0 - s) * (1.0 - p + 1e-6).ln();
                part.1 += 1.0;
            }
        }
        let weighted = 0.5 * (similar.0 / similar.1 + others.0 / others.1);
        assert!((f64::from(of(PairLoss::Bce, tensor.clone())) - plain / 9.0).abs() < 1e-5);
        assert!((f64::from(of(PairLoss::WeightedBce, tensor)) - weighted).abs() < 1e-5);
    }
}
