//! Scaled weight standardisation of normaliser-free networks (Brock et al. 2021).

use burn::tensor::Tensor;

/// `(w - mean) / sqrt(var + eps) * gain * gamma / sqrt(fan_in)` per output channel, with the biased variance.
///
/// `weight` `[out, in, k, k]`, `gain` `[out, 1, 1, 1]`, `fan_in = in * k * k`; `gamma` makes up for the activation.
pub fn standardize(weight: Tensor<4>, gain: Tensor<4>, gamma: f32, eps: f32) -> Tensor<4> {
    let [out, i, kh, kw] = weight.dims();
    let fan_in = i * kh * kw;
    let w = weight.reshape([out, fan_in]);
    let centred = w.clone() - w.mean_dim(1);
    let var = centred.clone().powi_scalar(2).mean_dim(1);
    let scale = gain.reshape([out, 1]).mul_scalar(gamma / (fan_in as f32).sqrt()) / var.add_scalar(eps).sqrt();
    (centred * scale).reshape([out, i, kh, kw])
}
