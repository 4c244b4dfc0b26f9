//! Reading weights: safetensors, memory-mapped, and PyTorch's `.pth`, `.pt` and `.bin`.
//!
//! A PyTorch checkpoint is a pickle, a little program. Its tensors are found by interpreting the few instructions that
//! dictionaries of tensors need; no Python function that a file names is ever called.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use memmap2::Mmap;
use pytorch_reader::PytorchReader;
use safetensors::SafeTensors;

use super::error::WeightsError;
use super::keys::KeyShape;

/// Names under which a model's folder holds its weights, the preferred one first.
const NAMES: [&str; 5] = ["model.safetensors", "pytorch_model.bin", "model.pth", "model.pt", "model.bin"];

/// Names under which training scripts nest a state_dict.
const NESTS: [&str; 3] = ["state_dict.", "model_state_dict.", "model."];

/// The file of weights in `folder`: `model.safetensors`, `pytorch_model.bin`, `model.pth`, `model.pt` or `model.bin`.
pub fn find(folder: impl AsRef<Path>) -> Result<PathBuf, WeightsError> {
    let folder = folder.as_ref();
    let mut candidates = NAMES.iter().map(|name| folder.join(name));
    candidates
        .find(|path| path.is_file())
        .ok_or_else(|| WeightsError::NotInFolder { path: folder.into(), names: NAMES.join(", ") })
}

/// The keys and shapes of the tensors in the file at `path`, sorted by key, without reading the tensors.
pub fn list(path: impl AsRef<Path>) -> Result<Vec<KeyShape>, WeightsError> {
    Ok(WeightFile::open(path.as_ref())?.key_shapes())
}

/// An open file of weights.
pub(super) struct WeightFile {
    path: PathBuf,
    bytes: Option<Bytes>,
    entries: BTreeMap<String, Entry>,
}

/// The bytes of a safetensors file.
enum Bytes {
    /// Of a file.
    Map(Mmap),
    /// Inside this program.
    Static(&'static [u8]),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Map(map) => map,
            Bytes::Static(bytes) => bytes,
        }
    }
}

struct Entry {
    shape: Vec<usize>,
    number: Number,
    place: Place,
}

/// Where a tensor's bytes are.
enum Place {
    /// In the safetensors file.
    Mapped(Range<usize>),
    /// Wherever the PyTorch container keeps them.
    Pytorch(pytorch_reader::Tensor),
}

/// How numbers are stored.
enum Number {
    F64,
    F32,
    F16,
    Bf16,
    Other(String),
}

impl WeightFile {
    /// Opens the file at `path`, whatever its name: the first bytes tell what it is.
    pub(super) fn open(path: &Path) -> Result<Self, WeightsError> {
        let start = first_bytes(path).map_err(|source| WeightsError::Read { path: path.into(), source })?;
        let mut file = match Kind::of(&start) {
            Kind::Safetensors => Self::open_safetensors(path)?,
            Kind::Pytorch => Self::open_pytorch(path)?,
            Kind::Neither(found) => return Err(WeightsError::Unrecognized { path: path.into(), found }),
        };
        file.unnest();
        if file.entries.is_empty() {
            return Err(WeightsError::NoTensors { path: path.into() });
        }
        Ok(file)
    }

    fn open_safetensors(path: &Path) -> Result<Self, WeightsError> {
        let read_error = |source| WeightsError::Read { path: path.into(), source };
        let file = File::open(path).map_err(read_error)?;
        // SAFETY: the map is only read, as bytes, which have no invalid values. Another process that shortens the file
        // while it is mapped could end this one with a bus error; weights are written whole and renamed, never in place.
        let map = unsafe { Mmap::map(&file) }.map_err(read_error)?;
        Self::of_safetensors(path, Bytes::Map(map))
    }

    /// A safetensors file inside this program; `name` is what errors call it.
    pub(super) fn built_in(name: &str, bytes: &'static [u8]) -> Result<Self, WeightsError> {
        Self::of_safetensors(Path::new(name), Bytes::Static(bytes))
    }

    fn of_safetensors(path: &Path, bytes: Bytes) -> Result<Self, WeightsError> {
        let (header, metadata) = SafeTensors::read_metadata(&bytes)
            .map_err(|source| WeightsError::Safetensors { path: path.into(), source })?;
        let data = 8 + header; // the header's length takes 8 bytes
        let entries = metadata.tensors().into_iter().map(|(key, info)| {
            let (start, end) = info.data_offsets;
            let place = Place::Mapped(data + start..data + end);
            (key, Entry { shape: info.shape.clone(), number: Number::of_safetensors(info.dtype), place })
        });
        Ok(Self { path: path.into(), entries: entries.collect(), bytes: Some(bytes) })
    }

    fn open_pytorch(path: &Path) -> Result<Self, WeightsError> {
        let reader = PytorchReader::new(path).map_err(|source| WeightsError::Pytorch { path: path.into(), source })?;
        let entries = reader.into_tensors().into_iter().map(|(key, tensor)| {
            let (shape, number) = (tensor.shape().to_vec(), Number::of_pytorch(tensor.dtype()));
            (key, Entry { shape, number, place: Place::Pytorch(tensor) })
        });
        Ok(Self { path: path.into(), bytes: None, entries: entries.collect() })
    }

    /// Keeps only the state_dict where a training script nested it next to other things, and drops the `module.` that
    /// data-parallel training puts before every key.
    fn unnest(&mut self) {
        if let Some(nest) = NESTS.iter().find(|nest| self.entries.keys().any(|key| key.starts_with(**nest))) {
            self.strip(nest);
        }
        if self.entries.keys().all(|key| key.starts_with("module.")) {
            self.strip("module.");
        }
    }

    /// Keeps the entries whose key starts with `prefix`, without the prefix.
    fn strip(&mut self, prefix: &str) {
        let entries = std::mem::take(&mut self.entries);
        let kept = entries.into_iter().filter_map(|(key, entry)| Some((key.strip_prefix(prefix)?.to_owned(), entry)));
        self.entries = kept.collect();
    }

    /// Keys and shapes, sorted by key.
    pub(super) fn key_shapes(&self) -> Vec<KeyShape> {
        self.entries.iter().map(|(key, e)| KeyShape { key: key.clone(), shape: e.shape.clone() }).collect()
    }

    /// The file's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The numbers of the tensor `key`, which must be one of [`WeightFile::key_shapes`], row-major.
    pub(super) fn read(&self, key: &str) -> Result<Vec<f32>, WeightsError> {
        let read_error = |source| WeightsError::Read { path: self.path.clone(), source };
        let absent = || read_error(std::io::Error::other(format!("there is no tensor {key}")));
        let entry = self.entries.get(key).ok_or_else(absent)?;
        let read;
        let bytes: &[u8] = match (&entry.place, &self.bytes) {
            (Place::Mapped(range), Some(bytes)) => bytes.get(range.clone()).ok_or_else(absent)?,
            (Place::Mapped(_), None) => return Err(absent()),
            (Place::Pytorch(tensor), _) => {
                read = tensor.read().map_err(read_error)?;
                &read
            }
        };
        entry.number.decode(bytes).map_err(|found| WeightsError::Type {
            path: self.path.clone(),
            key: key.to_owned(),
            found: found.to_owned(),
        })
    }
}

impl Number {
    fn of_safetensors(dtype: safetensors::Dtype) -> Self {
        match dtype {
            safetensors::Dtype::F64 => Number::F64,
            safetensors::Dtype::F32 => Number::F32,
            safetensors::Dtype::F16 => Number::F16,
            safetensors::Dtype::BF16 => Number::Bf16,
            other => Number::Other(format!("{other:?}")),
        }
    }

    fn of_pytorch(dtype: pytorch_reader::DType) -> Self {
        match dtype {
            pytorch_reader::DType::F64 => Number::F64,
            pytorch_reader::DType::F32 => Number::F32,
            pytorch_reader::DType::F16 => Number::F16,
            pytorch_reader::DType::BF16 => Number::Bf16,
            other => Number::Other(format!("{other:?}")),
        }
    }

    /// Little-endian numbers as `f32`; the type's name if it is not floating point.
    fn decode(&self, bytes: &[u8]) -> Result<Vec<f32>, &str> {
        Ok(match self {
            Number::F64 => words(bytes).map(|w| f64::from_le_bytes(w) as f32).collect(),
            Number::F32 => words(bytes).map(f32::from_le_bytes).collect(),
            Number::F16 => words(bytes).map(|w| f16::from_le_bytes(w).to_f32()).collect(),
            Number::Bf16 => words(bytes).map(|w| bf16::from_le_bytes(w).to_f32()).collect(),
            Number::Other(name) => return Err(name),
        })
    }
}

/// `bytes` in words of `N`.
fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// What the first bytes of a file say.
enum Kind {
    Safetensors,
    Pytorch,
    Neither(String),
}

impl Kind {
    fn of(start: &[u8]) -> Self {
        match start {
            [] => Kind::Neither("it is empty".to_owned()),
            [_, _, _, _, _, _, _, _, b'{', ..] => Kind::Safetensors,
            [b'P', b'K', ..] | [0x80, ..] => Kind::Pytorch,
            // Protocols 0 and 1 of pickle, and tar archives, which name their first member.
            _ if start.get(257..262) == Some(b"ustar") || matches!(start[0], b'(' | b'}' | b']' | b'c') => {
                Kind::Pytorch
            }
            _ => {
                let shown = start[..start.len().min(8)].escape_ascii();
                Kind::Neither(format!("it starts with \"{shown}\""))
            }
        }
    }
}

fn first_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)?.take(262).read_to_end(&mut start)?;
    Ok(start)
}
