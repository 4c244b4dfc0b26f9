//! From the last layer's positions to one vector a caption.

use std::str::FromStr;

use burn::tensor::Tensor;

use super::block::Block;
use crate::encoders::Mode;

/// Which vector stands for a caption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// The last layer at position 0, the `[CLS]` token: what CovMatch uses.
    #[default]
    Cls,
    /// The mean of the last layer over the tokens that are not padding: what sentence-transformers use.
    Mean,
}

/// A pooling of that name does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no pooling '{0}'; known names: cls, mean")]
pub struct UnknownPooling(pub String);

impl FromStr for Pooling {
    type Err = UnknownPooling;

    fn from_str(name: &str) -> Result<Self, UnknownPooling> {
        match name {
            "cls" => Ok(Pooling::Cls),
            "mean" => Ok(Pooling::Mean),
            _ => Err(UnknownPooling(name.to_owned())),
        }
    }
}

impl Pooling {
    /// Runs `blocks` on `hidden` `[n, l, d_l]` and pools to `[n, d_l]`.
    pub(super) fn run(self, blocks: &[Block], hidden: Tensor<3>, mask: Tensor<2>, mode: &mut Mode) -> Tensor<2> {
        match (self, blocks.split_last()) {
            (Pooling::Cls, Some((last, before))) => {
                let hidden = forward(before, hidden, &mask, mode);
                last.forward_first(hidden, mask, mode).squeeze_dim(1)
            }
            (Pooling::Cls, None) => hidden.narrow(1, 0, 1).squeeze_dim(1),
            (Pooling::Mean, _) => mean(forward(blocks, hidden, &mask, mode), mask),
        }
    }
}

/// `hidden` after all `blocks`.
pub(super) fn forward(blocks: &[Block], hidden: Tensor<3>, mask: &Tensor<2>, mode: &mut Mode) -> Tensor<3> {
    blocks.iter().fold(hidden, |hidden, block| block.forward(hidden, mask.clone(), mode))
}

/// The mean of `hidden` `[n, l, d_l]` over the positions where `mask` `[n, l]` is 1.
fn mean(hidden: Tensor<3>, mask: Tensor<2>) -> Tensor<2> {
    let tokens = mask.clone().sum_dim(1); // [n, 1]
    let sum: Tensor<2> = (hidden * mask.unsqueeze_dim(2)).sum_dim(1).squeeze_dim(1);
    sum / tokens
}
