//! Kinks: where the slope of a layer jumps. ReLU has one at 0, ReLU6 another at 6, and a maximum wherever another pixel of
//! its window becomes the largest.
//!
//! A gradient jumps when a unit crosses a kink. The difference of two gradients at close points is then mostly these jumps:
//! with EfficientNet's ReLU6 the pixels' part of it has nothing in common with a second derivative. PyTorch's double backward
//! does not see them, as it differentiates the piece that every unit is on. [`Kinks::Hold`] does the same: every unit stays on
//! the piece that [`Kinks::Note`] found it on, wherever that puts its value, so that what the layers compute is as smooth as
//! those without kinks are.
//!
//! A forward pass is handed a [`Kinks`] and hands it to every layer that has one. Such layers exist here alone, as methods of
//! it: an encoder cannot compute one and forget to ask.
//!
//! ```text
//! Free   y = f(x)
//! Note   y = f(x)                                   the pattern gets y (a rectifier) or x (a maximum)
//! Hold   y = the piece of f that was noted, at x    the layers ask in the order in which they were noted
//! ```

use std::slice;

use burn::tensor::Tensor;
use covmatch_kernels as kernels;
use covmatch_kernels::Epilogue;

/// Which piece every unit of a network is on.
#[derive(Clone, Debug, Default)]
pub struct Pattern(Vec<Tensor<1>>);

impl Pattern {
    /// Holds a network, whose pattern this is, on it.
    pub fn held(&self) -> Kinks<'_> {
        Kinks::Hold(Pieces(self.0.iter()))
    }
}

/// What layers do at kinks.
#[derive(Debug)]
pub enum Kinks<'a> {
    /// A unit is on the piece that its own input says.
    Free,
    /// Likewise, and it is noted. The tensors are not in the graph of autodiff.
    Note(&'a mut Pattern),
    /// A unit is on the piece that was noted. The tensors are in the graph of autodiff.
    Hold(Pieces<'a>),
}

/// The pieces of a [`Pattern`] that no layer has asked for yet.
#[derive(Debug)]
pub struct Pieces<'a>(slice::Iter<'a, Tensor<1>>);

/// An activation that is straight but for its kinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rectifier {
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
}

impl Rectifier {
    fn epilogue(self) -> Epilogue {
        match self {
            Rectifier::Relu => Epilogue::Relu,
            Rectifier::Relu6 => Epilogue::Relu6,
        }
    }
}

impl Kinks<'_> {
    /// `rectifier` of what `compute` gives; `compute` applies the epilogue that it is told to.
    ///
    /// # Panics
    /// If the pattern that is held belongs to a network with fewer kinked layers.
    pub(crate) fn rectified<const D: usize>(
        &mut self,
        rectifier: Rectifier,
        compute: impl FnOnce(Epilogue) -> Tensor<D>,
    ) -> Tensor<D> {
        match self {
            Kinks::Hold(pieces) => {
                let x = compute(Epilogue::None);
                let at = pieces.next(x.dims());
                kernels::hold(x, at, rectifier.epilogue())
            }
            Kinks::Free | Kinks::Note(_) => {
                let y = compute(rectifier.epilogue());
                self.note(&y);
                y
            }
        }
    }

    /// `max(x, 0)`.
    pub(crate) fn relu<const D: usize>(&mut self, x: Tensor<D>) -> Tensor<D> {
        self.rectified(Rectifier::Relu, |epilogue| if epilogue == Epilogue::None { x } else { kernels::relu(x) })
    }

    /// Maxima of windows, see [`kernels::max_pool2d`].
    ///
    /// # Panics
    /// If the pattern that is held belongs to a network with fewer kinked layers.
    pub(crate) fn max_pool2d(&mut self, x: Tensor<4>, size: usize, stride: usize) -> Tensor<4> {
        match self {
            Kinks::Hold(pieces) => {
                let at = pieces.next(x.dims());
                kernels::max_pool2d_at(x, at, size, stride)
            }
            Kinks::Free | Kinks::Note(_) => {
                self.note(&x);
                kernels::max_pool2d(x, size, stride)
            }
        }
    }

    /// Notes `x`, from which the pieces follow, if notes are taken.
    fn note<const D: usize>(&mut self, x: &Tensor<D>) {
        if let Kinks::Note(Pattern(noted)) = self {
            noted.push(x.clone().reshape([x.shape().num_elements()]));
        }
    }
}

impl Pieces<'_> {
    /// Those of the next layer, whose units have the shape `dims`.
    fn next<const D: usize>(&mut self, dims: [usize; D]) -> Tensor<D> {
        match self.0.next() {
            Some(noted) => noted.clone().autodiff().reshape(dims),
            None => panic!("the pattern is that of a network with fewer kinked layers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn tensor(values: [f32; 5]) -> Tensor<1> {
        Tensor::from_floats(values, &Device::flex())
    }

    fn values(x: Tensor<1>) -> Vec<f32> {
        x.into_data().iter::<f32>().collect()
    }

    #[test]
    fn a_unit_stays_on_its_piece_wherever_its_input_goes() {
        let mut pattern = Pattern::default();
        let y = Kinks::Note(&mut pattern).relu(tensor([-2.0, -1.0, 0.0, 1.0, 2.0]));
        assert_eq!(values(y), [0.0, 0.0, 0.0, 1.0, 2.0]);
        let x = tensor([3.0, -3.0, 1.0, -4.0, 5.0]).autodiff().require_grad();
        let y = pattern.held().relu(x.clone());
        let gradients = (y.clone() * 2.0).sum().backward();
        assert_eq!(values(y.inner()), [0.0, 0.0, 0.0, -4.0, 5.0]);
        assert_eq!(x.grad(&gradients).map(values), Some(vec![0.0, 0.0, 0.0, 2.0, 2.0]));
    }

    #[test]
    fn the_pixel_that_was_the_largest_is_taken() {
        let device = Device::flex();
        let row = |values: [f32; 4]| Tensor::<1>::from_floats(values, &device).reshape([1, 1, 4, 1]);
        let mut pattern = Pattern::default();
        Kinks::Note(&mut pattern).max_pool2d(row([1.0, 2.0, 4.0, 3.0]), 2, 2);
        let x = row([5.0, -1.0, 0.0, 9.0]).autodiff().require_grad();
        let y = pattern.held().max_pool2d(x.clone(), 2, 2);
        let gradients = y.clone().sum().backward();
        assert_eq!(values(y.inner().reshape([2])), [-1.0, 0.0]);
        assert_eq!(x.grad(&gradients).map(|d| values(d.reshape([4]))), Some(vec![0.0, 1.0, 1.0, 0.0]));
    }

    #[test]
    fn layers_are_held_in_the_order_in_which_they_were_noted() {
        let mut pattern = Pattern::default();
        let mut note = Kinks::Note(&mut pattern);
        let below = note.relu(tensor([-1.0, 1.0, -1.0, 1.0, -1.0]));
        note.relu(below.sub_scalar(2.0));
        let mut held = pattern.held();
        let x = || tensor([1.0, 2.0, 3.0, 4.0, 5.0]).autodiff();
        assert_eq!(values(held.relu(x()).inner()), [0.0, 2.0, 0.0, 4.0, 0.0]);
        assert_eq!(values(held.relu(x()).inner()), [0.0; 5]);
    }

    #[test]
    #[should_panic(expected = "fewer kinked layers")]
    fn a_pattern_of_another_network_is_refused() {
        Pattern::default().held().relu(tensor([0.0; 5]).autodiff());
    }
}
