//! Pairs of images (or clips) and captions: read from what users have, prepared as the paper's protocol does.
//!
//! ```text
//! source -> Dataset (locations and captions, no pixels) -> decode -> transform -> batch
//! ```
//! Memory grows with captions and indices, never with pixels: a [`Location`] says where an image's bytes lie and they
//! are read when a batch needs them.

pub mod cache;
pub mod caption;
pub mod decode;
mod error;
pub mod inspect;
pub mod library;
pub mod loader;
mod rgb;
pub mod scenes;
pub mod source;
pub mod tokens;
pub mod transform;
pub mod video;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

pub use error::DataError;
pub use rgb::RgbImage;

/// Which part of a dataset an image belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Split {
    /// Learned from.
    Train,
    /// For choosing between settings.
    Val,
    /// For reporting, and nothing else.
    Test,
}

impl Split {
    /// All parts, in the order in which they are reported.
    pub const ALL: [Split; 3] = [Split::Train, Split::Val, Split::Test];

    /// The part that an annotation calls `name`. `restval` is the part of COCO's validation images that Karpathy's
    /// split trains on.
    pub fn from_name(name: &str) -> Option<Split> {
        match name.to_ascii_lowercase().as_str() {
            "train" | "training" | "restval" => Some(Split::Train),
            "val" | "valid" | "validation" | "dev" => Some(Split::Val),
            "test" | "testing" => Some(Split::Test),
            _ => None,
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Split::Train => "train",
            Split::Val => "val",
            Split::Test => "test",
        })
    }
}

/// Where the bytes of an image or a clip lie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// A file of its own.
    File(PathBuf),
    /// `len` bytes at `offset` of a larger file: a member of a tar archive that is never unpacked.
    Range {
        /// The larger file.
        file: Arc<PathBuf>,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// A value of a parquet file's image column.
    Parquet {
        /// The parquet file.
        file: Arc<PathBuf>,
        /// Row, counted over the whole file.
        row: u64,
    },
    /// A picture drawn by `scenes`: nothing is read.
    Scene(u64),
    /// The frames of a clip that are used, evenly spaced and in order, as one file each.
    Frames(Arc<Vec<PathBuf>>),
}

/// One image or clip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The name that annotations use, for messages and reports.
    pub name: String,
    /// Where its bytes lie.
    pub location: Location,
    /// Its part of the dataset.
    pub split: Split,
}

/// One caption, as the annotations have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caption {
    /// The text before cleaning.
    pub text: String,
    /// Index into [`Dataset::images`].
    pub image: u32,
}

/// All pairs of a dataset. Captions of one image are neighbours, in the order of the annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dataset {
    /// Images in the order of the annotations.
    pub images: Vec<Image>,
    /// Captions in the order of their images.
    pub captions: Vec<Caption>,
    /// What was left out, and why, when bad input is skipped.
    pub skipped: Vec<Skipped>,
}

/// Something that was left out of a [`Dataset`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The image, or the place in the annotations.
    pub name: String,
    /// Why it cannot be used.
    pub cause: String,
}

/// How much one part of a dataset holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Images.
    pub images: usize,
    /// Captions of those images.
    pub captions: usize,
}

/// A part of a dataset as retrieval sees it: every image once, with all its captions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gallery {
    /// Indices into [`Dataset::images`].
    pub images: Vec<u32>,
    /// Indices into [`Dataset::captions`], image by image.
    pub captions: Vec<u32>,
    /// For each caption, the position of its image in `images`.
    pub owners: Vec<u32>,
}

impl Dataset {
    /// The entries of an epoch: the index of every caption whose image is in the train split.
    pub fn train_entries(&self) -> Vec<u32> {
        self.captions_in(Split::Train).map(|(index, _)| index).collect()
    }

    /// Every image of `split` once, with all its captions.
    pub fn gallery(&self, split: Split) -> Gallery {
        let mut gallery = Gallery::default();
        for (image, _) in self.images_in(split) {
            let owner = gallery.images.len() as u32;
            gallery.images.push(image);
            for caption in self.captions_of(image) {
                gallery.captions.push(caption as u32);
                gallery.owners.push(owner);
            }
        }
        gallery
    }

    /// How many images and captions `split` holds.
    pub fn counts(&self, split: Split) -> Counts {
        Counts { images: self.images_in(split).count(), captions: self.captions_in(split).count() }
    }

    /// The captions of an image, as indices into [`Dataset::captions`].
    pub fn captions_of(&self, image: u32) -> Range<usize> {
        let first = self.captions.partition_point(|caption| caption.image < image);
        let count = self.captions[first..].iter().take_while(|caption| caption.image == image).count();
        first..first + count
    }

    /// The images of `split` with their indices.
    pub fn images_in(&self, split: Split) -> impl Iterator<Item = (u32, &Image)> {
        (0u32..).zip(&self.images).filter(move |(_, image)| image.split == split)
    }

    /// The captions of the images of `split` with their indices.
    pub fn captions_in(&self, split: Split) -> impl Iterator<Item = (u32, &Caption)> {
        (0u32..).zip(&self.captions).filter(move |(_, c)| self.images[c.image as usize].split == split)
    }

    /// The dataset without the images that `cause` gives a reason against, which are recorded as skipped.
    pub fn without(self, mut cause: impl FnMut(u32, &Image) -> Option<String>) -> Dataset {
        let mut kept = Dataset { skipped: self.skipped, ..Dataset::default() };
        let mut position = Vec::with_capacity(self.images.len());
        for (index, image) in (0u32..).zip(self.images) {
            if let Some(cause) = cause(index, &image) {
                kept.skipped.push(Skipped { name: image.name, cause });
                position.push(None);
            } else {
                position.push(Some(kept.images.len() as u32));
                kept.images.push(image);
            }
        }
        let renumbered = self.captions.into_iter().filter_map(|caption| {
            let image = position[caption.image as usize]?;
            Some(Caption { image, ..caption })
        });
        kept.captions = renumbered.collect();
        kept
    }
}
