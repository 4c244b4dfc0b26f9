//! Batches of prepared pairs.
//!
//! Training: every caption of the train split is an entry; an epoch is a shuffle of all entries without replacement,
//! and what does not fill a batch is left out. Which entries a batch holds and how they are augmented is a function of
//! (seed, purpose, step) alone: any step can be asked for, in any order, with any number of threads, and has the same
//! bytes.
//!
//! Evaluation: [`ImageLoader`] gives every image of a split once, in order, with the test transform, and
//! [`CaptionLoader`] every caption. [`Prefetch`] prepares any of them ahead of their use.

mod evaluation;
mod order;
mod parallel;
mod picture;
mod prefetch;
mod train;

pub use evaluation::{CaptionBatch, CaptionLoader, ImageBatch, ImageLoader, ImageOptions};
pub use order::Order;
pub use picture::{DatasetPictures, Picture, Pictures};
pub use prefetch::{Ahead, Batches, Prefetch};
pub use train::{Augment, Batch, TrainLoader, TrainOptions};

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

pub use super::source::OnBad;
use super::transform::{Augmentation, RgbView, Scratch, Transform};
use super::{DataError, Dataset, Skipped};

/// Pictures that were left out, by image.
#[derive(Debug, Default)]
struct SkipRecord(Mutex<BTreeMap<u32, Skipped>>);

impl SkipRecord {
    fn add(&self, dataset: &Dataset, image: u32, error: &DataError) {
        let name = dataset.images[image as usize].name.clone();
        let skipped = Skipped { name, cause: error.to_string() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(image, skipped);
    }

    fn to_vec(&self) -> Vec<Skipped> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

/// `error` with the name of the picture that it is about.
fn named(error: DataError, dataset: &Dataset, image: u32) -> DataError {
    match error {
        DataError::Transform { cause, .. } => {
            DataError::Transform { picture: dataset.images[image as usize].name.clone(), cause }
        }
        other => other,
    }
}

/// Writes the input of one picture or clip, `[3, t, h, w]`; `plan` makes the augmentation of a width and a height.
fn write_input(
    transform: &Transform,
    picture: &Picture<'_>,
    plan: impl FnOnce(usize, usize) -> Augmentation,
    scratch: &mut Scratch,
    input: &mut [f32],
) -> Result<(), DataError> {
    let plan = plan(picture.width, picture.height);
    let plane = transform.size() * transform.size();
    let [red, green, blue] = split_in_three(input);
    let planes = red.chunks_exact_mut(plane).zip(green.chunks_exact_mut(plane)).zip(blue.chunks_exact_mut(plane));
    for (pixels, ((r, g), b)) in picture.frames().zip(planes) {
        let frame = RgbView::new(picture.width, picture.height, pixels)?;
        transform.apply(frame, &plan, scratch, [r, g, b])?;
    }
    Ok(())
}

fn split_in_three(values: &mut [f32]) -> [&mut [f32]; 3] {
    let third = values.len() / 3;
    let (first, rest) = values.split_at_mut(third);
    let (second, last) = rest.split_at_mut(third);
    [first, second, last]
}
