//! Named f32 tensors with a few words about them, as a safetensors file.
//!
//! The header's entries are sorted, so that the same tensors always give the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use safetensors::{Dtype, SafeTensors};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::files::{self, WriteError};

/// Why a file of tensors cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TensorFileError {
    /// The file cannot be read at all.
    #[error("cannot read {path}: {cause}; check that the path exists and may be read")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// The file is not safetensors.
    #[error("{path} is not a whole safetensors file ({cause}): it was cut short or is of another kind; make it again")]
    Format {
        /// The file.
        path: String,
        /// What the reader says.
        cause: String,
    },
    /// The file lacks a tensor or a word about it, or has it in another form.
    #[error("{path} {cause}; it was written by another program or another version")]
    Content {
        /// The file.
        path: String,
        /// What is missing.
        cause: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Named tensors in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorFile {
    /// Words about the tensors.
    pub metadata: BTreeMap<String, String>,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    /// What errors call the file.
    name: String,
}

impl TensorFile {
    /// Adds a tensor.
    pub fn put<const D: usize>(&mut self, name: &str, tensor: Tensor<D>) {
        self.put_values(name, tensor.dims().to_vec(), tensor);
    }

    /// Adds a tensor of that shape with the values of `tensor`, in the order of their elements.
    pub fn put_values<const D: usize>(&mut self, name: &str, shape: Vec<usize>, tensor: Tensor<D>) {
        let data = tensor.into_data();
        let values = match data.as_slice::<f32>() {
            Ok(values) => values.to_vec(),
            Err(_) => data.iter::<f32>().collect(),
        };
        self.tensors.insert(name.to_owned(), (shape, values));
    }

    /// The tensor `name` on `device`.
    pub fn get<const D: usize>(&self, name: &str, device: &Device) -> Result<Tensor<D>, TensorFileError> {
        let (shape, values) = self.entry(name)?;
        if shape.len() != D {
            return Err(self.content(format!("has '{name}' with shape {shape:?} where {D} dimensions belong")));
        }
        Ok(Tensor::from_data(TensorData::new(values.clone(), shape.clone()), device))
    }

    /// The values of the tensor `name`, in the order of its elements.
    pub fn values(&self, name: &str) -> Result<&[f32], TensorFileError> {
        self.entry(name).map(|(_, values)| values.as_slice())
    }

    /// The shape of the tensor `name`.
    pub fn shape(&self, name: &str) -> Result<&[usize], TensorFileError> {
        self.entry(name).map(|(shape, _)| shape.as_slice())
    }

    /// Whether there is a tensor `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The word about `key`.
    pub fn about(&self, key: &str) -> Result<&str, TensorFileError> {
        let word = self.metadata.get(key);
        word.map(String::as_str).ok_or_else(|| self.content(format!("says nothing about '{key}'")))
    }

    /// Says `value` about `key`, as JSON.
    pub fn put_value(&mut self, key: &str, value: &impl Serialize) {
        self.metadata.insert(key.to_owned(), json!(value).to_string());
    }

    /// The JSON value about `key`.
    pub fn value<T: DeserializeOwned>(&self, key: &str) -> Result<T, TensorFileError> {
        let text = self.about(key)?;
        serde_json::from_str(text).map_err(|cause| self.content(format!("has '{key}' as {text}: {cause}")))
    }

    /// An error about what this file holds.
    pub fn content(&self, cause: String) -> TensorFileError {
        TensorFileError::Content { path: self.name.clone(), cause }
    }

    fn entry(&self, name: &str) -> Result<&(Vec<usize>, Vec<f32>), TensorFileError> {
        self.tensors.get(name).ok_or_else(|| self.content(format!("has no tensor '{name}'")))
    }

    /// Writes the file `path`, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        files::write_with(path, |out| {
            let header = self.header();
            out.write_all(&(header.len() as u64).to_le_bytes())?;
            out.write_all(&header)?;
            for (_, values) in self.tensors.values() {
                for value in values {
                    out.write_all(&value.to_le_bytes())?;
                }
            }
            Ok(())
        })
    }

    /// The JSON header, padded with spaces to a multiple of 8 bytes.
    fn header(&self) -> Vec<u8> {
        let mut entries = Map::new();
        if !self.metadata.is_empty() {
            entries.insert("__metadata__".to_owned(), json!(self.metadata));
        }
        let mut end = 0;
        for (name, (shape, values)) in &self.tensors {
            let start = end;
            end += 4 * values.len();
            entries.insert(name.clone(), json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, end] }));
        }
        let mut header = Value::Object(entries).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        header
    }

    /// Reads the file `path`.
    pub fn read(path: &Path) -> Result<Self, TensorFileError> {
        let name = path.display().to_string();
        let bytes = fs::read(path).map_err(|cause| TensorFileError::Read { path: name.clone(), cause })?;
        let format = |cause: String| TensorFileError::Format { path: name.clone(), cause };
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|cause| format(cause.to_string()))?;
        let metadata = header.metadata().clone().unwrap_or_default().into_iter().collect();
        let file = SafeTensors::deserialize(&bytes).map_err(|cause| format(cause.to_string()))?;
        let mut tensors = BTreeMap::new();
        for (key, view) in file.iter() {
            if view.dtype() != Dtype::F32 {
                return Err(format(format!("'{key}' is {:?}, not F32", view.dtype())));
            }
            let values = view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            tensors.insert(key.to_owned(), (view.shape().to_vec(), values));
        }
        Ok(Self { metadata, tensors, name })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sample() -> TensorFile {
        let device = Device::flex();
        let mut file = TensorFile::default();
        file.metadata.insert("step".to_owned(), "12".to_owned());
        file.metadata.insert("encoder".to_owned(), "nfnet_l0".to_owned());
        file.put("text", Tensor::<2>::from_floats([[1.0, -2.5], [f32::MIN_POSITIVE, 3e30]], &device));
        file.put("image", Tensor::<1>::from_floats([0.1, 0.2, 0.3], &device));
        file
    }

    #[test]
    fn what_is_written_is_read_and_has_the_same_bytes_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        sample().write(&a).unwrap();
        let read = TensorFile::read(&a).unwrap();
        read.write(&b).unwrap();
        assert_eq!(fs::read(&a).unwrap(), fs::read(&b).unwrap());
        assert_eq!((&read.metadata, &read.tensors), (&sample().metadata, &sample().tensors));
    }

    #[test]
    fn damage_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.safetensors");
        sample().write(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        for length in [0, 7, 8, 20, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            let error = TensorFile::read(&path).unwrap_err().to_string();
            assert!(error.contains("cut.safetensors"), "{length}: {error}");
        }
        let device = Device::flex();
        assert!(sample().get::<1>("nothing", &device).unwrap_err().to_string().contains("'nothing'"));
        assert!(sample().get::<3>("image", &device).unwrap_err().to_string().contains("3 dimensions"));
        assert!(sample().about("seed").unwrap_err().to_string().contains("'seed'"));
    }
}
