//! What files, columns and fields are called by those who write datasets.

use std::path::{Component, Path};

use crate::data::Split;

/// Columns that name or hold the image, the likeliest first.
pub(super) const IMAGE_FIELDS: [&str; 13] = [
    "image",
    "file_name",
    "filename",
    "filepath",
    "image_path",
    "image_name",
    "img",
    "path",
    "file",
    "jpg",
    "png",
    "video",
    "clip",
];

/// Columns that hold the caption or captions, the likeliest first.
pub(super) const CAPTION_FIELDS: [&str; 8] =
    ["caption", "captions", "text", "texts", "sentence", "sentences", "raw", "description"];

/// Columns that name the split.
pub(super) const SPLIT_FIELDS: [&str; 3] = ["split", "subset", "set"];

/// The split that a file name speaks of: `coco_karpathy_train.json`, `captions_val2014.json`,
/// `test-00000-of-00001.parquet`. The last such word counts.
pub(super) fn split_in_name(path: &Path) -> Option<Split> {
    let stem = path.file_stem()?.to_string_lossy().into_owned();
    stem.split(|c: char| !c.is_ascii_alphabetic()).filter_map(Split::from_name).next_back()
}

/// The split that a file name, or else the folder it lies in, speaks of.
pub(super) fn split_in_path(path: &Path) -> Option<Split> {
    split_in_name(path).or_else(|| Split::from_name(&path.parent()?.file_name()?.to_string_lossy()))
}

/// The path of an image below the image root, written one way: `./a//b.jpg` is `a/b.jpg`. The error says why it is
/// not a path below the root.
pub(super) fn normal_name(name: &str) -> Result<String, &'static str> {
    let mut parts = Vec::new();
    let bytes = name.as_bytes();
    if bytes.len() > 1 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' {
        return Err("is absolute");
    }
    if name.split(['/', '\\']).any(|part| part == "..") {
        return Err("goes up with `..`");
    }
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_string_lossy()),
            Component::CurDir => {}
            Component::ParentDir => return Err("goes up with `..`"),
            Component::RootDir | Component::Prefix(_) => return Err("is absolute"),
        }
    }
    if parts.is_empty() {
        return Err("is empty");
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn the_split_is_read_from_the_usual_file_names() {
        let cases = [
            ("coco_karpathy_train.json", Some(Split::Train)),
            ("captions_val2014.json", Some(Split::Val)),
            ("test-00000-of-00001.parquet", Some(Split::Test)),
            ("flickr8k_val_karpathy.txt", Some(Split::Val)),
            ("Flickr_8k.devImages.txt", None),
            ("latest.csv", None),
        ];
        for (name, split) in cases {
            assert_eq!(split_in_name(Path::new(name)), split, "{name}");
        }
        assert_eq!(split_in_path(Path::new("data/validation/0000.parquet")), Some(Split::Val));
    }

    #[test]
    fn names_are_written_one_way_and_stay_below_the_root() {
        assert_eq!(normal_name("./a//b.jpg").unwrap(), "a/b.jpg");
        assert_eq!(normal_name("a..b/..c.jpg").unwrap(), "a..b/..c.jpg");
        for bad in ["", ".", "/etc/passwd", "../a.jpg", "a/../../b.jpg", "a\\..\\..\\b.jpg", "C:\\a.jpg", "C:a.jpg"] {
            assert!(normal_name(bad).is_err(), "{bad}");
        }
    }
}
