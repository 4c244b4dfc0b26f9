//! The memory-mapped file of a cache.
//!
//! All numbers are of the machine that wrote the file (a cache is never moved): header of 64 bytes (magic, fingerprint,
//! number of slots, first free byte), then 8 bytes a slot, then records at multiples of 64 bytes: image, frames, width,
//! height (4 bytes each), checksum (8), pixels.
//!
//! Records are written through the file and not through the map, so that a full disk is an error and not a signal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use memmap2::MmapRaw;

use super::Fingerprint;
use crate::data::DataError;

const MAGIC: u64 = u64::from_ne_bytes(*b"covpix01");
const HEADER: usize = 64;
const SLOT: usize = 8;
const RECORD_HEADER: usize = 24;
const ALIGNMENT: u64 = 64;
/// Where the header has the first free byte.
const FREE: usize = 24;

/// The file and what this process knows of it.
#[derive(Debug)]
pub(super) struct CacheFile {
    map: MmapRaw,
    writer: Mutex<File>,
    slots: usize,
    limit: u64,
    /// Records whose checksum this process has verified or written.
    verified: Vec<AtomicBool>,
    disk_is_full: AtomicBool,
}

/// One picture in the file.
pub(super) struct Record<'a> {
    /// Frames, width, height.
    pub(super) shape: [u32; 3],
    pub(super) pixels: &'a [u8],
}

impl CacheFile {
    /// Opens or makes the file of `fingerprint` in `folder`, for `slots` pictures and at most `limit` bytes.
    pub(super) fn open(folder: &Path, fingerprint: Fingerprint, slots: usize, limit: u64) -> Result<Self, DataError> {
        let path = folder.join(format!("decoded-{fingerprint}.cache"));
        let opened = fs::create_dir_all(folder).and_then(|()| open_or_make(&path, fingerprint, slots, limit));
        let (writer, map) = opened.map_err(|cause| DataError::Cache { path: path.display().to_string(), cause })?;
        let verified = (0..slots).map(|_| AtomicBool::new(false)).collect();
        let disk_is_full = AtomicBool::new(false);
        let opened = Self { map, writer: Mutex::new(writer), slots, limit, verified, disk_is_full };
        opened.protect_records();
        Ok(opened)
    }

    /// Moves the first free byte behind the last record: after a power cut it may be older than the slots.
    fn protect_records(&self) {
        let last = (0..self.slots).map(|image| (self.slot(image).load(Ordering::Acquire), image)).max();
        let end = last.and_then(|(at, image)| Some(at + (RECORD_HEADER + self.record(image, at)?.pixels.len()) as u64));
        if let Some(end) = end {
            self.number(FREE).fetch_max(end.next_multiple_of(ALIGNMENT), Ordering::Relaxed);
        }
    }

    /// The picture of `image`, if it was stored and is whole.
    pub(super) fn get(&self, image: usize) -> Option<Record<'_>> {
        if image >= self.slots {
            return None;
        }
        let record = self.record(image, self.slot(image).load(Ordering::Acquire))?;
        if !self.verified[image].load(Ordering::Relaxed) {
            let stored = u64::from_ne_bytes(*record.header.get(16..24)?.first_chunk()?);
            if stored != checksum(record.header, record.pixels) {
                return None;
            }
            self.verified[image].store(true, Ordering::Relaxed);
        }
        Some(Record { shape: record.shape, pixels: record.pixels })
    }

    /// Stores the picture of `image`; false if there is no room.
    pub(super) fn put(&self, image: usize, shape: [u32; 3], pixels: &[u8]) -> bool {
        if image >= self.slots || self.disk_is_full.load(Ordering::Relaxed) {
            return false;
        }
        let before = self.slot(image).load(Ordering::Acquire);
        let Some(at) = self.reserve(RECORD_HEADER as u64 + pixels.len() as u64) else { return false };
        let mut header = [0; RECORD_HEADER];
        for (field, value) in header.chunks_exact_mut(4).zip([image as u32, shape[0], shape[1], shape[2]]) {
            field.copy_from_slice(&value.to_ne_bytes());
        }
        let sum = checksum(&header, pixels);
        header[16..].copy_from_slice(&sum.to_ne_bytes());
        if self.write(at, &header, pixels).is_err() {
            self.disk_is_full.store(true, Ordering::Relaxed);
            return false;
        }
        // The record is whole: only now may others see it. If another process was faster, its record stays.
        let published = self.slot(image).compare_exchange(before, at, Ordering::Release, Ordering::Relaxed).is_ok();
        if published {
            self.verified[image].store(true, Ordering::Relaxed);
        }
        true
    }

    fn write(&self, at: u64, header: &[u8], pixels: &[u8]) -> io::Result<()> {
        let mut file = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(at))?;
        file.write_all(header)?;
        file.write_all(pixels)
    }

    /// The place of a record of `length` bytes that no other process or thread has.
    fn reserve(&self, length: u64) -> Option<u64> {
        let end = self.limit.min(self.map.len() as u64);
        let length = length.next_multiple_of(ALIGNMENT);
        let after = |free: u64| free.checked_add(length).filter(|&after| after <= end);
        self.number(FREE).fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).ok()
    }

    /// The record of `image` at byte `at`, if what is there can be one.
    fn record(&self, image: usize, at: u64) -> Option<RawRecord<'_>> {
        let at = usize::try_from(at).ok().filter(|&at| at >= first_record(self.slots))?;
        let header = self.bytes(at, RECORD_HEADER)?;
        let field = |i: usize| header.get(i * 4..).and_then(|rest| rest.first_chunk()).map(|b| u32::from_ne_bytes(*b));
        let shape = [field(1)?, field(2)?, field(3)?];
        let length = shape.iter().try_fold(3usize, |product, &side| product.checked_mul(side as usize))?;
        let pixels = self.bytes(at + RECORD_HEADER, length)?;
        (field(0)? as usize == image).then_some(RawRecord { header, shape, pixels })
    }

    /// Bytes of a record that a slot points to.
    fn bytes(&self, at: usize, length: usize) -> Option<&[u8]> {
        let end = at.checked_add(length)?;
        if end > self.map.len() {
            return None;
        }
        // SAFETY: the range lies in the map, which lives as long as `self`. A record is written before its slot is set
        // and its bytes are never given out again, so nobody writes to them while the slice lives; the file is never
        // made shorter.
        Some(unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(at), length) })
    }

    fn slot(&self, image: usize) -> &AtomicU64 {
        self.number(HEADER + image * SLOT)
    }

    /// The 8 bytes at `at`, which lie in the header or in a slot.
    fn number(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= first_record(self.slots));
        // SAFETY: header and slots lie in the map (`open_or_make` checks its length), the map begins at a page and `at`
        // is a multiple of 8, and every access to header and slots of an open file is atomic.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(at).cast()) }
    }
}

struct RawRecord<'a> {
    header: &'a [u8],
    shape: [u32; 3],
    pixels: &'a [u8],
}

fn first_record(slots: usize) -> usize {
    (HEADER + slots * SLOT).next_multiple_of(ALIGNMENT as usize)
}

/// Opens the file at `path`; makes it if it is not there or is not the cache of `fingerprint`.
fn open_or_make(path: &Path, fingerprint: Fingerprint, slots: usize, limit: u64) -> io::Result<(File, MmapRaw)> {
    match open(path, fingerprint, slots, limit) {
        Ok(Some(opened)) => return Ok(opened),
        Ok(None) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    make(path, fingerprint, slots)?;
    open(path, fingerprint, slots, limit)?.ok_or_else(|| io::Error::other("it was replaced while it was opened"))
}

fn open(path: &Path, fingerprint: Fingerprint, slots: usize, limit: u64) -> io::Result<Option<(File, MmapRaw)>> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut header = [0; HEADER];
    let complete = file.metadata()?.len() >= first_record(slots) as u64;
    if !complete || io::Read::read_exact(&mut &file, &mut header).is_err() {
        return Ok(None);
    }
    if header[..FREE] != header_of(fingerprint, slots)[..FREE] {
        return Ok(None);
    }
    // The file is sparse: bytes that were never written take no room.
    if file.metadata()?.len() < limit {
        file.set_len(limit)?;
    }
    let map = MmapRaw::map_raw(&file)?;
    Ok(Some((file, map)))
}

/// Writes an empty cache beside `path` and puts it in its place.
fn make(path: &Path, fingerprint: Fingerprint, slots: usize) -> io::Result<()> {
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let mut file = File::create(&draft)?;
    file.write_all(&header_of(fingerprint, slots))?;
    file.write_all(&vec![0; first_record(slots) - HEADER])?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

fn header_of(fingerprint: Fingerprint, slots: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let fields = [MAGIC, fingerprint.0, slots as u64, first_record(slots) as u64];
    for (field, value) in header.chunks_exact_mut(8).zip(fields) {
        field.copy_from_slice(&value.to_ne_bytes());
    }
    header
}

/// A checksum of a record: four lanes of multiply and rotate over 32 bytes at a time, then what is left.
fn checksum(header: &[u8], pixels: &[u8]) -> u64 {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(PRIME).rotate_left(29);
    let mut lanes = [1u64, 2, 3, 4];
    let (blocks, rest) = pixels.as_chunks::<32>();
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    let rest = rest.iter().chain(&header[..16]).fold(pixels.len() as u64, |sum, &byte| mix(sum, u64::from(byte)));
    lanes.into_iter().fold(rest, mix)
}
