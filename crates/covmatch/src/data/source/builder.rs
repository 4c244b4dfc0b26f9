//! Gathers what annotations say, image by image, and makes a [`Dataset`] of it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::names::normal_name;
use super::root::{Found, ImageRoot};
use super::{OnBad, SourceConfig};
use crate::data::{Caption, DataError, Dataset, Image, Location, Skipped, Split};

/// How many names of missing images a message gives.
const EXAMPLES: usize = 3;

/// A dataset that is being read.
pub(super) struct Builder {
    on_bad: OnBad,
    annotations: String,
    image_root: String,
    entries: Vec<Entry>,
    by_name: HashMap<String, u32>,
    skipped: Vec<Skipped>,
}

/// An image with its captions so far.
struct Entry {
    name: String,
    split: Split,
    location: Option<Location>,
    captions: Vec<String>,
}

impl Builder {
    /// An empty dataset that will be read from `files`.
    pub(super) fn new(config: &SourceConfig, files: &[PathBuf]) -> Self {
        let mut annotations = files.first().map(|path| path.display().to_string()).unwrap_or_default();
        if files.len() > 1 {
            annotations.push_str(&format!(" (or {} more files)", files.len() - 1));
        }
        let images = config.images.as_ref().map(|path| path.display().to_string());
        Builder {
            on_bad: config.on_bad,
            annotations,
            image_root: images.unwrap_or_else(|| "next to the annotations".to_string()),
            entries: Vec::new(),
            by_name: HashMap::new(),
            skipped: Vec::new(),
        }
    }

    /// Something cannot be used: the end of reading, or a line in the record.
    pub(super) fn bad(&mut self, name: &str, error: DataError) -> Result<(), DataError> {
        match self.on_bad {
            OnBad::Fail => Err(error),
            OnBad::Skip => {
                self.note(name, error.to_string());
                Ok(())
            }
        }
    }

    /// Leaves something out whatever the policy, with a line in the record.
    pub(super) fn note(&mut self, name: &str, cause: String) {
        self.skipped.push(Skipped { name: name.to_string(), cause });
    }

    /// The image that annotations call `name`, new or known; none if it is skipped.
    pub(super) fn image(&mut self, path: &Path, name: &str, split: Split) -> Result<Option<u32>, DataError> {
        let normal = match normal_name(name) {
            Ok(normal) => normal,
            Err(cause) => {
                self.bad(name, self.escape(path, name, cause.to_string()))?;
                return Ok(None);
            }
        };
        let Some(&known) = self.by_name.get(&normal) else {
            let index = self.entries.len() as u32;
            self.by_name.insert(normal.clone(), index);
            self.entries.push(Entry { name: normal, split, location: None, captions: Vec::new() });
            return Ok(Some(index));
        };
        let first = self.entries[known as usize].split;
        if first == split {
            return Ok(Some(known));
        }
        let shared = DataError::SharedImage { path: path.display().to_string(), image: normal, first, second: split };
        self.bad(name, shared)?;
        Ok(None)
    }

    /// An image of which it is already known where its bytes lie.
    pub(super) fn located(&mut self, name: String, split: Split, location: Location) -> u32 {
        self.entries.push(Entry { name, split, location: Some(location), captions: Vec::new() });
        self.entries.len() as u32 - 1
    }

    /// One more caption of an image; `at` says where in the annotations it stands.
    pub(super) fn caption(
        &mut self,
        path: &Path,
        at: impl FnOnce() -> String,
        image: u32,
        text: String,
    ) -> Result<(), DataError> {
        let entry = &mut self.entries[image as usize];
        if !text.trim().is_empty() {
            entry.captions.push(text);
            return Ok(());
        }
        let image = entry.name.clone();
        let empty = DataError::EmptyCaption { path: path.display().to_string(), at: at(), image: image.clone() };
        self.bad(&image, empty)
    }

    /// Finds the images and puts the dataset together; `folder` is where the annotations lie.
    pub(super) fn finish(mut self, images: Option<&Path>, folder: &Path) -> Result<Dataset, DataError> {
        self.drop_uncaptioned()?;
        self.locate(images, folder)?;
        let mut dataset = Dataset { skipped: self.skipped, ..Dataset::default() };
        for entry in self.entries {
            let Some(location) = entry.location else { continue };
            let image = dataset.images.len() as u32;
            dataset.captions.extend(entry.captions.into_iter().map(|text| Caption { text, image }));
            dataset.images.push(Image { name: entry.name, location, split: entry.split });
        }
        if dataset.images.is_empty() {
            return Err(DataError::NoPairs { path: self.annotations });
        }
        Ok(dataset)
    }

    /// Every image must have a caption.
    fn drop_uncaptioned(&mut self) -> Result<(), DataError> {
        let (kept, bare): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.entries).into_iter().partition(|entry| !entry.captions.is_empty());
        self.entries = kept;
        for Entry { name, .. } in bare {
            self.bad(&name, DataError::NoCaption { path: self.annotations.clone(), image: name.clone() })?;
        }
        Ok(())
    }

    /// Looks up the images that are known by name only. They all must be there.
    fn locate(&mut self, images: Option<&Path>, folder: &Path) -> Result<(), DataError> {
        let names: Vec<&str> = self.entries.iter().filter(|e| e.location.is_none()).map(|e| e.name.as_str()).collect();
        if names.is_empty() {
            return Ok(());
        }
        let total = names.len();
        let mut root = ImageRoot::choose(images, folder, &names, &self.annotations)?;
        if let Some(error) = root.cut_short.take() {
            self.bad(&root.path.display().to_string(), error)?;
        }
        let mut missing = Vec::new();
        for index in 0..self.entries.len() {
            if self.entries[index].location.is_some() {
                continue;
            }
            let name = self.entries[index].name.clone();
            match root.find(&name)? {
                Found::At(location) => self.entries[index].location = Some(location),
                Found::Missing => missing.push(name),
                Found::Escapes(cause) => {
                    self.image_root = root.path.display().to_string();
                    let path = self.annotations.clone();
                    self.bad(&name, self.escape(Path::new(&path), &name, cause))?;
                }
            }
        }
        self.report_missing(&root.path, missing, total)
    }

    /// Missing images are reported together, and one by one when they are skipped.
    fn report_missing(&mut self, root: &Path, missing: Vec<String>, total: usize) -> Result<(), DataError> {
        if missing.is_empty() {
            return Ok(());
        }
        let root = root.display().to_string();
        if self.on_bad == OnBad::Fail || missing.len() == total {
            let mut examples = missing[..missing.len().min(EXAMPLES)].join(", ");
            if missing.len() > EXAMPLES {
                examples.push_str(", ...");
            }
            return Err(DataError::MissingImages { root, missing: missing.len(), total, examples });
        }
        for name in missing {
            self.note(&name, format!("it is not in {root}"));
        }
        Ok(())
    }

    fn escape(&self, path: &Path, name: &str, cause: String) -> DataError {
        let root = self.image_root.clone();
        DataError::Escape { path: path.display().to_string(), image: name.to_string(), cause, root }
    }
}
