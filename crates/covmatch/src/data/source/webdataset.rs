//! WebDataset shards: tar archives in which neighbouring members with the same key are one sample.
//!
//! ```text
//! train-000000.tar: 0001.jpg 0001.txt 0002.jpg 0002.json ...
//! ```
//! The key ends at the first dot of the base name. The image is the member `jpg`, `jpeg`, `png`, `webp`, `bmp` or
//! `gif`; the captions are those of `txt`, `text` or `caption` (one caption) or, without them, of `json` (a text or a
//! list under a usual name such as `caption`). Samples that hold neither an image nor a text are passed over. The name
//! of a shard says which split it is; shards may be given as a pattern, `train-{000000..000012}.tar`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::builder::Builder;
use super::names::{CAPTION_FIELDS, split_in_path};
use super::tar_index::{self, Member};
use super::text::{present, shape, strings};
use crate::data::{DataError, Location, Split};

const IMAGES: [&str; 6] = ["jpg", "jpeg", "png", "webp", "bmp", "gif"];
const TEXTS: [&str; 3] = ["txt", "text", "caption"];

/// The longest text member that is read; a caption is never near it.
const MAX_TEXT: u64 = 1 << 24;

/// Shards that a pattern may stand for.
const MAX_SHARDS: usize = 1_000_000;

/// Reads the captions of the shards and notes where their images are.
pub(super) fn read(shards: &[PathBuf], builder: &mut Builder) -> Result<(), DataError> {
    for path in shards {
        let index = tar_index::read(path)?;
        if let Some(error) = index.cut_short {
            builder.bad(&path.display().to_string(), error)?;
        }
        let mut shard = Shard {
            path,
            name: Arc::new(path.clone()),
            split: split_in_path(path).unwrap_or(Split::Train),
            file: File::open(path).map_err(|cause| DataError::read(path, cause))?,
        };
        for sample in index.members.chunk_by(|a, b| key(&a.name).0 == key(&b.name).0) {
            if let Err(error) = shard.sample(sample, builder) {
                builder.bad(&format!("{}/{}", path.display(), key(&sample[0].name).0), error)?;
            }
        }
    }
    Ok(())
}

/// Key and extension of a member: they part at the first dot of its base name.
fn key(name: &str) -> (&str, &str) {
    let base = name.rfind('/').map_or(0, |slash| slash + 1);
    match name[base..].find('.') {
        Some(dot) => (&name[..base + dot], &name[base + dot + 1..]),
        None => (name, ""),
    }
}

struct Shard<'a> {
    path: &'a Path,
    name: Arc<PathBuf>,
    split: Split,
    file: File,
}

impl Shard<'_> {
    fn sample(&mut self, members: &[Member], builder: &mut Builder) -> Result<(), DataError> {
        let find = |known: &[&str]| {
            members.iter().find(|member| known.iter().any(|e| key(&member.name).1.eq_ignore_ascii_case(e)))
        };
        let (image, text, json) = (find(&IMAGES), find(&TEXTS), find(&["json"]));
        let captions = match (image, text, json) {
            (None, None, None) => return Ok(()),
            (_, Some(text), _) => vec![self.text(text)?],
            (_, None, Some(json)) => self.captions(json)?,
            (Some(_), None, None) => Vec::new(),
        };
        let shard = self.path.file_name().unwrap_or_default().to_string_lossy();
        let Some(image) = image else {
            let root = self.path.display().to_string();
            let examples = format!("{}.jpg", key(&members[0].name).0);
            return Err(DataError::MissingImages { root, missing: 1, total: 1, examples });
        };
        let location = Location::Range { file: Arc::clone(&self.name), offset: image.offset, len: image.len };
        let index = builder.located(format!("{shard}/{}", image.name), self.split, location);
        for caption in captions {
            builder.caption(self.path, || image.name.clone(), index, caption)?;
        }
        Ok(())
    }

    /// A member as text.
    fn text(&mut self, member: &Member) -> Result<String, DataError> {
        let path = || self.path.display().to_string();
        if member.len > MAX_TEXT {
            return Err(DataError::Tar { path: path(), cause: format!("{} is too long for a caption", member.name) });
        }
        let mut bytes = vec![0; member.len as usize];
        let read = self.file.seek(SeekFrom::Start(member.offset)).and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(|cause| DataError::read(self.path, cause))?;
        String::from_utf8(bytes).map_err(|_| DataError::NotUtf8 { path: path(), at: member.name.clone() })
    }

    /// The captions of a JSON member.
    fn captions(&mut self, member: &Member) -> Result<Vec<String>, DataError> {
        let text = self.text(member)?;
        let inner = format!("{}/{}", self.path.display(), member.name);
        let entry: Value = serde_json::from_str(&text)
            .map_err(|cause| DataError::Json { path: inner.clone(), cause: cause.to_string() })?;
        let inner = Path::new(&inner);
        let key = present(&entry, &CAPTION_FIELDS).ok_or_else(|| {
            let expected = format!("a caption (one of {})", CAPTION_FIELDS.join(", "));
            shape(inner, "caption".to_string(), &expected, "missing")
        })?;
        strings(inner, "the entry", &entry, key)
    }
}

/// The paths that a pattern stands for: `{000000..000012}` counts, `{a,b}` lists.
pub(super) fn expand(pattern: &str) -> Result<Vec<String>, DataError> {
    let wrong = |cause: &str| DataError::Pattern { pattern: pattern.to_string(), cause: cause.to_string() };
    let Some(open) = pattern.find('{') else { return Ok(vec![pattern.to_string()]) };
    let close = open + pattern[open..].find('}').ok_or_else(|| wrong("a `{` has no `}`"))?;
    let (before, inner, after) = (&pattern[..open], &pattern[open + 1..close], &pattern[close + 1..]);
    let choices: Vec<String> = match inner.split_once("..") {
        Some((first, last)) => {
            let number = |text: &str| text.parse::<usize>().map_err(|_| wrong("a range needs two numbers"));
            let (from, to) = (number(first)?, number(last)?);
            if from > to || to - from >= MAX_SHARDS {
                return Err(wrong("the range is empty or too long"));
            }
            (from..=to).map(|n| format!("{n:0width$}", width = first.len())).collect()
        }
        None => inner.split(',').map(str::to_string).collect(),
    };
    let mut paths = Vec::new();
    for tail in expand(after)? {
        if paths.len() + choices.len() > MAX_SHARDS {
            return Err(wrong("it stands for too many shards"));
        }
        paths.extend(choices.iter().map(|choice| format!("{before}{choice}{tail}")));
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_key_ends_at_the_first_dot_of_the_base_name() {
        assert_eq!(key("a.b/0001.seg.png"), ("a.b/0001", "seg.png"));
        assert_eq!(key("0001.jpg"), ("0001", "jpg"));
        assert_eq!(key("folder/none"), ("folder/none", ""));
    }

    #[test]
    fn patterns_count_and_list() {
        assert_eq!(expand("a-{008..010}.tar").unwrap(), ["a-008.tar", "a-009.tar", "a-010.tar"]);
        assert_eq!(expand("{train,val}-{0..1}").unwrap(), ["train-0", "val-0", "train-1", "val-1"]);
        assert_eq!(expand("plain.tar").unwrap(), ["plain.tar"]);
        for bad in ["{0..", "{b..a}", "{3..1}", "{0..9999999999}", "{0..}"] {
            assert!(matches!(expand(bad), Err(DataError::Pattern { .. })), "{bad}");
        }
    }
}
