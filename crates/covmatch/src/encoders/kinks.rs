//! Kinks: where the slope of a layer jumps. ReLU has one at 0, ReLU6 another at 6, and a maximum wherever another pixel of
//! its window becomes the largest.
//!
//! A gradient jumps when a unit crosses a kink. The difference of two gradients at close points is then mostly these jumps:
//! with EfficientNet's ReLU6 the pixels' part of it has nothing in common with a second derivative. PyTorch's double backward
//! does not see them, as it differentiates the piece that every unit is on. [`hold`] does the same: the layers that `f` runs
//! keep every unit on the piece that [`note`] found it on, wherever that puts its value, so that what `f` computes is as
//! smooth as its other layers are.
//!
//! Layers ask what was said on their own thread. An encoder runs its layers on one thread and says what it wants of them
//! ([`free`], if nothing else), because that thread may take over another encoder's work while it waits.

use std::cell::RefCell;
use std::sync::Arc;

use burn::tensor::Tensor;
use covmatch_kernels as kernels;
use covmatch_kernels::Epilogue;

thread_local! {
    static SCOPE: RefCell<Scope> = const { RefCell::new(Scope::Free) };
}

/// Which piece every unit of a network is on.
#[derive(Clone, Debug, Default)]
pub struct Pattern(Arc<Vec<Tensor<1>>>);

/// What layers do at kinks.
enum Scope {
    /// A unit is on the piece that its own input says.
    Free,
    /// Likewise, and it is noted.
    Note(Vec<Tensor<1>>),
    /// A unit is on the piece that was noted; so many layers have asked for theirs.
    Hold(Pattern, usize),
}

/// Runs `f`, whose units are on the pieces that their inputs say.
pub fn free<R>(f: impl FnOnce() -> R) -> R {
    within(Scope::Free, f).0
}

/// Runs `f`, whose tensors are not in the graph of autodiff, and returns its result and the pieces that its units are on.
pub fn note<R>(f: impl FnOnce() -> R) -> (R, Pattern) {
    match within(Scope::Note(Vec::new()), f) {
        (result, Scope::Note(noted)) => (result, Pattern(Arc::new(noted))),
        (result, _) => (result, Pattern::default()),
    }
}

/// Runs `f`, whose tensors are in the graph of autodiff, with its units on the pieces of `pattern`.
///
/// # Panics
/// If `f` runs other layers than those whose pattern it is.
pub fn hold<R>(pattern: &Pattern, f: impl FnOnce() -> R) -> R {
    within(Scope::Hold(pattern.clone(), 0), f).0
}

/// Runs `f` in `scope`. Returns its result and what has become of the scope.
fn within<R>(scope: Scope, f: impl FnOnce() -> R) -> (R, Scope) {
    let outer = SCOPE.replace(scope);
    let result = f();
    (result, SCOPE.replace(outer))
}

/// `epilogue` of what `compute` gives without one.
pub(crate) fn activated<const D: usize>(epilogue: Epilogue, compute: impl FnOnce(Epilogue) -> Tensor<D>) -> Tensor<D> {
    if epilogue == Epilogue::None {
        return compute(epilogue);
    }
    match noted() {
        Some(at) => {
            let x = compute(Epilogue::None);
            let at = at.reshape(x.dims());
            kernels::hold(x, at, epilogue)
        }
        None => {
            let y = compute(epilogue);
            take_note(&y);
            y
        }
    }
}

/// `max(x, 0)`.
pub(crate) fn relu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activated(Epilogue::Relu, |epilogue| if epilogue == Epilogue::None { x } else { kernels::relu(x) })
}

/// Maxima of windows, see [`kernels::max_pool2d`].
pub(crate) fn max_pool2d(x: Tensor<4>, size: usize, stride: usize) -> Tensor<4> {
    match noted() {
        Some(at) => {
            let at = at.reshape(x.dims());
            kernels::max_pool2d_at(x, at, size, stride)
        }
        None => {
            take_note(&x);
            kernels::max_pool2d(x, size, stride)
        }
    }
}

/// What the next layer noted, if the pattern is held.
fn noted() -> Option<Tensor<1>> {
    let at = SCOPE.with_borrow_mut(|scope| {
        let Scope::Hold(Pattern(noted), next) = scope else { return None };
        assert!(*next < noted.len(), "the pattern is that of a network with {} kinked layers", noted.len());
        *next += 1;
        Some(noted[*next - 1].clone())
    });
    at.map(Tensor::autodiff)
}

/// Notes `x`, from which the pieces follow, if anyone takes notes.
fn take_note<const D: usize>(x: &Tensor<D>) {
    if !SCOPE.with_borrow(|scope| matches!(scope, Scope::Note(_))) {
        return;
    }
    let flat = x.clone().reshape([x.shape().num_elements()]);
    SCOPE.with_borrow_mut(|scope| {
        if let Scope::Note(noted) = scope {
            noted.push(flat);
        }
    });
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
        let (y, pattern) = note(|| relu(tensor([-2.0, -1.0, 0.0, 1.0, 2.0])));
        assert_eq!(values(y), [0.0, 0.0, 0.0, 1.0, 2.0]);
        let x = tensor([3.0, -3.0, 1.0, -4.0, 5.0]).autodiff().require_grad();
        let y = hold(&pattern, || relu(x.clone()));
        let gradients = (y.clone() * 2.0).sum().backward();
        assert_eq!(values(y.inner()), [0.0, 0.0, 0.0, -4.0, 5.0]);
        assert_eq!(x.grad(&gradients).map(values), Some(vec![0.0, 0.0, 0.0, 2.0, 2.0]));
    }

    #[test]
    fn the_pixel_that_was_the_largest_is_taken() {
        let device = Device::flex();
        let row = |values: [f32; 4]| Tensor::<1>::from_floats(values, &device).reshape([1, 1, 4, 1]);
        let (_, pattern) = note(|| max_pool2d(row([1.0, 2.0, 4.0, 3.0]), 2, 2));
        let x = row([5.0, -1.0, 0.0, 9.0]).autodiff().require_grad();
        let y = hold(&pattern, || max_pool2d(x.clone(), 2, 2));
        let gradients = y.clone().sum().backward();
        assert_eq!(values(y.inner().reshape([2])), [-1.0, 0.0]);
        assert_eq!(x.grad(&gradients).map(|d| values(d.reshape([4]))), Some(vec![0.0, 1.0, 1.0, 0.0]));
    }

    #[test]
    fn what_is_free_neither_notes_nor_holds_whatever_it_runs_in() {
        let x = || tensor([-1.0, 1.0, -1.0, 1.0, 0.0]);
        let (y, pattern) = note(|| free(|| relu(x())));
        assert!(pattern.0.is_empty());
        let held = hold(&pattern, || free(|| relu(x())));
        assert_eq!((values(y), values(held)), (vec![0.0, 1.0, 0.0, 1.0, 0.0], vec![0.0, 1.0, 0.0, 1.0, 0.0]));
    }
}
