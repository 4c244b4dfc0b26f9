//! Captions of a similar length encoded together, so that little padding is computed.
//!
//! A batch is as long as its longest caption, about twice the mean. Sorted by length and cut into a few groups, each
//! group is only as long as its own longest caption. The features are the same: padding takes no part in them.

use burn::tensor::{Int, Tensor, TensorData};

use crate::encoders::{EncoderError, Mode, TextEncoder};

/// The most groups of a batch.
const GROUPS: usize = 4;
/// The fewest captions of a group: fewer would leave the matrix products too small to be fast.
const SMALLEST_GROUP: usize = 16;

/// What [`TextEncoder::encode`] gives for `embedded` `[n, l, d_l]` and `mask` `[n, l]`.
pub fn encode_by_length<E: TextEncoder>(
    encoder: &E,
    embedded: Tensor<3>,
    mask: Tensor<2>,
    mode: &mut Mode,
) -> Result<Tensor<2>, EncoderError> {
    let lengths = lengths(&mask);
    let groups = groups(&lengths);
    if groups.len() < 2 {
        return encoder.encode(embedded, mask, mode);
    }
    let mut features = Vec::with_capacity(groups.len());
    for rows in &groups {
        let longest = rows.iter().map(|&row| lengths[row]).max().unwrap_or(1);
        let indices = indices(rows.iter().copied(), &mask);
        let embedded = embedded.clone().narrow(1, 0, longest).select(0, indices.clone());
        let mask = mask.clone().narrow(1, 0, longest).select(0, indices);
        features.push(encoder.encode(embedded, mask, mode)?);
    }
    let mut places = vec![0; lengths.len()];
    for (place, row) in groups.into_iter().flatten().enumerate() {
        places[row] = place;
    }
    Ok(Tensor::cat(features, 0).select(0, indices(places.into_iter(), &mask)))
}

/// Tokens of each caption: up to the last that is not padding, and at least one.
fn lengths(mask: &Tensor<2>) -> Vec<usize> {
    let [_, length] = mask.dims();
    let values: Vec<f32> = mask.clone().into_data().iter::<f32>().collect();
    let last = |row: &[f32]| row.iter().rposition(|&value| value != 0.0).map_or(1, |last| last + 1);
    values.chunks(length.max(1)).map(last).collect()
}

/// Rows in groups of similar lengths; one group if that is as good.
fn groups(lengths: &[usize]) -> Vec<Vec<usize>> {
    let count = (lengths.len() / SMALLEST_GROUP).clamp(1, GROUPS);
    let mut rows: Vec<usize> = (0..lengths.len()).collect();
    rows.sort_by_key(|&row| lengths[row]); // stable: the same groups each time
    let groups: Vec<Vec<usize>> = rows.chunks(lengths.len().div_ceil(count).max(1)).map(<[usize]>::to_vec).collect();
    let longest = |rows: &[usize]| rows.iter().map(|&row| lengths[row]).max().unwrap_or(0);
    let grouped: usize = groups.iter().map(|rows| rows.len() * longest(rows)).sum();
    // Under a tenth of the tokens is not worth smaller matrix products.
    if grouped * 10 > lengths.len() * longest(&rows) * 9 { vec![rows] } else { groups }
}

fn indices(rows: impl Iterator<Item = usize>, like: &Tensor<2>) -> Tensor<1, Int> {
    let rows: Vec<i64> = rows.map(|row| row as i64).collect();
    let count = rows.len();
    Tensor::from_data(TensorData::new(rows, [count]), &like.device())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::encoders::text::{AnyTextEncoder, Pooling, bert::BertConfig, config::TextConfig};
    use crate::encoders::weights::generated;
    use burn::module::Module;
    use burn::tensor::Device;

    #[test]
    fn features_and_gradients_are_those_of_the_padded_batch() {
        let config = BertConfig {
            vocab_size: 10,
            hidden_size: 16,
            num_hidden_layers: 2,
            num_attention_heads: 2,
            intermediate_size: 32,
            ..BertConfig::BASE_UNCASED
        };
        let (n, l, d) = (50, 12, 16);
        let mask: Vec<f32> = (0..n * l).map(|i| f32::from(u8::from(i % l < 2 + (i / l * 7) % 11))).collect();
        let text = generated::uniform("text", n * l * d);
        for pooling in [Pooling::Cls, Pooling::Mean] {
            let encoder = AnyTextEncoder::from_config("t", &TextConfig::Bert(config.clone()), pooling, &Device::flex());
            let encoder = generated::fill(encoder).no_grad().train();
            let run = |by_length: bool| {
                let device = Device::flex();
                let mask = Tensor::<2>::from_data(TensorData::new(mask.clone(), [n, l]), &device).autodiff();
                let x = Tensor::<3>::from_data(TensorData::new(text.clone(), [n, l, d]), &device);
                let x = x.autodiff().require_grad();
                let y = match by_length {
                    true => encode_by_length(&encoder, x.clone(), mask, &mut Mode::Eval),
                    false => encoder.encode(x.clone(), mask, &mut Mode::Eval),
                }
                .unwrap();
                let weights = generated::uniform("cotangent", n * d);
                let weights = Tensor::<2>::from_data(TensorData::new(weights, [n, d]), &device).autodiff();
                let gradients = (y.clone() * weights).sum().backward();
                let values: Vec<f32> = y.into_data().iter::<f32>().collect();
                (values, x.grad(&gradients).unwrap().into_data().iter::<f32>().collect::<Vec<_>>())
            };
            let ((y, dx), (y_padded, dx_padded)) = (run(true), run(false));
            let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
            assert!(close(&y, &y_padded) && close(&dx, &dx_padded), "{pooling:?}");
        }
    }

    #[test]
    fn groups_hold_every_row_once_and_need_a_reason() {
        let lengths: Vec<usize> = (0..100).map(|i| 5 + (i * 37) % 20).collect();
        let mut rows: Vec<usize> = groups(&lengths).concat();
        assert_eq!(groups(&lengths).len(), 4);
        rows.sort_unstable();
        assert_eq!(rows, (0..100).collect::<Vec<_>>());
        assert_eq!(groups(&[9; 100]).len(), 1);
        assert_eq!(groups(&lengths[..20]).len(), 1);
        assert!(groups(&[]).concat().is_empty());
    }
}
