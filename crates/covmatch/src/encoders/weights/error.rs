//! What can go wrong with a file of weights.

use std::fmt;
use std::path::PathBuf;

use super::keys::KeyShape;
use super::known::LooksLike;

/// Why weights cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file cannot be opened or read.
    #[error("cannot read {}: {source}; check the path, or fetch weights with scripts/pull-models", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A folder holds no file of weights.
    #[error("{} holds none of {names}; name the file itself, or fetch weights with scripts/pull-models", path.display())]
    NotInFolder {
        /// The folder.
        path: PathBuf,
        /// The names that were looked for.
        names: String,
    },
    /// The file is neither safetensors nor a PyTorch checkpoint.
    #[error("{} is neither a safetensors file nor a PyTorch checkpoint ({found}); download it again", path.display())]
    Unrecognized {
        /// The file.
        path: PathBuf,
        /// What it starts with.
        found: String,
    },
    /// A safetensors file contradicts itself or ends too early.
    #[error("{} is a damaged safetensors file: {source}; download it again", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: safetensors::SafeTensorError,
    },
    /// A PyTorch checkpoint is damaged, or holds more than tensors in dictionaries.
    #[error("{} cannot be read as a PyTorch checkpoint: {source}; download it again, or save its state_dict() as \
             safetensors", path.display())]
    Pytorch {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: pytorch_reader::PytorchError,
    },
    /// The file is sound but holds no tensor.
    #[error("{} holds no tensors; it must be a state_dict", path.display())]
    NoTensors {
        /// The file.
        path: PathBuf,
    },
    /// A weight's numbers are not floating point.
    #[error("{}: {key} is stored as {found}; weights must be f32, f16, bf16 or f64", path.display())]
    Type {
        /// The file.
        path: PathBuf,
        /// Key of the weight in the file.
        key: String,
        /// How it is stored.
        found: String,
    },
    /// The file's keys or shapes are not the encoder's.
    #[error(transparent)]
    Mismatch(Box<Mismatch>),
    /// The file cannot be written.
    #[error("cannot write {}: {source}; check that the folder exists and has space", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
}

/// A weight whose shape differs between file and encoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongShape {
    /// The upstream key.
    pub key: String,
    /// The encoder's shape.
    pub expected: Vec<usize>,
    /// The file's shape.
    pub found: Vec<usize>,
}

/// How the keys of a file differ from those of an encoder.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Mismatch {
    /// The file.
    pub path: PathBuf,
    /// What the encoder has and the file has not.
    pub missing: Vec<KeyShape>,
    /// What the file has and the encoder has not.
    pub unexpected: Vec<KeyShape>,
    /// What both have, in different shapes.
    pub wrong_shapes: Vec<WrongShape>,
    /// The encoder that the file's keys and shapes resemble most.
    pub looks_like: Option<LooksLike>,
}

impl Mismatch {
    /// How many entries of each list the message shows.
    const SHOWN: usize = 5;

    /// Whether there is no difference.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.wrong_shapes.is_empty()
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (missing, unexpected, shapes) = (self.missing.len(), self.unexpected.len(), self.wrong_shapes.len());
        write!(f, "{} does not fit the encoder: {missing} keys missing, ", self.path.display())?;
        write!(f, "{unexpected} unexpected, {shapes} of another shape")?;
        list(f, "missing", self.missing.iter().map(key_shape))?;
        list(f, "unexpected", self.unexpected.iter().map(key_shape))?;
        let shapes = self.wrong_shapes.iter();
        list(f, "another shape", shapes.map(|w| format!("{} {:?} instead of {:?}", w.key, w.found, w.expected)))?;
        match &self.looks_like {
            Some(looks_like) => write!(f, "\n  {looks_like}"),
            None => write!(f, "\n  the file looks like none of the known encoders"),
        }
    }
}

fn key_shape(entry: &KeyShape) -> String {
    format!("{} {:?}", entry.key, entry.shape)
}

/// One line with the first entries, and how many more there are.
fn list(f: &mut fmt::Formatter, title: &str, entries: impl ExactSizeIterator<Item = String>) -> fmt::Result {
    let more = entries.len().saturating_sub(Mismatch::SHOWN);
    let shown: Vec<String> = entries.take(Mismatch::SHOWN).collect();
    if shown.is_empty() {
        return Ok(());
    }
    write!(f, "\n  {title}: {}", shown.join(", "))?;
    if more > 0 { write!(f, " and {more} more") } else { Ok(()) }
}
