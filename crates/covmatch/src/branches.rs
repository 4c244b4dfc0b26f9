//! The image side and the text side of whatever has both: a model, its features, rates, losses.

use serde::{Deserialize, Serialize};

/// Something of the image side (encoder and head) and of the text side of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Branches<T> {
    /// Of the image or video encoder and its head.
    pub image: T,
    /// Of the text encoder and its head.
    pub text: T,
}

impl<T> Branches<T> {
    /// What `f` makes of each.
    pub fn map<U>(self, f: impl Fn(T) -> U) -> Branches<U> {
        Branches { image: f(self.image), text: f(self.text) }
    }

    /// What `f` makes of each and of its counterpart.
    pub fn zip<U, V>(self, other: Branches<U>, f: impl Fn(T, U) -> V) -> Branches<V> {
        Branches { image: f(self.image, other.image), text: f(self.text, other.text) }
    }

    /// Both, borrowed.
    pub fn as_ref(&self) -> Branches<&T> {
        Branches { image: &self.image, text: &self.text }
    }
}
