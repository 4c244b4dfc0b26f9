//! Flickr's `.token` files: a line a caption, `image.jpg#0<tab>A dog .`
//!
//! The splits are in lists of image names next to the file, such as `Flickr_8k.trainImages.txt`,
//! `Flickr_8k.devImages.txt`, `Flickr_8k.testImages.txt`, or `train.txt`, `val.txt`, `test.txt` (with or without
//! `.jpg`). Images that are in none of the lists are left out; without any list all images are for training.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::builder::Builder;
use super::text::{lines, read_bytes, utf8};
use crate::data::{DataError, Split};

/// Reads the captions of the files.
pub(super) fn read(files: &[PathBuf], builder: &mut Builder) -> Result<(), DataError> {
    for path in files {
        let splits = split_lists(path.parent().unwrap_or(Path::new(".")))?;
        let bytes = read_bytes(path)?;
        let mut unlisted = "";
        for (line, text) in lines(&bytes) {
            let (name, caption) = match utf8(path, line, text).and_then(|text| parse(path, line, text)) {
                Ok(pair) => pair,
                Err(error) => {
                    builder.bad(&format!("{}, line {line}", path.display()), error)?;
                    continue;
                }
            };
            let Some(split) = splits.of(name) else {
                if unlisted != name {
                    builder.note(name, "it is in none of the split lists".to_string());
                }
                unlisted = name;
                continue;
            };
            if let Some(image) = builder.image(path, name, split)? {
                builder.caption(path, || format!("line {line}"), image, caption.to_string())?;
            }
        }
    }
    Ok(())
}

/// Image name and caption of a line.
fn parse<'a>(path: &Path, line: u64, text: &'a str) -> Result<(&'a str, &'a str), DataError> {
    let pair = text.split_once('\t').and_then(|(key, caption)| Some((key.rsplit_once('#')?.0, caption)));
    pair.ok_or_else(|| DataError::Line {
        path: path.display().to_string(),
        line,
        cause: "this is not `image.jpg#0<tab>caption`".to_string(),
        fix: "correct the line, or set `on_bad = \"skip\"`",
    })
}

/// Which images are in which split.
struct SplitLists(HashMap<String, Split>);

impl SplitLists {
    fn of(&self, name: &str) -> Option<Split> {
        if self.0.is_empty() {
            return Some(Split::Train);
        }
        self.0.get(without_extension(name)).copied()
    }
}

/// Reads the lists in a folder.
fn split_lists(folder: &Path) -> Result<SplitLists, DataError> {
    let failed = |cause| DataError::read(folder, cause);
    let mut lists = HashMap::new();
    let listed = std::fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    for entry in listed.map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let Some(split) = split_of_list(&path) else { continue };
        let bytes = read_bytes(&path)?;
        for (line, text) in lines(&bytes) {
            let name = without_extension(utf8(&path, line, text)?.trim()).to_string();
            if let Some(first) = lists.insert(name.clone(), split)
                && first != split
            {
                let path = path.display().to_string();
                return Err(DataError::SharedImage { path, image: name, first, second: split });
            }
        }
    }
    Ok(SplitLists(lists))
}

/// The split of a list by its file name: `train.txt` or `Flickr_8k.trainImages.txt`.
fn split_of_list(path: &Path) -> Option<Split> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let stem = name.strip_suffix(".txt")?;
    Split::from_name(stem).or_else(|| Split::from_name(stem.rsplit('.').next()?.strip_suffix("Images")?))
}

fn without_extension(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}
