//! RandAugment with the protocol's pool: two operations a picture, drawn with replacement, each skipped with
//! probability 1/2, all at level 5 of 10.
//!
//! | operation | at level 5 |
//! |---|---|
//! | shear | +-0.15 (of 0.3) |
//! | translate | +-5 px (of 10) |
//! | rotate | +-15 degrees (of 30) about (width / 2, height / 2) |
//! | brightness, sharpness | factor 0.5 x 1.8 + 0.1 = 1: no change |
//! | auto contrast, equalise | no level |

use super::{tone, warp};
use crate::engine::Stream;

/// Colour of what a warp brings in from outside.
pub const FILL: u8 = 128;

const SHEAR: f32 = 0.15;
const TRANSLATION: i32 = 5;
const ROTATION: f32 = 15.0;
const FACTOR: f32 = 1.0;

/// One operation with its parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    /// Nothing changes.
    Identity,
    /// Each colour is stretched over all values.
    AutoContrast,
    /// Values times a factor.
    Brightness(f32),
    /// Blend of a smoothed picture (0) and the picture (1).
    Sharpness(f32),
    /// Each colour's histogram is flattened.
    Equalize,
    /// Rows move by this many pixels a row.
    ShearX(f32),
    /// Columns move by this many pixels a column.
    ShearY(f32),
    /// The picture moves to the left by this many pixels.
    TranslateX(i32),
    /// The picture moves up by this many pixels.
    TranslateY(i32),
    /// The picture turns counter-clockwise by this many degrees.
    Rotate(f32),
}

impl Operation {
    /// An operation of the pool; `Identity` when it is skipped.
    pub(super) fn draw(stream: &mut Stream) -> Self {
        let pick = (stream.uniform() * 10.0) as usize;
        let skipped = stream.uniform() < 0.5;
        let sign = if stream.uniform() < 0.5 { -1 } else { 1 };
        if skipped {
            return Self::Identity;
        }
        match pick {
            0 => Self::Identity,
            1 => Self::AutoContrast,
            2 => Self::Brightness(FACTOR),
            3 => Self::Sharpness(FACTOR),
            4 => Self::Equalize,
            5 => Self::ShearX(sign as f32 * SHEAR),
            6 => Self::ShearY(sign as f32 * SHEAR),
            7 => Self::TranslateX(sign * TRANSLATION),
            8 => Self::TranslateY(sign * TRANSLATION),
            _ => Self::Rotate(sign as f32 * ROTATION),
        }
    }

    /// Applies the operation to the square picture `front`; `back` is a buffer of the same size.
    pub(super) fn apply(self, front: &mut Vec<u8>, back: &mut Vec<u8>, size: usize) {
        match self {
            Self::Identity => return,
            Self::AutoContrast => return tone::auto_contrast(front),
            Self::Equalize => return tone::equalize(front),
            Self::Brightness(factor) | Self::Sharpness(factor) if factor == 1.0 => return,
            Self::Brightness(factor) => return tone::brightness(front, factor),
            Self::Sharpness(factor) => tone::sharpness(front, back, size, factor),
            Self::TranslateX(offset) => warp::shift(front, back, size, offset.into(), 0),
            Self::TranslateY(offset) => warp::shift(front, back, size, 0, offset.into()),
            Self::ShearX(shear) => warp::warp(front, back, size, [1.0, -f64::from(shear), 0.0, 0.0, 1.0, 0.0]),
            Self::ShearY(shear) => warp::warp(front, back, size, [1.0, 0.0, 0.0, -f64::from(shear), 1.0, 0.0]),
            Self::Rotate(degrees) => warp::warp(front, back, size, rotation(degrees.into(), size as f64 / 2.0)),
        }
        std::mem::swap(front, back);
    }
}

/// Where the pixels of a picture come from that is turned about (`centre`, `centre`).
fn rotation(degrees: f64, centre: f64) -> warp::Affine {
    let (sin, cos) = degrees.to_radians().sin_cos();
    [cos, -sin, (1.0 - cos + sin) * centre, sin, cos, (1.0 - cos - sin) * centre]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Seed;

    #[test]
    fn half_of_the_operations_are_skipped_and_all_of_the_pool_is_drawn() {
        let mut stream = Seed(3).stream("augment", 0);
        let drawn: Vec<_> = (0..20_000).map(|_| Operation::draw(&mut stream)).collect();
        let share = |wanted: Operation| drawn.iter().filter(|&&op| op == wanted).count() as f64 / 20_000.0;
        assert!((share(Operation::Identity) - 0.55).abs() < 0.02);
        for op in [Operation::AutoContrast, Operation::Equalize, Operation::Brightness(1.0), Operation::Sharpness(1.0)]
        {
            assert!((share(op) - 0.05).abs() < 0.01, "{op:?}");
        }
        for warp in [Operation::ShearX, Operation::ShearY].map(|op| op(0.15)) {
            assert!((share(warp) - 0.025).abs() < 0.008, "{warp:?}");
        }
        for op in [Operation::TranslateX(-5), Operation::TranslateY(5), Operation::Rotate(-15.0)] {
            assert!((share(op) - 0.025).abs() < 0.008, "{op:?}");
        }
    }
}
