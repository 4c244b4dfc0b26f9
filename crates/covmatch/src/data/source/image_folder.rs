//! Hugging Face's imagefolder: images and a `metadata.jsonl` with a line an image.
//!
//! ```text
//! train/metadata.jsonl        {"file_name": "0001.png", "text": "A dog."}
//! train/0001.png
//! ```
//! The splits are folders (`train`, `validation`, `test`, each with its own `metadata.jsonl`, or below one that is
//! above them); without them all images are for training. File names count from the folder of the `metadata.jsonl`.
//! The text may be a list of captions.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::builder::Builder;
use super::names::{CAPTION_FIELDS, SPLIT_FIELDS};
use super::text::{lines, present, read_bytes, shape, string, strings, utf8};
use crate::data::{DataError, Split};

/// The name of the annotations.
pub(super) const METADATA: &str = "metadata.jsonl";

/// The `metadata.jsonl` of a folder and of the split folders in it.
pub(super) fn metadata_files(folder: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_split(path)).collect())
        .unwrap_or_default();
    folders.sort();
    folders.insert(0, folder.to_path_buf());
    folders.into_iter().map(|folder| folder.join(METADATA)).filter(|file| file.is_file()).collect()
}

fn is_split(path: &Path) -> bool {
    path.file_name().is_some_and(|name| Split::from_name(&name.to_string_lossy()).is_some())
}

/// Reads the `metadata.jsonl` files of the folder `root`.
pub(super) fn read(files: &[PathBuf], root: &Path, builder: &mut Builder) -> Result<(), DataError> {
    for path in files {
        let folder = path.parent().and_then(|folder| folder.strip_prefix(root).ok()).unwrap_or(Path::new(""));
        let bytes = read_bytes(path)?;
        for (line, text) in lines(&bytes) {
            if let Err(error) = parse(path, folder, line, text).and_then(|row| row.add(path, line, builder)) {
                builder.bad(&format!("{}, line {line}", path.display()), error)?;
            }
        }
    }
    Ok(())
}

struct Row {
    name: String,
    split: Split,
    captions: Vec<String>,
}

fn parse(path: &Path, folder: &Path, line: u64, text: &[u8]) -> Result<Row, DataError> {
    let at = format!("line {line}");
    let not_json = |cause: serde_json::Error| DataError::Line {
        path: path.display().to_string(),
        line,
        cause: format!("this is not JSON: {cause}"),
        fix: "correct the line, or set `on_bad = \"skip\"`",
    };
    let entry: Value = serde_json::from_str(utf8(path, line, text)?).map_err(not_json)?;
    let file_name = string(path, &at, &entry, "file_name")?;
    let key = present(&entry, &CAPTION_FIELDS).ok_or_else(|| {
        let expected = format!("a caption (one of {})", CAPTION_FIELDS.join(", "));
        shape(path, format!("{at}.text"), &expected, "missing")
    })?;
    let captions = strings(path, &at, &entry, key)?;
    let name = if file_name.is_empty() { String::new() } else { folder.join(file_name).to_string_lossy().into_owned() };
    Ok(Row { split: split_of(&entry, &name), name, captions })
}

/// The split by a field of the entry, or else by the folder that the image is in.
fn split_of(entry: &Value, name: &str) -> Split {
    let field = present(entry, &SPLIT_FIELDS).and_then(|key| entry.get(key)?.as_str());
    let folder = name.split_once('/').map(|(folder, _)| folder);
    field.and_then(Split::from_name).or_else(|| Split::from_name(folder?)).unwrap_or(Split::Train)
}

impl Row {
    fn add(self, path: &Path, line: u64, builder: &mut Builder) -> Result<(), DataError> {
        let Some(image) = builder.image(path, &self.name, self.split)? else { return Ok(()) };
        for caption in self.captions {
            builder.caption(path, || format!("line {line}"), image, caption)?;
        }
        Ok(())
    }
}
