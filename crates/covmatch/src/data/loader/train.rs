//! Training batches: pairs drawn from all train captions, pictures augmented.

use std::sync::Arc;

use super::parallel::{Scratches, for_each_part};
use super::{Batches, OnBad, Order, Pictures, SkipRecord, named, write_input};
use crate::data::caption::{self, MAX_WORDS};
use crate::data::tokens::{TokenBatch, Tokenizer};
use crate::data::transform::{Augmentation, Scratch, Transform};
use crate::data::{DataError, Dataset, Skipped, Split};
use crate::engine::Seed;

/// Other entries that are tried for one whose picture cannot be used.
const REPLACEMENTS: usize = 100;

/// The train transform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Augment {
    /// Random crop, flip and operations.
    #[default]
    Protocol,
    /// The test transform.
    None,
}

/// Which batches a [`TrainLoader`] makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainOptions {
    /// Seed of the run.
    pub seed: Seed,
    /// What the batches are for; loaders of different purposes draw independently.
    pub purpose: String,
    /// Pairs of a batch, `n`.
    pub batch: usize,
    /// Frames of a clip, `t`; 1 for pictures.
    pub frames: usize,
    /// The train transform.
    pub augment: Augment,
    /// What happens when a picture cannot be used.
    pub on_bad: OnBad,
}

/// `n` pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Indices into [`Dataset::images`], `[n]`.
    pub images: Vec<u32>,
    /// Indices into [`Dataset::captions`], `[n]`.
    pub captions: Vec<u32>,
    /// Shape of the pixels: `[n, 3, t, h, w]`; `t` is 1 for pictures.
    pub shape: [usize; 5],
    /// Normalised pixels.
    pub pixels: Vec<f32>,
    /// Tokens of the cleaned captions.
    pub tokens: TokenBatch,
}

/// Makes the training batches of one purpose.
#[derive(Debug)]
pub struct TrainLoader<P> {
    dataset: Arc<Dataset>,
    pictures: P,
    tokenizer: Arc<Tokenizer>,
    transform: Transform,
    options: TrainOptions,
    entries: Vec<u32>,
    order: Order,
    augment_purpose: String,
    replace_purpose: String,
    scratches: Scratches,
    skipped: SkipRecord,
}

impl<P: Pictures> TrainLoader<P> {
    /// A loader of the train split of `dataset`; an error if it does not fill one batch.
    pub fn new(
        dataset: Arc<Dataset>,
        pictures: P,
        tokenizer: Arc<Tokenizer>,
        transform: Transform,
        options: TrainOptions,
    ) -> Result<Self, DataError> {
        let entries = dataset.train_entries();
        let TrainOptions { seed, ref purpose, batch, .. } = options;
        let order = Order::new(entries.len(), batch, seed, purpose).ok_or(DataError::TooFewEntries {
            split: Split::Train,
            entries: entries.len(),
            batch,
        })?;
        Ok(Self {
            augment_purpose: format!("{purpose}.augment"),
            replace_purpose: format!("{purpose}.replace"),
            dataset,
            pictures,
            tokenizer,
            transform,
            options,
            entries,
            order,
            scratches: Scratches::default(),
            skipped: SkipRecord::default(),
        })
    }

    /// Batches of an epoch.
    pub fn batches_per_epoch(&self) -> u64 {
        self.order.batches_per_epoch()
    }

    /// Pictures that could not be used so far and were replaced by other entries.
    pub fn skipped(&self) -> Vec<Skipped> {
        self.skipped.to_vec()
    }

    /// Batch `step`, its pictures prepared by `threads` threads.
    pub fn batch(&self, step: u64, threads: usize) -> Result<Batch, DataError> {
        let entries = self.order.entries(step);
        let (n, t, size) = (entries.len(), self.options.frames, self.transform.size());
        let shape = [n, 3, t, size, size];
        let mut pixels = vec![0.0; shape.iter().product()];
        let first = step.wrapping_mul(n as u64);
        let captions =
            for_each_part(&mut pixels, 3 * t * size * size, threads, &self.scratches, |at, input, scratch| {
                let caption = self.entries[entries[at] as usize];
                self.write_pair(caption, first.wrapping_add(at as u64), scratch, input)
            })?;
        let images = captions.iter().map(|&caption| self.image_of(caption)).collect();
        let cleaned: Vec<_> = captions.iter().map(|&caption| self.cleaned(caption)).collect();
        let tokens = self.tokenizer.encode(&cleaned)?;
        Ok(Batch { images, captions, shape, pixels, tokens })
    }

    fn image_of(&self, caption: u32) -> u32 {
        self.dataset.captions[caption as usize].image
    }

    fn cleaned(&self, caption: u32) -> String {
        caption::clean(&self.dataset.captions[caption as usize].text, MAX_WORDS)
    }

    /// Writes the picture of `caption`, or of the replacement drawn for this sample; returns whose it is.
    fn write_pair(
        &self,
        caption: u32,
        sample: u64,
        scratch: &mut Scratch,
        input: &mut [f32],
    ) -> Result<u32, DataError> {
        let mut error = match self.write_picture(caption, sample, scratch, input) {
            Ok(()) => return Ok(caption),
            Err(error) if self.options.on_bad == OnBad::Fail => return Err(error),
            Err(error) => error,
        };
        let mut stream = self.options.seed.stream(&self.replace_purpose, sample);
        for _ in 0..REPLACEMENTS {
            let caption = self.entries[stream.below(self.entries.len() as u64) as usize];
            match self.write_picture(caption, sample, scratch, input) {
                Ok(()) => return Ok(caption),
                Err(another) => error = another,
            }
        }
        Err(error)
    }

    fn write_picture(
        &self,
        caption: u32,
        sample: u64,
        scratch: &mut Scratch,
        input: &mut [f32],
    ) -> Result<(), DataError> {
        let image = self.image_of(caption);
        let plan = |width, height| match self.options.augment {
            Augment::Protocol => {
                Augmentation::draw(width, height, &mut self.options.seed.stream(&self.augment_purpose, sample))
            }
            Augment::None => Augmentation::none(width, height),
        };
        self.pictures
            .load(image as usize)
            .and_then(|picture| picture.with_frames(self.options.frames))
            .and_then(|picture| write_input(&self.transform, &picture, plan, scratch, input))
            .map_err(|error| named(error, &self.dataset, image))
            .inspect_err(|error| self.skipped.add(&self.dataset, image, error))
    }
}

impl<P: Pictures + 'static> Batches for TrainLoader<P> {
    type Batch = Batch;

    fn batch(&self, step: u64, threads: usize) -> Result<Batch, DataError> {
        self.batch(step, threads)
    }

    fn len(&self) -> Option<u64> {
        None
    }
}
