//! COCO's `captions_*.json`: images and captions in two lists, joined by the number of the image.
//!
//! ```json
//! {"images": [{"id": 9, "file_name": "a.jpg"}], "annotations": [{"image_id": 9, "id": 1, "caption": "A dog."}]}
//! ```
//! The file name says which split it is, and the folder of its images: those of `captions_val2014.json` are called
//! `val2014/a.jpg` (they are also found when they lie without that folder).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::builder::Builder;
use super::names::split_in_name;
use super::text::{each_entry, shape, string};
use crate::data::{DataError, Split};

/// Reads the images and captions of the files.
pub(super) fn read(files: &[PathBuf], builder: &mut Builder) -> Result<(), DataError> {
    for path in files {
        read_file(path, builder)?;
    }
    Ok(())
}

fn read_file(path: &Path, builder: &mut Builder) -> Result<(), DataError> {
    let split = split_in_name(path).unwrap_or(Split::Train);
    let folder = image_folder(path);
    let mut images = Vec::new(); // (id, name) in the order of the file
    let mut captions: HashMap<String, Vec<(usize, String)>> = HashMap::new(); // by id
    each_entry(path, &["images", "annotations"], &mut |key, index, value| {
        let at = format!("{key}[{index}]");
        let parsed = if key == "images" {
            identity(path, &at, &value, "id").and_then(|id| {
                let name = format!("{folder}{}", string(path, &at, &value, "file_name")?);
                images.push((id, name));
                Ok(())
            })
        } else {
            identity(path, &at, &value, "image_id").and_then(|id| {
                let caption = string(path, &at, &value, "caption")?.to_string();
                captions.entry(id).or_default().push((index, caption));
                Ok(())
            })
        };
        parsed.or_else(|error| builder.bad(&format!("{}, {at}", path.display()), error))
    })?;
    for (id, name) in images {
        let Some(image) = builder.image(path, &name, split)? else { continue };
        for (index, caption) in captions.remove(&id).unwrap_or_default() {
            builder.caption(path, || format!("annotations[{index}].caption"), image, caption)?;
        }
    }
    let strays =
        captions.into_iter().flat_map(|(id, captions)| captions.into_iter().map(move |(i, _)| (i, id.clone())));
    let mut strays: Vec<_> = strays.collect();
    strays.sort_unstable();
    for (index, id) in strays {
        let at = format!("annotations[{index}].image_id");
        let stray = shape(path, at.clone(), "the id of an entry of `images`", &format!("{id}, which none has"));
        builder.bad(&format!("{}, {at}", path.display()), stray)?;
    }
    Ok(())
}

/// The number of an image, which some writers make a string.
fn identity(path: &Path, at: &str, entry: &Value, key: &str) -> Result<String, DataError> {
    match entry.get(key) {
        Some(id @ (Value::Number(_) | Value::String(_))) => Ok(id.to_string()),
        other => {
            let found = if other.is_some() { "something else" } else { "missing" };
            Err(shape(path, format!("{at}.{key}"), "a number", found))
        }
    }
}

/// `val2014/` for `captions_val2014.json`; nothing for other names.
fn image_folder(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.strip_prefix("captions_").map(|folder| format!("{folder}/")).unwrap_or_default()
}
