//! The input side of BERT and DistilBERT, and the checks of what goes in.

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor};

use crate::encoders::EncoderError;
use crate::encoders::layers::zeros;

/// A table of vectors. It is frozen: CovMatch learns what comes after the embeddings.
#[derive(Module, Debug)]
pub(super) struct Embedding {
    weight: Param<Tensor<2>>, // [entries, d_l]
}

impl Embedding {
    pub(super) fn new(entries: usize, width: usize, device: &Device) -> Self {
        Self { weight: zeros([entries, width], device).set_require_grad(false) }
    }

    /// The rows of `ids` `[n, l]`, as `[n, l, d_l]`.
    pub(super) fn rows(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let ([n, l], [_, width]) = (ids.dims(), self.weight.dims());
        self.weight.val().select(0, ids.reshape([n * l])).reshape([n, l, width])
    }

    /// The first `count` rows, as `[1, count, d_l]`.
    pub(super) fn first_rows(&self, count: usize) -> Tensor<3> {
        self.weight.val().narrow(0, 0, count).unsqueeze_dim(0)
    }
}

/// What the text encoders take.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) encoder: String,
    pub(super) vocab: usize,
    pub(super) positions: usize,
    pub(super) width: usize,
}

impl Limits {
    /// Refuses token ids `[n, l]` that are empty, too long or outside the vocabulary.
    pub(super) fn check_tokens(&self, tokens: &Tensor<2, Int>) -> Result<(), EncoderError> {
        let got = tokens.dims();
        if got[0] == 0 {
            return Err(EncoderError::EmptyBatch);
        }
        if got[1] == 0 || got[1] > self.positions {
            return Err(self.shape_error(&got, format!("token ids [n, l] with 1 <= l <= {}", self.positions)));
        }
        let vocab = self.vocab as i64;
        match tokens.to_data().iter::<i64>().find(|&id| !(0..vocab).contains(&id)) {
            Some(id) => Err(EncoderError::Token { id, vocab: self.vocab }),
            None => Ok(()),
        }
    }

    /// Refuses embedded captions `[n, l, d_l]` and a mask `[n, l]` that do not fit each other or the encoder.
    pub(super) fn check_embedded(&self, embedded: &Tensor<3>, mask: &Tensor<2>) -> Result<(), EncoderError> {
        let [n, l, width] = embedded.dims();
        if n == 0 {
            return Err(EncoderError::EmptyBatch);
        }
        if l == 0 || l > self.positions || width != self.width {
            let expected = format!("embedded captions [n, l, {}] with 1 <= l <= {}", self.width, self.positions);
            return Err(self.shape_error(&[n, l, width], expected));
        }
        if mask.dims() != [n, l] {
            return Err(self.shape_error(&mask.dims(), format!("a mask [{n}, {l}] for embedded [{n}, {l}, {width}]")));
        }
        let mask: Vec<f32> = mask.to_data().iter::<f32>().collect();
        if mask.chunks(l).any(|row| !row.contains(&1.0) || row.iter().any(|&m| m != 0.0 && m != 1.0)) {
            return Err(self.shape_error(&[n, l], "a mask of zeros and ones with at least one 1 a row".to_owned()));
        }
        Ok(())
    }

    fn shape_error(&self, got: &[usize], expected: String) -> EncoderError {
        EncoderError::Shape { encoder: self.encoder.clone(), expected, got: got.to_vec() }
    }
}
