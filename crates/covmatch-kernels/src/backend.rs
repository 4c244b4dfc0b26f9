//! Where a call runs: our kernels on Flex, or burn's own operations everywhere else.

use std::cell::Cell;

use burn::backend::{Flex, tensor::FloatTensor};
use burn::tensor::{Device, Tensor, TensorData};

thread_local! {
    static PLAIN: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with every operation of this crate expressed in burn's own operations, on this thread.
///
/// The results agree with the kernels to rounding; only speed and memory differ.
pub fn plain_ops<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            PLAIN.set(self.0);
        }
    }
    let _restore = Restore(PLAIN.replace(true));
    f()
}

/// Whether a call on `x` runs our kernels: `x` lives on Flex and no [`plain_ops`] scope is open.
pub(crate) fn use_kernels<const D: usize>(x: &Tensor<D>) -> bool {
    runs_kernels(&x.device())
}

/// Whether calls on tensors of `device` run our kernels.
pub(crate) fn runs_kernels(device: &Device) -> bool {
    // Device equality ignores whether autodiff is on.
    !PLAIN.get() && *device == Device::flex()
}

/// A tensor as the Flex backend holds it.
pub(crate) type FlexTensor = FloatTensor<Flex>;

/// The same values in row-major order without gaps.
pub(crate) fn contiguous(t: FlexTensor) -> FlexTensor {
    if t.is_contiguous() { t } else { t.to_contiguous() }
}

/// The values of a contiguous `f32` tensor.
///
/// # Panics
/// If the tensor is strided (see [`contiguous`]) or is not `f32`.
pub(crate) fn values(t: &FlexTensor) -> &[f32] {
    match t.as_slice::<f32>() {
        Some(values) => values,
        None => panic!("covmatch-kernels works on contiguous f32 tensors, got {:?}", t.dtype()),
    }
}

/// The values of `t` for overwriting, if `t` is contiguous and the only handle to its storage.
pub(crate) fn values_mut(t: &mut FlexTensor) -> Option<&mut [f32]> {
    let bytes = t.layout().num_elements() * size_of::<f32>();
    let whole = t.is_contiguous() && t.layout().start_offset() == 0 && t.bytes().len() == bytes;
    if whole { t.try_storage_mut::<f32>() } else { None }
}

/// A tensor that takes over `values` without a copy.
pub(crate) fn tensor(values: Vec<f32>, shape: &[usize]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape.to_vec()))
}

/// The dimensions of `t`.
pub(crate) fn dims(t: &FlexTensor) -> Vec<usize> {
    t.layout().shape().iter().copied().collect()
}
