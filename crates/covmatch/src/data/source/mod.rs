//! Reads the datasets that users have. One file a format; [`open`] recognises which.
//!
//! ```text
//! annotations -> format's reader -> Builder (images and captions by name) -> image root (where they lie) -> Dataset
//! ```
//! The images of annotation files lie in a folder or in a tar archive that is indexed once and never unpacked. Where
//! `images` does not name it, it is looked for next to the annotations.

mod blip;
mod builder;
mod coco;
mod detect;
mod flickr_token;
mod image_folder;
mod karpathy;
mod names;
pub(crate) mod parquet;
mod root;
mod table;
mod tar_index;
mod text;
mod webdataset;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use self::builder::Builder;
pub use self::detect::detect;
use super::{DataError, Dataset};

/// How annotations are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Format {
    /// Karpathy's `dataset_*.json`.
    Karpathy,
    /// BLIP's `*_train.json`, `*_val.json`, `*_test.json`.
    Blip,
    /// COCO's `captions_*.json`.
    Coco,
    /// Flickr's `.token`.
    FlickrToken,
    /// CSV, TSV, and text files with `image,caption`.
    Table,
    /// A folder with `metadata.jsonl`.
    ImageFolder,
    /// WebDataset's tar shards.
    WebDataset,
    /// Hugging Face parquet with image bytes.
    Parquet,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 8] = [
        Format::Karpathy,
        Format::Blip,
        Format::Coco,
        Format::FlickrToken,
        Format::Table,
        Format::ImageFolder,
        Format::WebDataset,
        Format::Parquet,
    ];

    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Format::Karpathy => "karpathy",
            Format::Blip => "blip",
            Format::Coco => "coco",
            Format::FlickrToken => "flickr-token",
            Format::Table => "table",
            Format::ImageFolder => "image-folder",
            Format::WebDataset => "webdataset",
            Format::Parquet => "parquet",
        }
    }

    /// The names of all formats, for messages.
    fn names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = DataError;

    fn from_str(name: &str) -> Result<Format, DataError> {
        let known = Format::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| DataError::NoSuchFormat { name: name.to_string(), formats: Format::names() })
    }
}

impl TryFrom<String> for Format {
    type Error = DataError;

    fn try_from(name: String) -> Result<Format, DataError> {
        name.parse()
    }
}

impl From<Format> for String {
    fn from(format: Format) -> String {
        format.name().to_string()
    }
}

/// What to do with an image or caption that cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBad {
    /// Stop with an error that names it.
    #[default]
    Fail,
    /// Leave it out and list it in [`Dataset::skipped`].
    Skip,
}

/// Which dataset to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    /// Annotation files, shards (also as patterns: `train-{000000..000012}.tar`), or one folder that holds them. A
    /// configuration may give a single path without a list.
    #[serde(deserialize_with = "one_or_many")]
    pub annotations: Vec<PathBuf>,
    /// The folder or tar archive of the images; looked for next to the annotations if not given.
    #[serde(default)]
    pub images: Option<PathBuf>,
    /// The format; recognised if not given.
    #[serde(default)]
    pub format: Option<Format>,
    /// What to do with what cannot be used.
    #[serde(default)]
    pub on_bad: OnBad,
}

impl SourceConfig {
    /// The dataset at `path`, everything else recognised.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        SourceConfig { annotations: vec![path.into()], ..SourceConfig::default() }
    }
}

/// Reads a dataset: all captions, and where each image lies. Images are not read, but those that are not there are
/// reported.
pub fn open(config: &SourceConfig) -> Result<Dataset, DataError> {
    let found = detect::find(&config.annotations, config.format)?;
    let files = found.files.as_slice();
    let mut builder = Builder::new(config, files);
    let mut images = config.images.as_deref();
    match found.format {
        Format::Karpathy => karpathy::read(files, &mut builder)?,
        Format::Blip => blip::read(files, &mut builder)?,
        Format::Coco => coco::read(files, &mut builder)?,
        Format::FlickrToken => flickr_token::read(files, &mut builder)?,
        Format::Table => table::read(files, &mut builder)?,
        Format::ImageFolder => {
            image_folder::read(files, &found.folder, &mut builder)?;
            images = images.or(Some(&found.folder));
        }
        Format::WebDataset => webdataset::read(files, &mut builder)?,
        Format::Parquet => parquet::read(files, &mut builder)?,
    }
    builder.finish(images, &found.folder)
}

/// One path, or a list of them.
pub(crate) fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(PathBuf),
        Many(Vec<PathBuf>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(path) => vec![path],
        OneOrMany::Many(paths) => paths,
    })
}

/// The folder that a file lies in.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
