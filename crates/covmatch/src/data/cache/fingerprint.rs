//! What a cache's contents depend on, as one number.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::data::{DataError, Image, Location};

/// A number that changes with the names, places, lengths and dates of the pictures and with how they are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Fingerprint {
    /// The fingerprint of `images` decoded with `settings`, such as a limit of pixels or a number of frames.
    pub fn new(images: &[Image], settings: &str) -> Result<Self, DataError> {
        let mut hash = Hash::new();
        let mut files = HashMap::new();
        hash.add(settings.as_bytes());
        for image in images {
            hash.add(image.name.as_bytes());
            hash.add(format!("{:?}", image.location).as_bytes());
            for path in paths(&image.location) {
                let (length, seconds) = match files.get(path) {
                    Some(&known) => known,
                    None => *files.entry(path.clone()).or_insert(length_and_date(path)?),
                };
                hash.add(&length.to_le_bytes());
                hash.add(&seconds.to_le_bytes());
            }
        }
        Ok(Self(hash.0))
    }
}

/// The files that hold the bytes of `location`.
fn paths(location: &Location) -> &[PathBuf] {
    match location {
        Location::File(path) => std::slice::from_ref(path),
        Location::Range { file, .. } | Location::Parquet { file, .. } => std::slice::from_ref(file),
        Location::Frames(paths) => paths,
        Location::Scene(_) => &[],
    }
}

/// Bytes, and nanoseconds of the last change since 1970 (0 where the system does not know).
fn length_and_date(path: &Path) -> Result<(u64, u128), DataError> {
    let data = path.metadata().map_err(|cause| DataError::Read { path: path.display().to_string(), cause })?;
    let date = data.modified().ok().and_then(|date| date.duration_since(UNIX_EPOCH).ok());
    Ok((data.len(), date.map_or(0, |date| date.as_nanos())))
}

/// FNV-1a over fields of any length, each followed by its length.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, field: &[u8]) {
        let length = (field.len() as u64).to_le_bytes();
        for &byte in field.iter().chain(&length) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::data::Split;

    fn image(name: &str, location: Location) -> Image {
        Image { name: name.into(), location, split: Split::Train }
    }

    #[test]
    fn it_changes_with_names_order_settings_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jpg");
        std::fs::write(&path, "12").unwrap();
        let images = [image("a", Location::File(path.clone())), image("b", Location::Scene(3))];
        let base = Fingerprint::new(&images, "max_pixels=9").unwrap();
        assert_eq!(base, Fingerprint::new(&images, "max_pixels=9").unwrap());

        let renamed = [image("A", images[0].location.clone()), images[1].clone()];
        let swapped = [images[1].clone(), images[0].clone()];
        for other in [&renamed, &swapped] {
            assert_ne!(base, Fingerprint::new(other, "max_pixels=9").unwrap());
        }
        assert_ne!(base, Fingerprint::new(&images, "max_pixels=8").unwrap());
        std::fs::write(&path, "123").unwrap();
        assert_ne!(base, Fingerprint::new(&images, "max_pixels=9").unwrap());
    }

    #[test]
    fn a_missing_file_is_named() {
        let missing = [image("gone", Location::File("no/such/picture.jpg".into()))];
        let error = Fingerprint::new(&missing, "").unwrap_err();
        assert!(error.to_string().contains("no/such/picture.jpg"), "{error}");
    }
}
