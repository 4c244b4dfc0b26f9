//! `[data]`: which pairs, and how they are read.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::{first, require};
use crate::data::loader::Augment;
use crate::data::scenes::SceneConfig;
use crate::data::source::{Format, OnBad, SourceConfig, one_or_many};

/// Which pairs, and how they are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Annotation files, shards or a folder that holds them; one path or a list.
    #[serde(deserialize_with = "one_or_many")]
    pub annotations: Vec<PathBuf>,
    /// Folder or tar archive of the images; looked for next to the annotations if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<PathBuf>,
    /// The format; recognised if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// What to do with what cannot be used.
    pub on_bad: OnBad,
    /// Folder of the cache of decoded pictures; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<PathBuf>,
    /// The most that the cache may hold, in units of 10^9 bytes.
    pub cache_gb: f64,
    /// Frames of a clip; 1 reads pictures.
    pub frames: usize,
    /// Whether real pictures are augmented wherever something is trained on them or matched to them.
    pub augment: bool,
    /// The built-in dataset, instead of annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenes: Option<SceneConfig>,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            annotations: Vec::new(),
            images: None,
            format: None,
            on_bad: OnBad::Fail,
            cache: None,
            cache_gb: 20.0,
            frames: 1,
            augment: true,
            scenes: None,
        }
    }
}

impl DataConfig {
    /// The part that says where the pairs lie.
    pub fn source(&self) -> SourceConfig {
        SourceConfig {
            annotations: self.annotations.clone(),
            images: self.images.clone(),
            format: self.format,
            on_bad: self.on_bad,
        }
    }

    /// How real pictures are augmented.
    pub fn augmentation(&self) -> Augment {
        if self.augment { Augment::Protocol } else { Augment::None }
    }

    pub(super) fn problem(&self) -> Option<String> {
        let sources = usize::from(!self.annotations.is_empty()) + usize::from(self.scenes.is_some());
        let one = "data needs either `annotations = \"path\"` or a section [data.scenes], the built-in dataset";
        first([
            (sources != 1).then(|| one.to_owned()),
            require(self.frames > 0, "data.frames", "at least 1", self.frames),
            require(self.cache_gb >= 0.0, "data.cache_gb", "0 or more", self.cache_gb),
        ])
    }
}
