//! What a dataset holds, and what is wrong with it, before anything is learned from it.
//!
//! [`inspect`] reads every picture once, on all threads, and keeps a size and a hash of each: the report's memory grows
//! with names, never with pixels. [`Findings`] serialises for programs; its `Display` is the table for people.
//! [`contact_sheet`] draws some of the pictures with their captions.
//!
//! ```no_run
//! use covmatch::data::inspect::{Access, SheetConfig, contact_sheet, inspect, save_png};
//! use covmatch::data::{library::Library, source, tokens::Tokenizer};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dataset = source::open(&source::SourceConfig::new("flickr8k"))?;
//! let (library, tokenizer) = (Library::default(), Tokenizer::open("tokenizer.json".as_ref())?);
//! let access = Access {
//!     picture: &|image| library.picture(image),
//!     tokens: Some(&|caption| tokenizer.ids(caption).map(|ids| ids.len())),
//!     progress: &|_done, _total| {},
//! };
//! let report = inspect(&dataset, &access)?;
//! save_png(&contact_sheet(&dataset, &access, &SheetConfig::default()), "sheet.png".as_ref())?;
//! # Ok(()) }
//! ```

mod findings;
mod font;
mod sheet;
mod statistics;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

pub use findings::{
    CaptionCounts, Findings, ImageName, Lengths, Range, RepeatedCaptions, Sizes, SplitCounts, Unreadable,
};
pub use sheet::{SheetCell, SheetConfig, SheetError, contact_sheet, encode_png, save_png, sheet};

use super::caption::{MAX_WORDS, clean};
use super::{DataError, Dataset, Image, RgbImage, Split};

/// Loads the pixels of an image (of a clip: of one frame).
pub type LoadPicture<'a> = &'a (dyn Fn(&Image) -> Result<RgbImage, DataError> + Sync);

/// Counts the tokens of a cleaned caption.
pub type CountTokens<'a> = &'a (dyn Fn(&str) -> Result<usize, DataError> + Sync);

/// How to get at what a dataset only points to.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    /// Loads pixels.
    pub picture: LoadPicture<'a>,
    /// Counts tokens; without it the report has no token lengths.
    pub tokens: Option<CountTokens<'a>>,
    /// Called with (pictures read, pictures in all) after each picture, from any thread.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
}

/// Reads the whole of `dataset` and reports on it. A picture that cannot be read is an entry of the report.
///
/// # Errors
/// When the tokenizer fails.
pub fn inspect(dataset: &Dataset, access: &Access<'_>) -> Result<Findings, DataError> {
    let cleaned: Vec<String> = dataset.captions.par_iter().map(|c| clean(&c.text, usize::MAX)).collect();
    let words: Vec<usize> = cleaned.par_iter().map(|text| text.split_whitespace().count()).collect();
    let tokens = access.tokens.map(|count| token_lengths(&cleaned, count)).transpose()?;
    let pictures = read_pictures(dataset, access);
    let unreadable = dataset.images.iter().zip(&pictures).filter_map(|(image, picture)| {
        let cause = picture.as_ref().err()?.clone();
        Some(Unreadable { name: image.name.clone(), split: image.split.to_string(), cause })
    });
    let same = same_pictures(dataset, &pictures);
    Ok(Findings {
        images: dataset.images.len(),
        captions: dataset.captions.len(),
        splits: Split::ALL.iter().filter_map(|&split| split_counts(dataset, split)).collect(),
        captions_per_image: CaptionCounts::new(&captions_per_image(dataset)),
        over_word_limit: words.iter().filter(|&&count| count > MAX_WORDS).count(),
        word_limit: MAX_WORDS,
        words: Lengths::new(words),
        tokens: tokens.and_then(Lengths::new),
        sizes: Sizes::new(pictures.iter().flatten().map(|picture| (picture.width, picture.height))),
        shared_images: same.iter().filter(|group| spans_splits(group)).cloned().collect(),
        duplicate_images: same,
        repeated_captions: repeated_captions(&cleaned),
        skipped: dataset.skipped.iter().map(|s| (s.name.clone(), s.cause.clone())).collect(),
        unreadable: unreadable.collect(),
    })
}

/// Lengths after cleaning to the protocol's number of words, as an encoder sees them.
fn token_lengths(cleaned: &[String], count: CountTokens<'_>) -> Result<Vec<usize>, DataError> {
    cleaned.par_iter().map(|text| count(&clean(text, MAX_WORDS))).collect()
}

/// What is kept of a picture.
struct Picture {
    width: usize,
    height: usize,
    hash: u64,
}

/// Every picture's size and hash, or why it cannot be read.
fn read_pictures(dataset: &Dataset, access: &Access<'_>) -> Vec<Result<Picture, String>> {
    let done = AtomicUsize::new(0);
    let read = |image: &Image| {
        let picture =
            (access.picture)(image).map(|rgb| Picture { width: rgb.width, height: rgb.height, hash: hash(&rgb) });
        (access.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, dataset.images.len());
        picture.map_err(|error| error.to_string())
    };
    dataset.images.par_iter().map(read).collect()
}

/// A 64-bit hash of size and pixels: FNV-1a over words of eight bytes, with the high bits stirred in.
fn hash(picture: &RgbImage) -> u64 {
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0u64, |word, &byte| (word << 8) | u64::from(byte));
    let stir = |state: u64, word: u64| {
        let state = (state ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        state ^ (state >> 29)
    };
    let (eights, rest) = picture.pixels.as_chunks::<8>();
    let state = stir(stir(0xcbf2_9ce4_8422_2325, picture.width as u64), picture.height as u64);
    let state = eights.iter().fold(state, |state, eight| stir(state, u64::from_le_bytes(*eight)));
    stir(state, word(rest))
}

/// Groups of two or more images with the same pixels, in the order of the dataset.
fn same_pictures(dataset: &Dataset, pictures: &[Result<Picture, String>]) -> Vec<Vec<ImageName>> {
    let mut by_hash: HashMap<u64, Vec<usize>> = HashMap::new();
    for (i, picture) in pictures.iter().enumerate() {
        if let Ok(picture) = picture {
            by_hash.entry(picture.hash).or_default().push(i);
        }
    }
    let mut groups: Vec<Vec<usize>> = by_hash.into_values().filter(|group| group.len() > 1).collect();
    groups.sort_unstable();
    groups.iter().map(|group| group.iter().map(|&i| ImageName::of(&dataset.images[i])).collect()).collect()
}

fn spans_splits(group: &[ImageName]) -> bool {
    group.iter().any(|image| image.split != group[0].split)
}

fn captions_per_image(dataset: &Dataset) -> Vec<usize> {
    let mut counts = vec![0; dataset.images.len()];
    dataset.captions.iter().for_each(|caption| counts[caption.image as usize] += 1);
    counts
}

/// Images and captions of one split; `None` when it has no image.
fn split_counts(dataset: &Dataset, split: Split) -> Option<SplitCounts> {
    let images = dataset.images.iter().filter(|image| image.split == split).count();
    let of_split = |image: u32| dataset.images[image as usize].split == split;
    let captions = dataset.captions.iter().filter(|caption| of_split(caption.image)).count();
    (images > 0).then(|| SplitCounts { split: split.to_string(), images, captions })
}

/// Captions that occur more than once after cleaning, the most frequent first.
fn repeated_captions(cleaned: &[String]) -> RepeatedCaptions {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    cleaned.iter().for_each(|text| *counts.entry(text).or_default() += 1);
    let distinct = counts.len();
    let mut repeated: Vec<(usize, &str)> =
        counts.into_iter().filter(|(_, n)| *n > 1).map(|(text, n)| (n, text)).collect();
    repeated.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    RepeatedCaptions {
        distinct,
        copies: cleaned.len() - distinct,
        most_frequent: repeated.iter().take(10).map(|(n, text)| (text.to_string(), *n)).collect(),
    }
}
