//! From decoded pictures to an encoder's input.
//!
//! ```text
//! train: random resized crop (bicubic) -> flip -> two random operations -> normalise
//! test:  the whole picture to size x size (bicubic, aspect ratio not kept) -> normalise
//! ```
//! What is random is drawn first, into an [`Augmentation`]; [`Transform::apply`] is a pure function of the picture and
//! that plan. The test transform is the plan that crops nothing, flips nothing and changes nothing.
//!
//! Pixels stay 8-bit until they are normalised, as in PIL and OpenCV.

mod augment;
mod crop;
mod normalize;
mod resize;
mod tone;
mod warp;

pub use augment::{FILL, Operation};
pub use crop::Crop;
pub use normalize::{ChannelOrder, Normalization};

use super::{DataError, RgbImage};
use crate::engine::Stream;
use normalize::Normalizer;

/// A picture that lies somewhere else: 8-bit red, green and blue, row by row.
#[derive(Clone, Copy, Debug)]
pub struct RgbView<'a> {
    width: usize,
    height: usize,
    pixels: &'a [u8],
}

impl<'a> RgbView<'a> {
    /// `pixels` as `height` rows of `width` pixels; an error if there are none or their number is another.
    pub fn new(width: usize, height: usize, pixels: &'a [u8]) -> Result<Self, DataError> {
        let view = Self { width, height, pixels };
        let length = width.checked_mul(height).and_then(|count| count.checked_mul(3));
        let addressable = width <= u32::MAX as usize && height <= u32::MAX as usize;
        if pixels.is_empty() || length != Some(pixels.len()) || !addressable {
            return Err(view.failed(format!("it has {} bytes of colours", pixels.len())));
        }
        Ok(view)
    }

    fn failed(&self, cause: String) -> DataError {
        DataError::Transform { picture: format!("a picture of {} x {} pixels", self.width, self.height), cause }
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }
}

impl<'a> TryFrom<&'a RgbImage> for RgbView<'a> {
    type Error = DataError;

    fn try_from(image: &'a RgbImage) -> Result<Self, DataError> {
        Self::new(image.width, image.height, &image.pixels)
    }
}

/// All that is random in the train transform of one picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Augmentation {
    /// The part of the picture that is resized.
    pub crop: Crop,
    /// Whether left and right change places.
    pub flip: bool,
    /// Applied in this order to the resized picture.
    pub operations: [Operation; 2],
}

impl Augmentation {
    /// The train transform of a picture of `width` x `height` pixels, drawn from `stream`.
    pub fn draw(width: usize, height: usize, stream: &mut Stream) -> Self {
        Self {
            crop: Crop::draw(width, height, || f64::from(stream.uniform())),
            flip: stream.uniform() < 0.5,
            operations: [Operation::draw(stream), Operation::draw(stream)],
        }
    }

    /// The test transform of a picture of `width` x `height` pixels: nothing is random.
    pub fn none(width: usize, height: usize) -> Self {
        Self { crop: Crop::whole(width, height), flip: false, operations: [Operation::Identity; 2] }
    }
}

/// Turns pictures into `3 x size x size` numbers.
#[derive(Clone, Debug)]
pub struct Transform {
    size: usize,
    normalizer: Normalizer,
}

impl Transform {
    /// A transform to `size` x `size` pixels with the colours of `normalization`.
    pub fn new(size: usize, normalization: &Normalization) -> Self {
        Self { size, normalizer: Normalizer::new(normalization) }
    }

    /// Width and height of the result.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The 8-bit picture of `size` x `size` pixels that `plan` makes of `picture`, in `scratch`.
    pub fn pixels<'s>(
        &self,
        picture: RgbView<'_>,
        plan: &Augmentation,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], DataError> {
        scratch.reserve(self.size);
        resize::bicubic(picture, plan.crop, self.size, &mut scratch.resizer, &mut scratch.rows, &mut scratch.front)?;
        if plan.flip {
            flip(&mut scratch.front, self.size);
        }
        for operation in &plan.operations {
            operation.apply(&mut scratch.front, &mut scratch.back, self.size);
        }
        Ok(&scratch.front)
    }

    /// Writes the input that `plan` makes of `picture` into one plane a channel, each `[size, size]`.
    pub fn apply(
        &self,
        picture: RgbView<'_>,
        plan: &Augmentation,
        scratch: &mut Scratch,
        planes: [&mut [f32]; 3],
    ) -> Result<(), DataError> {
        let pixels = self.pixels(picture, plan, scratch)?;
        self.normalizer.apply(pixels, planes);
        Ok(())
    }
}

/// What a transform writes on its way; one a thread, used again for every picture.
#[derive(Debug, Default)]
pub struct Scratch {
    resizer: fast_image_resize::Resizer,
    rows: Vec<u8>,
    front: Vec<u8>,
    back: Vec<u8>,
}

impl Scratch {
    fn reserve(&mut self, size: usize) {
        self.front.resize(size * size * 3, 0);
        self.back.resize(size * size * 3, 0);
    }
}

/// Left and right change places in rows of `width` pixels.
fn flip(pixels: &mut [u8], width: usize) {
    for row in pixels.chunks_exact_mut(width * 3) {
        row.as_chunks_mut::<3>().0.reverse();
    }
}
