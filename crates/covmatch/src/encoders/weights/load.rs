//! Putting a file's weights into an encoder.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Tensor, TensorData};

use super::error::{Mismatch, WeightsError};
use super::file::WeightFile;
use super::fit::{Fit, fit};
use super::key_map::KeyMap;
use super::keys::{KeyPath, keys};
use super::known::looks_like;

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
    let mut fill = Fill { path: KeyPath::default(), file, pairs, error: None };
    let module = module.map(&mut fill);
    match fill.error {
        Some(error) => Err(error),
        None => Ok(module),
    }
}

struct Fill {
    path: KeyPath,
    file: WeightFile,
    /// From the module's keys to the file's.
    pairs: BTreeMap<String, String>,
    /// The first error; parameters after it keep their values.
    error: Option<WeightsError>,
}

impl Fill {
    /// The numbers of the parameter at the current place, unless something failed, now or before.
    fn read(&mut self) -> Option<Vec<f32>> {
        if self.error.is_some() {
            return None;
        }
        let key = self.pairs.get(&self.path.key())?;
        self.file.read(key).map_err(|error| self.error = Some(error)).ok()
    }
}

impl ModuleMapper for Fill {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, container_type: &str) {
        self.path.exit(container_type);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(values) = self.read() else { return param };
        let data = TensorData::new(values, param.lazy_shape());
        let (tensor, id) = (Tensor::from_data(data, &param.lazy_device()), param.id);
        param.transform_for_load(tensor, id)
    }
}
