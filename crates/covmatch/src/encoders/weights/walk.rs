//! Walks over the parameters of a module: each with its key, whatever its rank.
//!
//! | walk        | does                                                                         |
//! |-------------|------------------------------------------------------------------------------|
//! | [`visit`]   | looks at every parameter                                                     |
//! | [`fill`]    | replaces the values of parameters, which stay trained or frozen as they were |
//! | [`advance`] | moves parameters in which it finds something, such as a gradient             |
//!
//! A closure cannot be generic over the rank of a tensor, so it sees a [`Parameter`], whose values are flat.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor, TensorData};

use super::keys::KeyPath;

/// A parameter, or a stored statistic, of any rank.
pub trait Parameter {
    /// Its shape, as PyTorch prints it. A parameter that is not initialised yet stays so.
    fn shape(&self) -> Vec<usize>;

    /// Whether autodiff tracks it.
    fn is_tracked(&self) -> bool;

    /// Its values, flat, outside of the graph of autodiff.
    fn values(&self) -> Tensor<1>;

    /// Its gradient, flat; none if it has none.
    fn gradient(&self, gradients: &Gradients) -> Option<Tensor<1>>;

    /// Its gradient, flat, which is removed from `gradients`; none if it has none.
    fn take_gradient(&self, gradients: &mut Gradients) -> Option<Tensor<1>>;
}

impl<const D: usize> Parameter for Param<Tensor<D>> {
    fn shape(&self) -> Vec<usize> {
        self.lazy_shape().to_vec()
    }

    fn is_tracked(&self) -> bool {
        self.base().is_require_grad()
    }

    fn values(&self) -> Tensor<1> {
        flat(self.base().inner())
    }

    fn gradient(&self, gradients: &Gradients) -> Option<Tensor<1>> {
        self.base().grad(gradients).map(flat)
    }

    fn take_gradient(&self, gradients: &mut Gradients) -> Option<Tensor<1>> {
        self.base().grad_remove(gradients).map(flat)
    }
}

fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    let count = tensor.shape().num_elements();
    tensor.reshape([count])
}

/// Shows `see` the key of every parameter and stored statistic of `module`, and the parameter, in the order of the fields.
pub fn visit<M: Module>(module: &M, see: impl FnMut(&str, &dyn Parameter)) {
    module.visit(&mut Visit { path: KeyPath::default(), see });
}

/// `module` with the values that `of` has for a key and a shape, row-major; a parameter for which it has none stays as it is.
pub(crate) fn fill<M: Module>(module: M, of: impl FnMut(&str, &[usize]) -> Option<Vec<f32>>) -> M {
    module.map(&mut Fill { path: KeyPath::default(), of })
}

/// `module` with every parameter in which `find` finds something at the point to which `step` brings it, tracked.
///
/// `step` is given the key, the flat values, which are its own if nothing else refers to the module, and what was found.
pub(crate) fn advance<M: Module, T>(
    module: M,
    find: impl FnMut(&dyn Parameter) -> Option<T>,
    step: impl FnMut(&str, Tensor<1>, T) -> Tensor<1>,
) -> M {
    module.map(&mut Advance { path: KeyPath::default(), find, step })
}

struct Visit<F> {
    path: KeyPath,
    see: F,
}

impl<F: FnMut(&str, &dyn Parameter)> ModuleVisitor for Visit<F> {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, container_type: &str) {
        self.path.exit(container_type);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        (self.see)(&self.path.key(), param);
    }
}

struct Fill<F> {
    path: KeyPath,
    of: F,
}

impl<F: FnMut(&str, &[usize]) -> Option<Vec<f32>>> ModuleMapper for Fill<F> {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, container_type: &str) {
        self.path.exit(container_type);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let shape = param.lazy_shape();
        let Some(values) = (self.of)(&self.path.key(), &shape) else { return param };
        let (tensor, id) = (Tensor::from_data(TensorData::new(values, shape), &param.lazy_device()), param.id);
        param.transform_for_load(tensor, id)
    }
}

struct Advance<F, S> {
    path: KeyPath,
    find: F,
    step: S,
}

impl<T, F, S> ModuleMapper for Advance<F, S>
where
    F: FnMut(&dyn Parameter) -> Option<T>,
    S: FnMut(&str, Tensor<1>, T) -> Tensor<1>,
{
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, container_type: &str) {
        self.path.exit(container_type);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(found) = (self.find)(&param) else { return param };
        let key = self.path.key();
        param.map(|value| {
            let shape = value.dims();
            (self.step)(&key, flat(value.inner()), found).reshape(shape).autodiff().require_grad()
        })
    }
}
