//! Where the images are that annotations know by name: a folder, or a tar archive that is never unpacked.
//!
//! Existence is checked from listings (one a folder, or the index of the archive), not file by file. A name never leads
//! out of the root: names are normal (see `names`), and a link whose target lies outside is refused.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::tar_index;
use crate::data::{DataError, Location, video};

/// Names that are looked up to judge whether a place holds the images.
const SAMPLE: usize = 16;

/// The result of looking for an image.
pub(super) enum Found {
    /// It is there.
    At(Location),
    /// It is not there.
    Missing,
    /// It leads out of the root, and how.
    Escapes(String),
}

/// A place that holds images.
pub(super) struct ImageRoot {
    /// The folder or archive.
    pub(super) path: PathBuf,
    /// What is wrong with an archive that ends early.
    pub(super) cut_short: Option<DataError>,
    holder: Holder,
    /// Leading folders of an annotated name that the root does not have (`flickr30k-images/1.jpg` in an archive of
    /// the folder's contents).
    strip: usize,
}

enum Holder {
    Folder(Folder),
    Archive(Archive),
}

impl ImageRoot {
    /// The root that the user named, or else the first place next to the annotations that holds the most of a sample.
    pub(super) fn choose(
        named: Option<&Path>,
        beside: &Path,
        names: &[&str],
        annotations: &str,
    ) -> Result<ImageRoot, DataError> {
        if let Some(path) = named {
            let mut root = ImageRoot::open(path)?;
            root.fit(names)?;
            return Ok(root);
        }
        let places = places_beside(beside)?;
        let mut best: Option<(usize, ImageRoot)> = None;
        let mut unreadable = None; // an archive that may have been the place, if no other is
        for place in &places {
            let opened = ImageRoot::open(place).and_then(|mut root| Ok((root.fit(names)?, root)));
            let (hits, root) = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    if !place.is_dir() {
                        unreadable.get_or_insert(error);
                    }
                    continue;
                }
            };
            let whole = hits == sample(names).len();
            if hits > best.as_ref().map_or(0, |(hits, _)| *hits) {
                best = Some((hits, root));
            }
            if whole {
                break;
            }
        }
        best.map(|(_, root)| root).ok_or_else(|| {
            unreadable.unwrap_or_else(|| DataError::NoImageRoot {
                path: annotations.to_string(),
                example: names.first().unwrap_or(&"").to_string(),
                tried: places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", "),
            })
        })
    }

    fn open(path: &Path) -> Result<ImageRoot, DataError> {
        let (holder, cut_short) = if path.is_dir() {
            (Holder::Folder(Folder::open(path)?), None)
        } else {
            let (archive, cut_short) = Archive::open(path)?;
            (Holder::Archive(archive), cut_short)
        };
        Ok(ImageRoot { path: path.to_path_buf(), cut_short, holder, strip: 0 })
    }

    /// Settles how many leading folders names lose; returns how many names of the sample are found.
    fn fit(&mut self, names: &[&str]) -> Result<usize, DataError> {
        let sample = sample(names);
        let whole = self.hits(&sample)?;
        if whole > 0 {
            return Ok(whole);
        }
        let distinct: HashSet<_> = names.iter().map(|name| stripped(name, 1)).collect();
        if distinct.len() == names.len() {
            self.strip = 1;
            let hits = self.hits(&sample)?;
            if hits > 0 {
                return Ok(hits);
            }
        }
        self.strip = 0;
        Ok(0)
    }

    fn hits(&mut self, sample: &[&str]) -> Result<usize, DataError> {
        let mut hits = 0;
        for name in sample {
            hits += usize::from(!matches!(self.find(name)?, Found::Missing));
        }
        Ok(hits)
    }

    /// Looks for an image by its normal name.
    pub(super) fn find(&mut self, name: &str) -> Result<Found, DataError> {
        let Some(name) = stripped(name, self.strip) else { return Ok(Found::Missing) };
        match &mut self.holder {
            Holder::Folder(folder) => folder.find(name),
            Holder::Archive(archive) => Ok(archive.find(name)),
        }
    }
}

/// Some of the names, evenly spaced.
fn sample<'a>(names: &[&'a str]) -> Vec<&'a str> {
    names.iter().step_by(names.len().div_ceil(SAMPLE).max(1)).copied().collect()
}

/// A name without its first `count` folders.
fn stripped(name: &str, count: usize) -> Option<&str> {
    (0..count).try_fold(name, |rest, _| rest.split_once('/').map(|(_, rest)| rest))
}

/// The folder of the annotations, the folders in it and the archives in it; for COCO's `annotations/` also those next
/// to it.
fn places_beside(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut places = Vec::new();
    let mut add = |folder: &Path| -> Result<(), DataError> {
        let (mut folders, mut archives) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(folder).map_err(|cause| DataError::read(folder, cause))? {
            let path = entry.map_err(|cause| DataError::read(folder, cause))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "tar") {
                archives.push(path);
            }
        }
        folders.sort();
        archives.sort();
        places.push(folder.to_path_buf());
        places.append(&mut folders);
        places.append(&mut archives);
        Ok(())
    };
    add(folder)?;
    if folder.file_name().is_some_and(|name| name == "annotations") {
        add(&folder.join(".."))?;
    }
    Ok(places)
}

/// A folder of images, listed as needed.
struct Folder {
    root: PathBuf,
    /// The root without links.
    real: PathBuf,
    listings: HashMap<PathBuf, Listing>,
}

/// What a folder below the root holds.
enum Listing {
    Entries(HashMap<OsString, Kind>),
    Absent,
    Outside(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
    Link,
}

impl Folder {
    fn open(root: &Path) -> Result<Folder, DataError> {
        let real = root.canonicalize().map_err(|cause| DataError::read(root, cause))?;
        Ok(Folder { root: root.to_path_buf(), real, listings: HashMap::new() })
    }

    fn find(&mut self, name: &str) -> Result<Found, DataError> {
        let relative = Path::new(name);
        let (parent, Some(file)) = (relative.parent().unwrap_or(Path::new("")), relative.file_name()) else {
            return Ok(Found::Missing);
        };
        let kind = match self.listing(parent)? {
            Listing::Absent => return Ok(Found::Missing),
            Listing::Outside(cause) => return Ok(Found::Escapes(cause.clone())),
            Listing::Entries(entries) => entries.get(file).copied(),
        };
        match kind {
            None => Ok(Found::Missing),
            Some(Kind::File) => Ok(Found::At(Location::File(self.root.join(relative)))),
            Some(Kind::Folder) => self.clip(relative),
            Some(Kind::Link) => self.follow(relative),
        }
    }

    /// A folder in place of an image holds the frames of a clip.
    fn clip(&mut self, relative: &Path) -> Result<Found, DataError> {
        let names = match self.listing(relative)? {
            Listing::Absent => return Ok(Found::Missing),
            Listing::Outside(cause) => return Ok(Found::Escapes(cause.clone())),
            Listing::Entries(entries) => entries.keys().map(PathBuf::from).collect(),
        };
        let mut frames = Vec::new();
        for name in video::choose_frames(names) {
            match self.find(&relative.join(name).to_string_lossy())? {
                Found::At(Location::File(path)) => frames.push(path),
                Found::Escapes(cause) => return Ok(Found::Escapes(cause)),
                _ => {}
            }
        }
        self.listings.remove(relative);
        Ok(if frames.is_empty() { Found::Missing } else { Found::At(Location::Frames(Arc::new(frames))) })
    }

    /// A link counts if its target lies below the root.
    fn follow(&mut self, relative: &Path) -> Result<Found, DataError> {
        let path = self.root.join(relative);
        match path.canonicalize() {
            Err(_) => Ok(Found::Missing),
            Ok(target) if !target.starts_with(&self.real) => Ok(Found::Escapes(leads_to(&target))),
            Ok(target) if target.is_dir() => self.clip(relative),
            Ok(_) => Ok(Found::At(Location::File(path))),
        }
    }

    fn listing(&mut self, relative: &Path) -> Result<&Listing, DataError> {
        if !self.listings.contains_key(relative) {
            let listing = self.list(relative)?;
            self.listings.insert(relative.to_path_buf(), listing);
        }
        Ok(&self.listings[relative])
    }

    fn list(&self, relative: &Path) -> Result<Listing, DataError> {
        let path = self.root.join(relative);
        let failed = |cause| DataError::read(&path, cause);
        match path.canonicalize() {
            Ok(target) if !target.starts_with(&self.real) => return Ok(Listing::Outside(leads_to(&target))),
            Ok(target) if !target.is_dir() => return Ok(Listing::Absent),
            Ok(_) => {}
            Err(cause) if is_absence(cause.kind()) => return Ok(Listing::Absent),
            Err(cause) => return Err(failed(cause)),
        }
        let mut entries = HashMap::new();
        for entry in std::fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let kind = match (kind.is_symlink(), kind.is_dir()) {
                (true, _) => Kind::Link,
                (_, true) => Kind::Folder,
                _ => Kind::File,
            };
            entries.insert(entry.file_name(), kind);
        }
        Ok(Listing::Entries(entries))
    }
}

/// Whether an error means that there is, or can be, nothing of that name.
fn is_absence(kind: ErrorKind) -> bool {
    use ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
    matches!(kind, NotFound | NotADirectory | InvalidFilename | InvalidInput)
}

fn leads_to(target: &Path) -> String {
    format!("is a link to {}", target.display())
}

/// A tar archive of images, indexed once.
struct Archive {
    path: Arc<PathBuf>,
    /// Folders that all members share; names may leave out any number of the first of them.
    shared: Vec<String>,
    /// Position and length by name below the shared folders.
    members: HashMap<String, (u64, u64)>,
}

impl Archive {
    fn open(path: &Path) -> Result<(Archive, Option<DataError>), DataError> {
        let index = tar_index::read(path)?;
        let shared = shared_folders(index.members.iter().map(|member| member.name.as_str()));
        let depth = shared.len();
        let members = index.members.iter().filter_map(|member| {
            let name = stripped(&member.name, depth)?;
            Some((name.to_string(), (member.offset, member.len)))
        });
        let archive = Archive { path: Arc::new(path.to_path_buf()), members: members.collect(), shared };
        Ok((archive, index.cut_short))
    }

    fn find(&self, name: &str) -> Found {
        let below = (0..=self.shared.len()).find_map(|left_out| {
            let rest = self.shared[left_out..].iter().try_fold(name, |rest, folder| {
                rest.strip_prefix(folder.as_str()).and_then(|rest| rest.strip_prefix('/'))
            });
            rest.and_then(|rest| self.members.get(rest))
        });
        match below {
            Some(&(offset, len)) => Found::At(Location::Range { file: Arc::clone(&self.path), offset, len }),
            None => Found::Missing,
        }
    }
}

/// The leading folders that all names have in common.
fn shared_folders<'a>(mut names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let folders = |name: &'a str| name.split('/').collect::<Vec<_>>();
    let Some(mut shared) = names.next().map(folders) else { return Vec::new() };
    shared.pop();
    for name in names {
        let other = folders(name);
        let same = shared.iter().zip(&other[..other.len() - 1]).take_while(|(a, b)| a == b).count();
        shared.truncate(same);
    }
    shared.into_iter().map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_folders_are_the_common_start() {
        assert_eq!(shared_folders(["a/b/1.jpg", "a/b/2.jpg"].into_iter()), ["a", "b"]);
        assert_eq!(shared_folders(["a/b/1.jpg", "a/c/2.jpg"].into_iter()), ["a"]);
        assert!(shared_folders(["a/1.jpg", "2.jpg"].into_iter()).is_empty());
    }
}
