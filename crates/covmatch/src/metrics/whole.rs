//! Files that are written whole or not at all.
//!
//! The bytes go to a partial file in the same folder, reach the disk, and then take the name of the file in one step: a
//! reader sees the old content or the new one, never a part.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Puts `bytes` in the place of whatever `path` holds.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let partial = path.with_file_name(format!(".{}.{}.partial", name.to_string_lossy(), std::process::id()));
    let written = write_synced(&partial, bytes).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial); // the first error is the one to report
    }
    written
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn new_bytes_take_the_place_of_the_old_ones_and_nothing_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_whole(&path, b"a long first content").unwrap();
        write_whole(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(folder.path()), ["a.txt"]);
    }

    #[test]
    fn a_failed_write_leaves_no_partial_file() {
        let folder = tempfile::tempdir().unwrap();
        let occupied = folder.path().join("occupied");
        fs::create_dir(&occupied).unwrap();
        assert!(write_whole(&occupied, b"bytes").is_err());
        assert_eq!(names(folder.path()), ["occupied"]);
        assert_eq!(write_whole(Path::new("/"), b"").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
