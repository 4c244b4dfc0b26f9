//! Matching of a modality's mean after its projection head.
//!
//! ```text
//! L_feat = || mean_i z_i^T - mean_j z_j^S ||^2          T: real, S: synthetic; z unnormalised; a sum over dimensions
//! ```

use burn::tensor::Tensor;

/// `L_feat` of the synthetic `z` `[n, d]` against the real mean `[1, d]`; a tensor of one element.
pub fn feature_loss(real_mean: Tensor<2>, z: Tensor<2>) -> Tensor<1> {
    (real_mean - z.mean_dim(0)).powi_scalar(2).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn only_the_means_are_compared() {
        let device = Device::flex();
        let z = Tensor::<2>::from_floats([[1.0, 0.0], [3.0, 4.0]], &device); // mean (2, 2)
        let loss = |mean: [[f32; 2]; 1]| {
            let loss = feature_loss(Tensor::from_floats(mean, &device), z.clone());
            loss.into_data().iter::<f32>().next().unwrap()
        };
        assert_eq!(loss([[2.0, 2.0]]), 0.0);
        assert_eq!(loss([[5.0, -2.0]]), 25.0);
    }
}
