//! Putting a file's weights into an encoder.

use std::path::Path;

use burn::module::Module;

use super::error::{Mismatch, WeightsError};
use super::file::WeightFile;
use super::fit::{Fit, fit};
use super::key_map::KeyMap;
use super::keys::keys;
use super::known::looks_like;
use super::walk;

/// `module` with the weights of the file at `path`, whose keys `map` renames.
///
/// Every parameter and stored statistic of the module must be in the file, in the same shape; what the file has beyond
/// that must be a classifier, a pooler or the like. Whether a parameter is trained stays as it is in `module`.
pub fn load<M: Module>(module: M, path: impl AsRef<Path>, map: KeyMap) -> Result<M, WeightsError> {
    fill(module, WeightFile::open(path.as_ref())?, map)
}

/// `module` with the weights of a safetensors file inside this program, which errors call `name`.
pub(crate) fn load_built_in<M: Module>(module: M, name: &str, bytes: &'static [u8]) -> Result<M, WeightsError> {
    fill(module, WeightFile::built_in(name, bytes)?, KeyMap::Detect)
}

fn fill<M: Module>(module: M, file: WeightFile, map: KeyMap) -> Result<M, WeightsError> {
    let found = file.key_shapes();
    let Fit { pairs, mismatch } = fit(&keys(&module), &found, map);
    if !mismatch.is_empty() {
        let (path, looks_like) = (file.path().to_owned(), looks_like(&found));
        return Err(WeightsError::Mismatch(Box::new(Mismatch { path, looks_like, ..mismatch })));
    }
    // The first error; parameters after it keep their values.
    let mut error = None;
    let module = walk::fill(module, |key, _| match error {
        Some(_) => None,
        None => file.read(pairs.get(key)?).map_err(|cause| error = Some(cause)).ok(),
    });
    error.map_or(Ok(module), Err)
}
