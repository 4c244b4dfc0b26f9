//! Files that appear whole or not at all.
//!
//! Everything is written under another name in the same folder, flushed to the disk, and then renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {cause}; check that the folder exists, may be written to and has room")]
pub struct WriteError {
    /// The file.
    pub path: String,
    /// What the system says.
    pub cause: io::Error,
}

impl WriteError {
    /// `cause` as an error about `path`.
    pub fn new(path: &Path, cause: io::Error) -> Self {
        Self { path: path.display().to_string(), cause }
    }
}

/// Writes `bytes` to `path`.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write_with(path, |out| out.write_all(bytes))
}

/// Writes what `fill` produces to `path`.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), WriteError> {
    write_whole(path, fill).map_err(|cause| WriteError::new(path, cause))
}

/// [`write_with`] with the system's own error.
pub(crate) fn write_whole(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let partial = partial_of(path)?;
    let written = write_partial(&partial, fill).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial); // the first error is the one to report
    }
    written
}

fn write_partial(partial: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(partial)?);
    fill(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// The name that `path` has until it is whole.
fn partial_of(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
    Ok(path.with_file_name(format!(".{}.{}.partial", name.to_string_lossy(), std::process::id())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.bin");
        write(&path, b"old").unwrap();
        let failed = write_with(&path, |out| {
            out.write_all(b"new")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.unwrap_err().to_string().contains("the disk is full"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = write(Path::new("no/such/folder/x"), b"").unwrap_err();
        assert!(error.to_string().contains("no/such/folder/x"), "{error}");
        assert!(write(Path::new("/"), b"").unwrap_err().to_string().contains("names no file"));
    }
}
