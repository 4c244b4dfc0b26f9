//! Reads what a [`Location`] points at. One [`Library`] serves all threads.
//!
//! Nothing of an image is kept: the library holds open files (archives, and the tables of contents of parquet files),
//! not pixels. Archives are read at a position rather than mapped, so that a file that shrinks under a running job is
//! an error and not a crash.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::decode::{self, Limits};
use super::scenes::{self, Form, SceneConfig, SceneId};
use super::source::parquet::Cells;
use super::{DataError, Image, Location, RgbImage, video};

/// Files that are kept open at a time; further ones are opened again when needed.
const MAX_OPEN: usize = 128;

/// Reads images and clips from wherever they lie.
#[derive(Default)]
pub struct Library {
    limits: Limits,
    scenes: SceneConfig,
    archives: Mutex<HashMap<PathBuf, Arc<File>>>,
    tables: Mutex<HashMap<PathBuf, Arc<Cells>>>,
}

impl Library {
    /// A library that accepts images within `limits`.
    pub fn new(limits: Limits) -> Self {
        Library { limits, ..Library::default() }
    }

    /// The same library, drawing the scenes of `scenes`.
    pub fn with_scenes(self, scenes: SceneConfig) -> Self {
        Library { scenes, ..self }
    }

    /// The encoded bytes of an image, or of a video file.
    pub fn bytes(&self, image: &Image) -> Result<Vec<u8>, DataError> {
        match &image.location {
            Location::File(path) => std::fs::read(path).map_err(|cause| DataError::read(path, cause)),
            Location::Range { file, offset, len } => self.range(file, *offset, *len),
            Location::Parquet { file, row } => self.table(file)?.bytes(*row),
            Location::Frames(files) => {
                let first = files.first().ok_or_else(|| no_frames(image))?;
                std::fs::read(first).map_err(|cause| DataError::read(first, cause))
            }
            Location::Scene(_) => {
                Err(DataError::NotAnImage { image: image.name.clone(), found: "a scene that is drawn".to_string() })
            }
        }
    }

    /// The pixels of an image; of a clip, those of its middle frame.
    pub fn picture(&self, image: &Image) -> Result<RgbImage, DataError> {
        if let Location::Scene(index) = image.location {
            return Ok(scenes::render(&self.scenes, index));
        }
        if image.location.is_clip() {
            let mut frames = self.frames(image)?;
            return Ok(frames.swap_remove(frames.len() / 2));
        }
        decode::decode(&describe(image), &self.bytes(image)?, &self.limits)
    }

    /// The pixels of the evenly spaced frames of a clip, never none; of an image, its only picture.
    pub fn frames(&self, image: &Image) -> Result<Vec<RgbImage>, DataError> {
        match &image.location {
            Location::File(path) if video::is_video(path) => video::read_clip(path, &self.limits),
            Location::Frames(files) if files.is_empty() => Err(no_frames(image)),
            Location::Frames(files) => files.iter().map(|file| self.frame(file)).collect(),
            Location::Scene(index) if image.location.is_clip() => {
                Ok(scenes::render_clip(&self.scenes, *index, video::FRAMES))
            }
            _ => Ok(vec![self.picture(image)?]),
        }
    }

    /// Width and height of an image, from its header where it has one.
    pub fn dimensions(&self, image: &Image) -> Result<(usize, usize), DataError> {
        match &image.location {
            Location::File(path) if !video::is_video(path) => {
                decode::dimensions(&describe(image), &self.bytes(image)?, &self.limits)
            }
            Location::Range { .. } | Location::Parquet { .. } | Location::Frames(_) => {
                decode::dimensions(&describe(image), &self.bytes(image)?, &self.limits)
            }
            _ => self.picture(image).map(|picture| (picture.width, picture.height)),
        }
    }

    /// One frame of a clip.
    fn frame(&self, file: &Path) -> Result<RgbImage, DataError> {
        let bytes = std::fs::read(file).map_err(|cause| DataError::read(file, cause))?;
        decode::decode(&file.display().to_string(), &bytes, &self.limits)
    }

    /// `len` bytes at `offset` of an archive.
    fn range(&self, path: &Path, offset: u64, len: u64) -> Result<Vec<u8>, DataError> {
        let archive =
            kept(&self.archives, path, |path| File::open(path).map_err(|cause| DataError::read(path, cause)))?;
        let size = archive.metadata().map_err(|cause| DataError::read(path, cause))?.len();
        let inside = offset.checked_add(len).is_some_and(|end| end <= size);
        let room = usize::try_from(len).ok().filter(|_| inside);
        let Some(room) = room else {
            let cause = format!("it ends at byte {size}, inside a member that starts at byte {offset}");
            return Err(DataError::Tar { path: path.display().to_string(), cause });
        };
        let mut bytes = vec![0; room];
        read_exact_at(&archive, &mut bytes, offset).map_err(|cause| DataError::read(path, cause))?;
        Ok(bytes)
    }

    /// The image column of a parquet file.
    fn table(&self, path: &Path) -> Result<Arc<Cells>, DataError> {
        kept(&self.tables, path, Cells::open)
    }
}

impl Location {
    /// Whether this is a clip of several frames rather than a single image.
    pub fn is_clip(&self) -> bool {
        match self {
            Location::File(path) => video::is_video(path),
            Location::Frames(_) => true,
            Location::Scene(index) => SceneId::from_index(*index).form == Form::Clip,
            Location::Range { .. } | Location::Parquet { .. } => false,
        }
    }
}

/// The open file for `path`, opened now if it is not in `files`.
fn kept<T>(
    files: &Mutex<HashMap<PathBuf, Arc<T>>>,
    path: &Path,
    open: impl FnOnce(&Path) -> Result<T, DataError>,
) -> Result<Arc<T>, DataError> {
    let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = files.get(path) {
        return Ok(Arc::clone(file));
    }
    if files.len() >= MAX_OPEN {
        files.clear();
    }
    let file = Arc::new(open(path)?);
    files.insert(path.to_path_buf(), Arc::clone(&file));
    Ok(file)
}

/// Reads at a position without moving a cursor that other threads share.
#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

/// Reads at a position without moving a cursor that other threads share.
#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_read(file, bytes, offset)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes = &mut bytes[count..];
        offset += count as u64;
    }
    Ok(())
}

/// What messages call an image: the file to look for.
fn describe(image: &Image) -> String {
    match &image.location {
        Location::File(path) => path.display().to_string(),
        Location::Range { file, .. } | Location::Parquet { file, .. } => {
            format!("{} (in {})", image.name, file.display())
        }
        _ => image.name.clone(),
    }
}

fn no_frames(image: &Image) -> DataError {
    DataError::Clip { clip: image.name.clone(), cause: "its folder holds no images".to_string() }
}
