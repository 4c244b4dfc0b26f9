//! Decoded pictures kept in a file, so that later epochs only crop and resize.
//!
//! The file holds the full decoded pixels: a batch has the same bytes with and without the cache. It is filled as
//! pictures are first decoded, up to a limit; what does not fit is decoded every time. The file's name is a
//! [`Fingerprint`] of the pictures and of how they are decoded: when either changes, another file is used.
//!
//! ```text
//! header | a slot a picture: where its record lies, or 0 | record | record | ...
//! ```
//! A record is written whole before its slot is set, in one atomic store: a process that is killed leaves a record that
//! no slot points to. Several processes may fill one file at the same time: places are given out by an atomic counter
//! in the header. A record's checksum is verified when a process first reads it; a damaged one (after a power cut, say)
//! is decoded and written again.

mod file;
mod fingerprint;

pub use fingerprint::Fingerprint;

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::DataError;
use super::loader::{Picture, Pictures};
use file::CacheFile;

/// How often a cache was of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Pictures taken from the cache.
    pub hits: u64,
    /// Pictures decoded and stored.
    pub stored: u64,
    /// Pictures decoded but not stored, because the limit or the disk is reached.
    pub refused: u64,
}

/// Pictures from `P`, each decoded once.
#[derive(Debug)]
pub struct Cached<P> {
    pictures: P,
    file: CacheFile,
    hits: AtomicU64,
    stored: AtomicU64,
    refused: AtomicU64,
}

impl<P: Pictures> Cached<P> {
    /// Caches the `count` pictures of `pictures` in a file of at most `limit` bytes in `folder`, which is made if it is
    /// not there.
    pub fn open(
        pictures: P,
        count: usize,
        folder: &Path,
        fingerprint: Fingerprint,
        limit: u64,
    ) -> Result<Self, DataError> {
        let file = CacheFile::open(folder, fingerprint, count, limit)?;
        Ok(Self { pictures, file, hits: 0.into(), stored: 0.into(), refused: 0.into() })
    }

    /// How often the cache was of use to this process.
    pub fn counts(&self) -> CacheCounts {
        let [hits, stored, refused] =
            [&self.hits, &self.stored, &self.refused].map(|count| count.load(Ordering::Relaxed));
        CacheCounts { hits, stored, refused }
    }
}

impl<P: Pictures> Pictures for Cached<P> {
    fn load(&self, image: usize) -> Result<Picture<'_>, DataError> {
        if let Some(record) = self.file.get(image) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            let [count, width, height] = record.shape.map(|side| side as usize);
            return Ok(Picture { count, width, height, pixels: Cow::Borrowed(record.pixels) });
        }
        let picture = self.pictures.load(image)?;
        let shape = [picture.count, picture.width, picture.height].map(|side| side as u32);
        let counter = if self.file.put(image, shape, &picture.pixels) { &self.stored } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(picture)
    }
}
