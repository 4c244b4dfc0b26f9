//! Pooling of channels-last activations `[n, h, w, c]`.

use burn::tensor::{Tensor, module, ops::{AvgPoolOptions, MaxPoolOptions}};

/// Mean over height and width: `[n, h, w, c]` to `[n, c]`.
pub fn global_avg_pool(x: Tensor<4>) -> Tensor<2> {
    let [n, h, w, c] = x.dims();
    x.reshape([n, h * w, c]).mean_dim(1).reshape([n, c])
}

/// Mean over `size` x `size` windows with the same stride; windows that reach past the lower or right edge average
/// what they cover (`ceil_mode=True, count_include_pad=False` in PyTorch).
pub fn avg_pool2d(x: Tensor<4>, size: usize) -> Tensor<4> {
    let x = x.permute([0, 3, 1, 2]);
    let options = AvgPoolOptions::new([size, size]).with_stride([size, size]).with_count_include_pad(false).with_ceil_mode(true);
    module::avg_pool2d(x, options).permute([0, 2, 3, 1])
}

/// Maximum over `size` x `size` windows, `stride` apart, without padding; windows that reach past the lower or right
/// edge count what they cover (`ceil_mode=True` in PyTorch).
pub fn max_pool2d(x: Tensor<4>, size: usize, stride: usize) -> Tensor<4> {
    let x = x.permute([0, 3, 1, 2]);
    let options = MaxPoolOptions::new([size, size]).with_stride([stride, stride]).with_ceil_mode(true);
    module::max_pool2d(x, options).permute([0, 2, 3, 1])
}
