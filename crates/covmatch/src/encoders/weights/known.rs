//! Telling which encoder a file of weights belongs to.

use std::fmt;

use burn::tensor::Device;

use super::fit::fit;
use super::key_map::KeyMap;
use super::keys::{KeyShape, keys};
use crate::encoders::image::{self, AnyImageEncoder};
use crate::encoders::text::{self, AnyTextEncoder, Pooling};
use crate::encoders::video::{self, AnyVideoEncoder};

/// A known encoder that a file resembles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LooksLike {
    /// Its name.
    pub name: String,
    /// How many of its weights the file has, in the right shape.
    pub fitting: usize,
    /// How many weights it has.
    pub of: usize,
}

impl fmt::Display for LooksLike {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { name, fitting, of } = self;
        if fitting == of {
            write!(f, "the file looks like {name}: all of its {of} weights fit")
        } else {
            write!(f, "the file is closest to {name}: {fitting} of its {of} weights fit")
        }
    }
}

/// The known encoder that a `file`'s keys and shapes resemble most, unless less than half of them do.
pub(super) fn looks_like(file: &[KeyShape]) -> Option<LooksLike> {
    let scored = known_encoders().into_iter().map(|(name, encoder)| {
        let fit = fit(&encoder, file, KeyMap::Detect);
        let fitting = fit.pairs.len();
        let score = fitting as f64 / (encoder.len() + fit.mismatch.unexpected.len()) as f64;
        (score, LooksLike { name: name.to_owned(), fitting, of: encoder.len() })
    });
    let (score, best) = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (score >= 0.5).then_some(best)
}

/// The keys of every encoder, by its name. No weights are allocated.
fn known_encoders() -> Vec<(&'static str, Vec<KeyShape>)> {
    let device = Device::flex();
    let images = image::names().filter_map(|name| Some((name, keys(&AnyImageEncoder::new(name, &device).ok()?))));
    let videos = video::names().filter_map(|name| Some((name, keys(&AnyVideoEncoder::new(name, &device).ok()?))));
    let texts =
        text::names().filter_map(|name| Some((name, keys(&AnyTextEncoder::new(name, Pooling::Cls, &device).ok()?))));
    images.chain(videos).chain(texts).collect()
}
