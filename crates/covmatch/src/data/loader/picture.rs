//! Where a loader gets decoded pictures from.

use std::borrow::Cow;
use std::sync::Arc;

use crate::data::library::Library;
use crate::data::{DataError, Dataset, RgbImage};

/// A decoded picture, or the frames of a clip, which all have the same size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture<'a> {
    /// Number of frames, `t`; 1 for a picture.
    pub count: usize,
    /// Pixels in a row.
    pub width: usize,
    /// Rows of a frame.
    pub height: usize,
    /// `[t, h, w, 3]`, owned or lying in a cache.
    pub pixels: Cow<'a, [u8]>,
}

impl Picture<'_> {
    /// The picture itself if it has `count` frames.
    pub fn with_frames(self, count: usize) -> Result<Self, DataError> {
        if self.count == count {
            return Ok(self);
        }
        let cause = format!("it has {} frames where {count} are wanted", self.count);
        Err(DataError::Transform { picture: "a clip".into(), cause })
    }

    /// The pixels of each frame, `[h, w, 3]`.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.pixels.chunks(self.pixels.len().div_ceil(self.count.max(1)).max(1))
    }
}

impl From<RgbImage> for Picture<'static> {
    fn from(RgbImage { width, height, pixels }: RgbImage) -> Self {
        Self { count: 1, width, height, pixels: Cow::Owned(pixels) }
    }
}

impl<'a> From<&'a RgbImage> for Picture<'a> {
    fn from(RgbImage { width, height, pixels }: &'a RgbImage) -> Self {
        Self { count: 1, width: *width, height: *height, pixels: Cow::Borrowed(pixels) }
    }
}

/// Decoded pictures by their index in [`Dataset::images`](crate::data::Dataset::images).
pub trait Pictures: Send + Sync {
    /// The picture or clip of `image`.
    fn load(&self, image: usize) -> Result<Picture<'_>, DataError>;
}

impl<P: Pictures + ?Sized> Pictures for Arc<P> {
    fn load(&self, image: usize) -> Result<Picture<'_>, DataError> {
        (**self).load(image)
    }
}

/// Pictures that are already in memory.
impl Pictures for [RgbImage] {
    fn load(&self, image: usize) -> Result<Picture<'_>, DataError> {
        self.get(image).map(Picture::from).ok_or_else(|| DataError::Transform {
            picture: format!("picture {image}"),
            cause: format!("there are {} pictures", self.len()),
        })
    }
}

/// The pictures and clips of a dataset, read and decoded when they are asked for.
pub struct DatasetPictures {
    dataset: Arc<Dataset>,
    library: Library,
}

impl DatasetPictures {
    /// The pictures of `dataset`, read by `library`.
    pub fn new(dataset: Arc<Dataset>, library: Library) -> Self {
        Self { dataset, library }
    }
}

impl Pictures for DatasetPictures {
    fn load(&self, image: usize) -> Result<Picture<'_>, DataError> {
        let image = &self.dataset.images[image];
        if image.location.is_clip() {
            let frames = self.library.frames(image)?;
            return clip(&frames).ok_or_else(|| DataError::Clip {
                clip: image.name.clone(),
                cause: "its frames differ in size".into(),
            });
        }
        self.library.picture(image).map(Picture::from)
    }
}

/// Frames of one size as one clip.
fn clip(frames: &[RgbImage]) -> Option<Picture<'static>> {
    let &RgbImage { width, height, .. } = frames.first()?;
    let pixels = frames.iter().flat_map(|frame| &frame.pixels).copied().collect();
    let same_size = frames.iter().all(|frame| (frame.width, frame.height) == (width, height));
    same_size.then_some(Picture { count: frames.len(), width, height, pixels: Cow::Owned(pixels) })
}
