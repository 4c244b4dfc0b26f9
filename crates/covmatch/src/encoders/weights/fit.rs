//! Which tensor of a file goes where in an encoder.

use std::collections::BTreeMap;

use super::error::{Mismatch, WrongShape};
use super::key_map::KeyMap;
use super::keys::KeyShape;

/// The outcome of laying a file's keys over an encoder's.
pub(super) struct Fit {
    /// From the encoder's keys to the file's, where the shapes agree.
    pub(super) pairs: BTreeMap<String, String>,
    /// The differences.
    pub(super) mismatch: Mismatch,
}

/// How the keys of a `file` differ from those of an `encoder` after renaming by `map`; empty if the file fits.
///
/// What the encoder leaves out on purpose (classifiers, poolers, counters) is no difference. The result names no file
/// and no look-alike.
pub fn compare(encoder: &[KeyShape], file: &[KeyShape], map: KeyMap) -> Mismatch {
    fit(encoder, file, map).mismatch
}

/// Lays the keys of a `file`, renamed by `map`, over those of an `encoder`.
pub(super) fn fit(encoder: &[KeyShape], file: &[KeyShape], map: KeyMap) -> Fit {
    let map = map.resolve(file);
    let mut wanted: BTreeMap<&str, &KeyShape> = encoder.iter().map(|entry| (entry.key.as_str(), entry)).collect();
    let (mut pairs, mut mismatch) = (BTreeMap::new(), Mismatch::default());
    for found in file {
        let key = map.rename(&found.key);
        match wanted.remove(key.as_str()) {
            Some(entry) if entry.shape == found.shape => {
                pairs.insert(key, found.key.clone());
            }
            Some(entry) => mismatch.wrong_shapes.push(WrongShape {
                key,
                expected: entry.shape.clone(),
                found: found.shape.clone(),
            }),
            None if map.may_be_left_over(&found.key) => {}
            None => mismatch.unexpected.push(found.clone()),
        }
    }
    mismatch.missing = encoder.iter().filter(|entry| wanted.contains_key(entry.key.as_str())).cloned().collect();
    Fit { pairs, mismatch }
}
