//! Evaluation: every image of a split once, and every caption, in the order of the dataset.

use std::sync::Arc;

use super::parallel::{Scratches, for_each_part};
use super::{Batches, OnBad, Pictures, SkipRecord, named, write_input};
use crate::data::caption::{self, MAX_WORDS};
use crate::data::tokens::{TokenBatch, Tokenizer};
use crate::data::transform::{Augmentation, Transform};
use crate::data::{DataError, Dataset, Skipped};

/// `n` images under the test transform.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageBatch {
    /// Indices into [`Dataset::images`], `[n]`.
    pub images: Vec<u32>,
    /// Shape of the pixels: `[n, 3, t, h, w]`; `t` is 1 for pictures.
    pub shape: [usize; 5],
    /// Normalised pixels.
    pub pixels: Vec<f32>,
}

/// Which images an [`ImageLoader`] gives, and how.
#[derive(Clone, Debug)]
pub struct ImageOptions {
    /// The images, indices into [`Dataset::images`], such as those of [`Dataset::gallery`].
    pub images: Vec<u32>,
    /// Images in a batch.
    pub batch: usize,
    /// Frames of a clip; 1 for pictures.
    pub frames: usize,
    /// What happens at pictures that cannot be read.
    pub on_bad: OnBad,
}

/// Gives images in order, `batch` at a time; the last batch may be smaller.
#[derive(Debug)]
pub struct ImageLoader<P> {
    dataset: Arc<Dataset>,
    pictures: P,
    transform: Transform,
    options: ImageOptions,
    scratches: Scratches,
    skipped: SkipRecord,
}

impl<P: Pictures> ImageLoader<P> {
    /// A loader of the images of `options`.
    pub fn new(dataset: Arc<Dataset>, pictures: P, transform: Transform, options: ImageOptions) -> Self {
        let options = ImageOptions { batch: options.batch.max(1), ..options };
        Self { dataset, pictures, transform, options, scratches: Scratches::default(), skipped: SkipRecord::default() }
    }

    /// Pictures that could not be used so far and are in no batch.
    pub fn skipped(&self) -> Vec<Skipped> {
        self.skipped.to_vec()
    }

    /// Batch `step`, prepared by `threads` threads; without the pictures that are skipped.
    pub fn batch(&self, step: u64, threads: usize) -> Result<ImageBatch, DataError> {
        let ImageOptions { images, batch, frames, on_bad } = &self.options;
        let images = part(images, step, *batch);
        let (t, size) = (*frames, self.transform.size());
        let sample = 3 * t * size * size;
        let mut pixels = vec![0.0; images.len() * sample];
        let kept = for_each_part(&mut pixels, sample, threads, &self.scratches, |at, input, scratch| {
            let written = self
                .pictures
                .load(images[at] as usize)
                .and_then(|picture| picture.with_frames(t))
                .and_then(|picture| write_input(&self.transform, &picture, Augmentation::none, scratch, input))
                .map_err(|error| named(error, &self.dataset, images[at]));
            match written {
                Ok(()) => Ok(true),
                Err(error) if *on_bad == OnBad::Fail => Err(error),
                Err(error) => {
                    self.skipped.add(&self.dataset, images[at], &error);
                    Ok(false)
                }
            }
        })?;
        let images: Vec<u32> = images.iter().zip(&kept).filter(|&(_, &kept)| kept).map(|(&image, _)| image).collect();
        keep_parts(&mut pixels, sample, &kept);
        Ok(ImageBatch { shape: [images.len(), 3, t, size, size], images, pixels })
    }
}

/// `n` captions.
#[derive(Clone, Debug, PartialEq)]
pub struct CaptionBatch {
    /// Indices into [`Dataset::captions`], `[n]`.
    pub captions: Vec<u32>,
    /// Tokens of the cleaned captions.
    pub tokens: TokenBatch,
}

/// Gives captions in order, `batch` at a time; the last batch may be smaller.
#[derive(Debug)]
pub struct CaptionLoader {
    dataset: Arc<Dataset>,
    tokenizer: Arc<Tokenizer>,
    captions: Vec<u32>,
    batch: usize,
}

impl CaptionLoader {
    /// A loader of `captions`, indices into `dataset.captions`, such as those of [`Dataset::gallery`].
    pub fn new(dataset: Arc<Dataset>, tokenizer: Arc<Tokenizer>, captions: Vec<u32>, batch: usize) -> Self {
        Self { dataset, tokenizer, captions, batch: batch.max(1) }
    }

    /// Batch `step`.
    pub fn batch(&self, step: u64) -> Result<CaptionBatch, DataError> {
        let captions = part(&self.captions, step, self.batch).to_vec();
        let text = |&index: &u32| caption::clean(&self.dataset.captions[index as usize].text, MAX_WORDS);
        let cleaned: Vec<_> = captions.iter().map(text).collect();
        let tokens = self.tokenizer.encode(&cleaned)?;
        Ok(CaptionBatch { captions, tokens })
    }
}

impl<P: Pictures + 'static> Batches for ImageLoader<P> {
    type Batch = ImageBatch;

    fn batch(&self, step: u64, threads: usize) -> Result<ImageBatch, DataError> {
        self.batch(step, threads)
    }

    fn len(&self) -> Option<u64> {
        Some(self.options.images.len().div_ceil(self.options.batch) as u64)
    }
}

impl Batches for CaptionLoader {
    type Batch = CaptionBatch;

    fn batch(&self, step: u64, _threads: usize) -> Result<CaptionBatch, DataError> {
        self.batch(step)
    }

    fn len(&self) -> Option<u64> {
        Some(self.captions.len().div_ceil(self.batch) as u64)
    }
}

/// Elements `step * size ..` of `all`, at most `size` of them.
fn part(all: &[u32], step: u64, size: usize) -> &[u32] {
    let first = usize::try_from(step).unwrap_or(usize::MAX).saturating_mul(size).min(all.len());
    &all[first..all.len().min(first.saturating_add(size))]
}

/// Moves the parts that are kept to the front and cuts the rest.
fn keep_parts(values: &mut Vec<f32>, part: usize, kept: &[bool]) {
    let mut end = 0;
    for (position, _) in kept.iter().enumerate().filter(|&(_, &kept)| kept) {
        values.copy_within(position * part..(position + 1) * part, end);
        end += part;
    }
    values.truncate(end);
}
