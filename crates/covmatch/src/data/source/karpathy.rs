//! Karpathy's `dataset_*.json`: one entry an image, with its split and all its sentences.
//!
//! ```json
//! {"images": [{"filepath": "val2014", "filename": "a.jpg", "split": "restval", "sentences": [{"raw": "A dog."}]}]}
//! ```
//! `filepath` is there for COCO only. `restval` counts as train, as the protocol does.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::builder::Builder;
use super::text::{each_entry, list, shape, string};
use crate::data::{DataError, Split};

/// Reads the entries of the files.
pub(super) fn read(files: &[PathBuf], builder: &mut Builder) -> Result<(), DataError> {
    for path in files {
        each_entry(path, &["images"], &mut |_, index, value| {
            let at = format!("images[{index}]");
            match Entry::parse(path, &at, &value) {
                Ok(entry) => entry.add(path, &at, builder),
                Err(error) => builder.bad(&format!("{}, {at}", path.display()), error),
            }
        })?;
    }
    Ok(())
}

struct Entry {
    name: String,
    split: Split,
    sentences: Vec<String>,
}

impl Entry {
    fn parse(path: &Path, at: &str, value: &Value) -> Result<Entry, DataError> {
        let filename = string(path, at, value, "filename")?;
        let name = match value.get("filepath") {
            Some(Value::String(folder)) if !folder.is_empty() => format!("{folder}/{filename}"),
            _ => filename.to_string(),
        };
        let split = string(path, at, value, "split")?;
        let unknown = || shape(path, format!("{at}.split"), "train, restval, val or test", &format!("{split:?}"));
        let split = Split::from_name(split).ok_or_else(unknown)?;
        let sentences = list(path, at, value, "sentences")?.iter().enumerate().map(|(index, sentence)| {
            string(path, &format!("{at}.sentences[{index}]"), sentence, "raw").map(str::to_string)
        });
        Ok(Entry { name, split, sentences: sentences.collect::<Result<_, _>>()? })
    }

    fn add(self, path: &Path, at: &str, builder: &mut Builder) -> Result<(), DataError> {
        let Some(image) = builder.image(path, &self.name, self.split)? else { return Ok(()) };
        for (index, sentence) in self.sentences.into_iter().enumerate() {
            builder.caption(path, || format!("{at}.sentences[{index}].raw"), image, sentence)?;
        }
        Ok(())
    }
}
