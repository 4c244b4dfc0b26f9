//! Weights of encoders: files of timm, Hugging Face and torchvision, and weights made by a formula.
//!
//! ```no_run
//! use burn::tensor::Device;
//! use covmatch::encoders::{image::AnyImageEncoder, weights};
//!
//! let encoder = AnyImageEncoder::new("efficientnet_lite0", &Device::flex())?;
//! let encoder = weights::load(encoder, "models/efficientnet_lite0/model.pth", weights::KeyMap::Detect)?;
//! weights::save(&encoder, "trained.safetensors")?; // timm loads this file
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod file;
mod fit;
pub mod generated;
mod key_map;
mod keys;
mod known;
mod load;
mod save;
mod walk;

pub use error::{Mismatch, WeightsError, WrongShape};
pub use file::{find, list};
pub use fit::compare;
pub use key_map::KeyMap;
pub use keys::{KeyShape, keys};
pub use known::LooksLike;
pub use load::load;
pub(crate) use load::load_built_in;
pub use save::save;
pub(crate) use walk::advance;
pub use walk::{Parameter, visit};
