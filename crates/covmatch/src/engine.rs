//! Devices, threads, precision, memory and randomness: the only place that names a backend.

mod device;
mod memory;
mod precision;
mod stream;
mod threads;
mod vector;

pub use device::{DeviceChoice, DeviceError, device_name};
pub use memory::{current_memory, peak_memory};
pub use precision::{PrecisionChoice, PrecisionError, precision_name};
pub(crate) use stream::fnv1a64;
pub use stream::{Seed, Stream};
pub use threads::{ThreadsError, set_threads, threads};
pub use vector::vector_level;
