//! What a run writes down about itself, in `run.toml`: sums depend on more than the configuration.

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::engine::{DeviceChoice, device_name, precision_name, threads, vector_level};

/// What a run writes down about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// Version of covmatch that began it.
    pub version: String,
    /// Fingerprint of the dataset.
    pub data_fingerprint: String,
    /// What made the pairs, and where; version 0.1 did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maker: Option<Maker>,
}

/// What makes the pairs of a folder, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maker {
    /// The method.
    pub method: String,
    /// Its name in tables.
    pub title: String,
    /// Whether it learns pairs; otherwise it chooses real ones.
    pub learns: bool,
    /// The machine's part.
    #[serde(flatten)]
    pub machine: Machine,
}

/// What sums depend on beside the configuration: another machine of the same kind gives the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The device, such as `flex`.
    pub device: String,
    /// Threads of the CPU kernels.
    pub threads: usize,
    /// Vector instructions of the CPU kernels, such as `avx512`.
    pub vector: String,
    /// Precision of the CPU kernels' products, such as `bf16`; absent for f32, and on other devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
}

impl Machine {
    /// This machine, computing on `device`.
    pub fn here(device: &Device) -> Self {
        let (device, precision) = (device_name(device), precision_name());
        let on_cpu = device == DeviceChoice::Flex.to_string();
        let precision = (on_cpu && precision != "f32").then(|| precision.to_owned());
        Self { device, threads: threads(), vector: vector_level().to_owned(), precision }
    }
}

impl Maker {
    /// The method `name`, called `title` in tables, on this machine.
    pub fn of(name: &str, title: &str, learns: bool, device: &Device) -> Self {
        Self { method: name.to_owned(), title: title.to_owned(), learns, machine: Machine::here(device) }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { device, threads, vector, precision } = self;
        let plural = if *threads == 1 { "" } else { "s" };
        write!(f, "{device}, {threads} thread{plural}, {vector}")?;
        precision.iter().try_for_each(|precision| write!(f, ", {precision}"))
    }
}

impl RunRecord {
    /// What a run of this version writes down that is no run of a method: the data alone.
    pub fn of_data(data_fingerprint: String) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), data_fingerprint, maker: None }
    }

    /// What decides the results of another run: the data alone.
    pub fn decisive(&self) -> Self {
        Self { version: String::new(), data_fingerprint: self.data_fingerprint.clone(), maker: None }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_precision_is_written_unless_it_is_f32() {
        let here = Machine::here(&Device::flex());
        let text = toml::to_string(&here).unwrap();
        assert!(!text.contains("precision"), "{text}");
        assert_eq!(toml::from_str::<Machine>(&text).unwrap(), here);

        let rounded = Machine { precision: Some("bf16".to_owned()), ..here };
        let text = toml::to_string(&rounded).unwrap();
        assert!(text.contains("precision = \"bf16\""), "{text}");
        assert_eq!(toml::from_str::<Machine>(&text).unwrap(), rounded);
        assert!(rounded.to_string().ends_with(", bf16"), "{rounded}");
    }
}
