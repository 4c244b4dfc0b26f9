//! Which device the tensors live on.
//!
//! `flex`, the CPU, is in every build. Each GPU backend is a cargo feature of the same name; asking for one that is not
//! compiled in, or that the machine lacks, is an error that says what to do.

use std::fmt;
use std::str::FromStr;

use burn::tensor::Device;
#[cfg(any(feature = "metal", feature = "vulkan", feature = "wgpu"))]
use burn::tensor::DeviceKind;

/// A device by name, as `--device` takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first GPU backend that is compiled in, in the order `cuda`, `rocm`, `metal`, `vulkan`, `wgpu`; `flex` in a
    /// build without any.
    #[default]
    Auto,
    /// The CPU, with the kernels of `covmatch-kernels`.
    Flex,
    /// The NVIDIA GPU with this index.
    Cuda(usize),
    /// The AMD GPU with this index.
    Rocm(usize),
    /// The GPU of an Apple machine.
    Metal,
    /// The best GPU that speaks Vulkan.
    Vulkan,
    /// The best GPU of whatever graphics API the machine has.
    Wgpu,
}

/// Why a device cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The text names no device.
    #[error("'{0}' is not a device: use auto, flex, cuda, cuda:1, rocm, rocm:1, metal, vulkan or wgpu")]
    Unknown(String),
    /// The device's backend is not part of this program.
    #[error(
        "device '{device}' is not compiled in: build with `cargo build --release --features {feature}`, \
         or use --device flex"
    )]
    NotCompiled {
        /// The device that was asked for.
        device: DeviceChoice,
        /// The cargo feature that brings it.
        feature: &'static str,
    },
    /// The backend is part of this program but the machine has no such device, or its driver does not answer.
    #[error(
        "device '{device}' does not answer ({cause}): check that its driver is installed and that the machine has it, \
         or use --device flex"
    )]
    Unavailable {
        /// The device that was asked for.
        device: DeviceChoice,
        /// What the backend reported.
        cause: String,
    },
}

impl DeviceChoice {
    /// Opens the device.
    ///
    /// A GPU runs one small operation first, so that a missing driver is an error here and not a panic later.
    pub fn open(self) -> Result<Device, DeviceError> {
        match self.resolve() {
            DeviceChoice::Auto | DeviceChoice::Flex => Ok(Device::flex()),
            gpu => {
                let device = gpu.handle()?;
                answers(|| answer_of(&device)).map_err(|cause| DeviceError::Unavailable { device: gpu, cause })?;
                Ok(device)
            }
        }
    }

    /// What [`DeviceChoice::Auto`] stands for in this build; any other choice is itself.
    pub fn resolve(self) -> Self {
        if self != DeviceChoice::Auto {
            return self;
        }
        if cfg!(feature = "cuda") {
            DeviceChoice::Cuda(0)
        } else if cfg!(feature = "rocm") {
            DeviceChoice::Rocm(0)
        } else if cfg!(feature = "metal") {
            DeviceChoice::Metal
        } else if cfg!(feature = "vulkan") {
            DeviceChoice::Vulkan
        } else if cfg!(feature = "wgpu") {
            DeviceChoice::Wgpu
        } else {
            DeviceChoice::Flex
        }
    }

    /// burn's handle of the device, which does not touch the hardware yet.
    fn handle(self) -> Result<Device, DeviceError> {
        match self {
            DeviceChoice::Auto | DeviceChoice::Flex => Ok(Device::flex()),
            #[cfg(feature = "cuda")]
            DeviceChoice::Cuda(index) => Ok(Device::cuda(index)),
            #[cfg(feature = "rocm")]
            DeviceChoice::Rocm(index) => Ok(Device::rocm(index)),
            #[cfg(feature = "metal")]
            DeviceChoice::Metal => Ok(Device::metal(DeviceKind::DefaultDevice)),
            #[cfg(feature = "vulkan")]
            DeviceChoice::Vulkan => Ok(Device::vulkan(DeviceKind::DefaultDevice)),
            #[cfg(feature = "wgpu")]
            DeviceChoice::Wgpu => Ok(Device::wgpu(DeviceKind::DefaultDevice)),
            #[allow(unreachable_patterns)] // reached unless every GPU feature is on
            absent => Err(DeviceError::NotCompiled { device: absent, feature: absent.backend() }),
        }
    }

    /// The name without the index, which is also the name of the cargo feature.
    fn backend(self) -> &'static str {
        match self {
            DeviceChoice::Auto => "auto",
            DeviceChoice::Flex => "flex",
            DeviceChoice::Cuda(_) => "cuda",
            DeviceChoice::Rocm(_) => "rocm",
            DeviceChoice::Metal => "metal",
            DeviceChoice::Vulkan => "vulkan",
            DeviceChoice::Wgpu => "wgpu",
        }
    }
}

/// What `device` is called in the record of a run.
pub fn device_name(device: &Device) -> String {
    match *device == Device::flex() {
        true => DeviceChoice::Flex.to_string(),
        false => format!("{device:?}").to_lowercase(),
    }
}

/// One small computation on `device`, read back.
fn answer_of(device: &Device) -> Result<(), String> {
    let two = burn::tensor::Tensor::<1>::ones([1], device).mul_scalar(2.0);
    match two.try_into_vec_as::<f32>() {
        Ok(values) if values == [2.0] => Ok(()),
        Ok(values) => Err(format!("1 x 2 gave {values:?}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs `probe` and turns a panic, which is how burn's backends report a missing device, into a message.
fn answers(probe: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(probe)) {
        Ok(result) => result,
        Err(panic) => Err(panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "the backend gave no reason".to_owned())),
    }
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::Unknown(text.to_owned());
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => (name, Some(index.parse::<usize>().map_err(|_| unknown())?)),
            None => (text, None),
        };
        match (name, index) {
            ("auto", None) => Ok(DeviceChoice::Auto),
            ("flex", None) => Ok(DeviceChoice::Flex),
            ("cuda", index) => Ok(DeviceChoice::Cuda(index.unwrap_or(0))),
            ("rocm", index) => Ok(DeviceChoice::Rocm(index.unwrap_or(0))),
            ("metal", None) => Ok(DeviceChoice::Metal),
            ("vulkan", None) => Ok(DeviceChoice::Vulkan),
            ("wgpu", None) => Ok(DeviceChoice::Wgpu),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Cuda(index) | DeviceChoice::Rocm(index) if *index > 0 => {
                write!(f, "{}:{index}", self.backend())
            }
            _ => f.write_str(self.backend()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn every_name_parses_and_prints_back() {
        for name in ["auto", "flex", "cuda", "cuda:3", "rocm", "rocm:1", "metal", "vulkan", "wgpu"] {
            assert_eq!(name.parse::<DeviceChoice>().unwrap().to_string(), name);
        }
        assert_eq!("cuda:0".parse(), Ok(DeviceChoice::Cuda(0)));
    }

    #[test]
    fn a_name_that_is_no_device_is_refused_with_the_list_of_names() {
        for name in ["", "gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda:0:1", "flex:0", "auto:1", "metal:0", ":0"] {
            let error = name.parse::<DeviceChoice>().unwrap_err();
            assert_eq!(error, DeviceError::Unknown(name.to_owned()));
            assert!(error.to_string().contains("auto, flex, cuda"), "{error}");
        }
    }

    #[test]
    fn flex_opens_and_computes() {
        let device = DeviceChoice::Flex.open().unwrap();
        assert_eq!(device, Device::flex());
        assert_eq!(answer_of(&device), Ok(()));
    }

    #[test]
    fn auto_never_stays_auto() {
        assert_ne!(DeviceChoice::Auto.resolve(), DeviceChoice::Auto);
        #[cfg(not(any(feature = "cuda", feature = "rocm", feature = "metal", feature = "vulkan", feature = "wgpu")))]
        assert_eq!(DeviceChoice::Auto.resolve(), DeviceChoice::Flex);
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_device_that_is_not_compiled_in_names_its_feature() {
        let error = DeviceChoice::Cuda(1).open().unwrap_err();
        assert_eq!(error, DeviceError::NotCompiled { device: DeviceChoice::Cuda(1), feature: "cuda" });
        let text = error.to_string();
        assert!(text.contains("'cuda:1'") && text.contains("cargo build --release --features cuda"), "{text}");
    }

    #[test]
    fn a_backend_that_panics_is_a_message() {
        assert_eq!(answers(|| panic!("no adapter {}", 7)), Err("no adapter 7".to_owned()));
        assert_eq!(answers(|| panic!("no driver")), Err("no driver".to_owned()));
        assert_eq!(answers(|| Ok(())), Ok(()));
    }
}
