//! Gradients that change what they move by a part of its size at most, momentum apart.
//!
//! Gradients through all steps of a student are products of `1 - eta H` over the steps: where `eta H` is above 2 they can be
//! a thousand times as long for one student as for the last, and a single step along one of those loses the pairs.

use burn::tensor::Tensor;

use crate::methods::rms;

/// `gradient`, shortened where a step along it at rate `lr` would change `values` by more than `most` of their size.
pub(super) fn bounded<const D: usize>(gradient: Tensor<D>, values: &Tensor<D>, lr: f32, most: f32) -> Tensor<D> {
    if most.is_infinite() {
        return gradient;
    }
    let (change, limit) = (lr * rms(gradient.clone()), most * rms(values.clone()));
    if change > limit { gradient * (limit / change) } else { gradient }
}

/// The slope of a learned rate `eta`, likewise: a step at rate `lr` changes it by at most `most` of itself.
pub(super) fn bounded_slope(slope: f32, eta: f32, lr: f32, most: f32) -> f32 {
    if lr * slope.abs() > most * eta { slope.signum() * most * eta / lr } else { slope }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData};

    #[test]
    fn a_gradient_is_shortened_to_the_most_that_it_may_change_and_keeps_its_direction() {
        let tensor = |values: [f32; 2]| Tensor::<1>::from_data(TensorData::new(values.to_vec(), [2]), &Device::flex());
        let values = tensor([3.0, 4.0]);
        let shortened = |gradient: [f32; 2], most: f32| -> Vec<f32> {
            bounded(tensor(gradient), &values, 0.5, most).into_data().iter::<f32>().collect()
        };
        assert_eq!(shortened([0.3, -0.4], 0.1), [0.3, -0.4]); // half of it is a twentieth of the values
        let long = shortened([30.0, -40.0], 0.1);
        assert!((long[0] - 0.6).abs() < 1e-6 && (long[1] + 0.8).abs() < 1e-6, "{long:?}"); // half of it is a tenth
        assert_eq!(shortened([30.0, -40.0], f32::INFINITY), [30.0, -40.0]);
    }

    #[test]
    fn a_rate_is_changed_by_a_part_of_itself_at_most() {
        assert_eq!(bounded_slope(0.1, 0.02, 0.01, 0.1), 0.1);
        assert!((bounded_slope(5.0, 0.02, 0.01, 0.1) - 0.2).abs() < 1e-6);
        assert!((bounded_slope(-5.0, 0.02, 0.01, 0.1) + 0.2).abs() < 1e-6);
        assert_eq!(bounded_slope(-5.0, 0.02, 0.01, f32::INFINITY), -5.0);
        assert_eq!(bounded_slope(-5.0, 0.02, 0.0, 0.1), -5.0);
    }
}
