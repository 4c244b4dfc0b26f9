//! Annotation files as text and as JSON, with errors that say which field of which entry is wrong.

use std::fmt;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::data::DataError;

/// The bytes of a file, without a byte order mark.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    let mut bytes = std::fs::read(path).map_err(|cause| DataError::read(path, cause))?;
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    Ok(bytes)
}

/// The lines of a file with their numbers, from 1; empty lines are left out.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let ended = |line| -> &[u8] { <[u8]>::strip_suffix(line, b"\r").unwrap_or(line) };
    let numbered = (1u64..).zip(bytes.split(|&b| b == b'\n').map(ended));
    numbered.filter(|(_, line)| !line.trim_ascii().is_empty())
}

/// A line as text.
pub(super) fn utf8<'a>(path: &Path, line: u64, bytes: &'a [u8]) -> Result<&'a str, DataError> {
    let at = || format!("line {line}");
    std::str::from_utf8(bytes).map_err(|_| DataError::NotUtf8 { path: path.display().to_string(), at: at() })
}

/// Hands over the entries of a JSON list one by one with their index, so that a large file is never in memory as a
/// tree. The list is the file itself, or the lists under `keys` of the object that the file is.
pub(super) fn each_entry(
    path: &Path,
    keys: &[&str],
    handle: &mut dyn FnMut(&str, usize, Value) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let bytes = read_bytes(path)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|&&b| b == b'\n').count() + 1;
        let at = format!("line {line}, byte {}", error.valid_up_to());
        DataError::NotUtf8 { path: path.display().to_string(), at }
    })?;
    let mut walk = Walk { path, keys, handle, missing: keys.to_vec(), failure: None };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let walked = (&mut walk).deserialize(&mut deserializer).and_then(|()| deserializer.end());
    if let Some(failure) = walk.failure {
        return Err(failure);
    }
    walked.map_err(|cause| DataError::Json { path: path.display().to_string(), cause: cause.to_string() })?;
    match walk.missing.first() {
        None => Ok(()),
        Some(key) => Err(shape(path, (*key).to_string(), "a list", "missing")),
    }
}

/// A visitor of the outermost object or list of a file.
struct Walk<'a> {
    path: &'a Path,
    keys: &'a [&'a str],
    handle: &'a mut dyn FnMut(&str, usize, Value) -> Result<(), DataError>,
    /// Keys that have not been seen.
    missing: Vec<&'a str>,
    /// Why the walk stopped, if not for bad JSON.
    failure: Option<DataError>,
}

impl<'de> DeserializeSeed<'de> for &mut Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.keys.is_empty() { "a list of entries" } else { "an object" })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.keys.is_empty() {
            self.failure = Some(shape(self.path, "the file".to_string(), "a list of entries", "an object"));
            return Err(A::Error::custom("stopped"));
        }
        while let Some(key) = map.next_key::<String>()? {
            if let Some(&known) = self.keys.iter().find(|known| **known == key) {
                self.missing.retain(|missing| *missing != known);
                map.next_value_seed(List { walk: self, key: known })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        if let Some(key) = self.keys.first() {
            let expected = format!("an object with the list `{key}`");
            self.failure = Some(shape(self.path, "the file".to_string(), &expected, "a list"));
            return Err(A::Error::custom("stopped"));
        }
        List { walk: self, key: "" }.visit_seq(seq)
    }
}

/// A visitor of one list of entries.
struct List<'w, 'a> {
    walk: &'w mut Walk<'a>,
    key: &'a str,
}

impl<'de> DeserializeSeed<'de> for List<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for List<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` to be a list", self.key)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(value) = seq.next_element::<Value>()? {
            if let Err(failure) = (self.walk.handle)(self.key, index, value) {
                self.walk.failure = Some(failure);
                return Err(A::Error::custom("stopped"));
            }
            index += 1;
        }
        Ok(())
    }
}

/// The string under `key` of an entry; `at` names the entry.
pub(super) fn string<'v>(path: &Path, at: &str, entry: &'v Value, key: &str) -> Result<&'v str, DataError> {
    let found = entry.get(key);
    found.and_then(Value::as_str).ok_or_else(|| shape(path, format!("{at}.{key}"), "a string", kind(entry, found)))
}

/// The caption or captions under `key` of an entry: a string or a list of strings.
pub(super) fn strings(path: &Path, at: &str, entry: &Value, key: &str) -> Result<Vec<String>, DataError> {
    let found = entry.get(key);
    match found {
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        Some(Value::Array(items)) => {
            let text = |(index, item): (usize, &Value)| {
                let wrong = || shape(path, format!("{at}.{key}[{index}]"), "a string", kind(item, Some(item)));
                item.as_str().map(str::to_string).ok_or_else(wrong)
            };
            items.iter().enumerate().map(text).collect()
        }
        _ => Err(shape(path, format!("{at}.{key}"), "a string or a list of strings", kind(entry, found))),
    }
}

/// The list under `key` of an entry.
pub(super) fn list<'v>(path: &Path, at: &str, entry: &'v Value, key: &str) -> Result<&'v [Value], DataError> {
    let found = entry.get(key);
    let items = found.and_then(Value::as_array).map(Vec::as_slice);
    items.ok_or_else(|| shape(path, format!("{at}.{key}"), "a list", kind(entry, found)))
}

/// The first of `keys` that an entry has.
pub(super) fn present<'k>(entry: &Value, keys: &[&'k str]) -> Option<&'k str> {
    keys.iter().find(|key| entry.get(**key).is_some()).copied()
}

/// JSON of another shape than the format's.
pub(super) fn shape(path: &Path, at: String, expected: &str, found: &str) -> DataError {
    let (expected, found) = (expected.to_string(), found.to_string());
    DataError::Shape { path: path.display().to_string(), at, expected, found }
}

/// What stands in place of a field of `entry`.
fn kind(entry: &Value, found: Option<&Value>) -> &'static str {
    match found {
        None if entry.is_object() => "missing",
        None => "missing (the entry is not an object)",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "true or false",
        Some(Value::Number(_)) => "a number",
        Some(Value::String(_)) => "a string",
        Some(Value::Array(_)) => "a list",
        Some(Value::Object(_)) => "an object",
    }
}
