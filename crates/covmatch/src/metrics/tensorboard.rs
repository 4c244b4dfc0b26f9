//! Scalars as an event file that TensorBoard reads.
//!
//! The file is a sequence of records (TFRecord), all numbers little-endian:
//! ```text
//! u64 length | u32 masked(crc32c(length)) | data | u32 masked(crc32c(data))
//! masked(c) = rotate_right(c, 15) + 0xa282ead8
//! ```
//! Each record's data is one protobuf message of tensorflow/core/util/event.proto, of which we write
//! ```text
//! Event      { 1: double wall_time, 2: int64 step, 3: string file_version, 5: Summary, 7: SessionLog }
//! Summary    { 1: Value }     Value { 1: string tag, 2: float simple_value }
//! SessionLog { 1: enum status (START = 1) }
//! ```
//! A scalar is one record in one write, so a run that is killed leaves a file that reads up to its last whole record.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::{MetricsError, unix_time};

const VERSION: &str = "brain.Event:2";
const CRC_MASK: u32 = 0xa282_ead8;

/// An event file of one run.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: File,
}

impl EventFile {
    /// Starts a new file in `folder`, which is made if it is not there.
    ///
    /// Its name is `events.out.tfevents.<unix seconds>.<host>`, with `.1`, `.2`, ... after it while the name is taken:
    /// TensorBoard reads all event files of a folder as one run, in the order of their names.
    ///
    /// # Errors
    /// When the folder or the file cannot be written.
    pub fn create(folder: impl AsRef<Path>) -> Result<Self, MetricsError> {
        let (folder, now) = (folder.as_ref(), unix_time());
        let name = format!("events.out.tfevents.{}.{}", now as u64, host());
        let (path, file) =
            fs::create_dir_all(folder).and_then(|()| create_new(folder, &name)).map_err(MetricsError::write(folder))?;
        let mut events = Self { path, file };
        events.record(&event(now, 0, |data| text_field(data, 3, VERSION.as_bytes())))?;
        Ok(events)
    }

    /// Adds `value` to the curve `tag`. `wall_time` is in seconds since 1970, see [`unix_time`].
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn scalar(&mut self, tag: &str, step: i64, value: f32, wall_time: f64) -> Result<(), MetricsError> {
        let mut point = Vec::new();
        text_field(&mut point, 1, tag.as_bytes());
        point.push(key(2, FIXED32));
        point.extend(value.to_le_bytes());
        let mut summary = Vec::new();
        text_field(&mut summary, 1, &point);
        self.record(&event(wall_time, step, |data| text_field(data, 5, &summary)))
    }

    /// Says that the run starts again at `step`: of what older files hold, TensorBoard forgets that step and all after.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn restart(&mut self, step: i64, wall_time: f64) -> Result<(), MetricsError> {
        const STATUS_START: [u8; 2] = [key(1, VARINT), 1];
        self.record(&event(wall_time, step, |data| text_field(data, 7, &STATUS_START)))
    }

    /// Where the events go.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn record(&mut self, data: &[u8]) -> Result<(), MetricsError> {
        self.file.write_all(&framed(data)).map_err(MetricsError::write(&self.path))
    }
}

/// The first of `name`, `name.1`, `name.2`, ... that does not exist yet.
fn create_new(folder: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    let mut path = folder.join(name);
    for n in 1..10_000 {
        match OpenOptions::new().append(true).create_new(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => path = folder.join(format!("{name}.{n}")),
            opened => return opened.map(|file| (path, file)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// The name of this machine as far as it can stand in a file name, else `covmatch`.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    file_name_part(&name.unwrap_or_default()).unwrap_or_else(|| "covmatch".to_owned())
}

fn file_name_part(name: &str) -> Option<String> {
    let name = name.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (!name.is_empty() && name.chars().all(fits)).then(|| name.to_owned())
}

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

/// The byte before a protobuf field; `wire` says how its value is written.
const fn key(field: u8, wire: u8) -> u8 {
    field << 3 | wire
}

/// An event; `what` adds the field that says which kind.
fn event(wall_time: f64, step: i64, what: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut data = vec![key(1, FIXED64)];
    data.extend(wall_time.to_le_bytes());
    data.push(key(2, VARINT));
    varint(&mut data, step.cast_unsigned());
    what(&mut data);
    data
}

/// A text, or a message inside a message: both are a length and bytes.
fn text_field(data: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    data.push(key(field, BYTES));
    varint(data, bytes.len() as u64);
    data.extend(bytes);
}

/// Seven bits a byte, the lowest first; the high bit says that more follow.
fn varint(data: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        data.push(value as u8 | 0x80);
        value >>= 7;
    }
    data.push(value as u8);
}

/// `data` as a TFRecord.
fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let [length_check, data_check] = [&length[..], data].map(|bytes| masked(crc32c(bytes)).to_le_bytes());
    [&length[..], &length_check, data, &data_check].concat()
}

/// A CRC that is stored beside the data it covers, so that the CRC of both does not degenerate.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(CRC_MASK)
}

/// CRC-32C (Castagnoli): reflected polynomial 0x82f63b78, start and end inverted.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| CRC_TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

/// The CRC of each byte alone.
const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The data of all records; panics when a length or a check does not hold.
    fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
            let (length_check, rest) = rest.split_first_chunk::<4>().unwrap();
            assert_eq!(u32::from_le_bytes(*length_check), masked(crc32c(length)));
            let (data, rest) = rest.split_at(u64::from_le_bytes(*length) as usize);
            let (data_check, rest) = rest.split_first_chunk::<4>().unwrap();
            assert_eq!(u32::from_le_bytes(*data_check), masked(crc32c(data)));
            found.push(data.to_vec());
            bytes = rest;
        }
        found
    }

    #[test]
    fn crc32c_matches_the_vectors_of_rfc_3720() {
        let rising: Vec<u8> = (0..32).collect();
        let falling: Vec<u8> = (0..32).rev().collect();
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&rising), 0x46dd_794e);
        assert_eq!(crc32c(&falling), 0x113f_db5c);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn the_mask_rotates_and_adds() {
        assert_eq!(masked(0), 0xa282_ead8);
        assert_eq!(masked(0x0000_8000), 0xa282_ead9);
        assert_eq!(masked(0x0000_0001), 0xa284_ead8);
    }

    #[test]
    fn a_file_is_its_version_and_then_a_record_a_scalar() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = EventFile::create(folder.path().join("new").join("run")).unwrap();
        events.scalar("loss/total", 300, 0.5, 1.0).unwrap();
        events.scalar("loss/total", 301, 0.25, 2.0).unwrap();
        let found = records(&fs::read(events.path()).unwrap());
        assert_eq!(found.len(), 3);
        assert!(found[0].ends_with(b"\x1a\x0dbrain.Event:2"));
        let mut scalar = vec![0x09];
        scalar.extend(1.0f64.to_le_bytes());
        scalar.extend(b"\x10\xac\x02\x2a\x13\x0a\x11\x0a\x0aloss/total\x15\x00\x00\x00\x3f");
        assert_eq!(found[1], scalar);
        assert_ne!(found[1], found[2]);
    }

    #[test]
    fn a_restart_is_a_session_that_starts() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = EventFile::create(folder.path()).unwrap();
        events.restart(7, 0.0).unwrap();
        let found = records(&fs::read(events.path()).unwrap());
        assert_eq!(found[1], b"\x09\0\0\0\0\0\0\0\0\x10\x07\x3a\x02\x08\x01");
    }

    #[test]
    fn a_flipped_bit_breaks_the_check() {
        let mut bytes = framed(b"data");
        assert_eq!(records(&bytes), [b"data"]);
        bytes[13] ^= 4;
        assert!(std::panic::catch_unwind(|| records(&bytes)).is_err());
    }

    #[test]
    fn steps_of_any_size_and_sign_are_written_in_seven_bits_a_byte() {
        let written = |step: i64| {
            let mut data = Vec::new();
            varint(&mut data, step.cast_unsigned());
            data
        };
        assert_eq!(written(0), [0]);
        assert_eq!(written(127), [127]);
        assert_eq!(written(128), [0x80, 1]);
        assert_eq!(written(-1), [&[0xff; 9][..], &[1]].concat());
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let folder = tempfile::tempdir().unwrap();
        for expected in ["e", "e.1", "e.2"] {
            let (path, _) = create_new(folder.path(), "e").unwrap();
            assert_eq!(path, folder.path().join(expected));
        }
    }

    #[test]
    fn the_name_is_one_that_tensorboard_looks_for() {
        let folder = tempfile::tempdir().unwrap();
        let events = EventFile::create(folder.path()).unwrap();
        let name = events.path().file_name().unwrap().to_str().unwrap().to_owned();
        let (seconds, host) = name.strip_prefix("events.out.tfevents.").unwrap().split_once('.').unwrap();
        assert!((unix_time() - seconds.parse::<f64>().unwrap()).abs() < 60.0, "{name}");
        assert!(!host.is_empty());
    }

    #[test]
    fn a_host_that_fits_no_file_name_is_not_used() {
        assert_eq!(file_name_part("gpu-01.lab\n").as_deref(), Some("gpu-01.lab"));
        assert_eq!(file_name_part("a/b"), None);
        assert_eq!(file_name_part("\n"), None);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::write(&taken, "").unwrap();
        let error = EventFile::create(&taken).unwrap_err().to_string();
        assert!(error.contains(&taken.display().to_string()), "{error}");
    }
}
