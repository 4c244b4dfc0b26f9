//! Arguments that many commands share: where computations run, how an experiment is changed, where results go.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use clap::Args;
use covmatch::engine::{DeviceChoice, PrecisionChoice, set_threads};

/// Where and how wide computations run.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// auto, flex (the CPU), cuda[:i], rocm[:i], metal, vulkan or wgpu; each GPU needs a build with its cargo feature
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    pub device: DeviceChoice,
    /// Threads and precision of the CPU kernels.
    #[command(flatten)]
    pub cpu: CpuArgs,
}

impl EngineArgs {
    /// Sets up the CPU kernels and opens the device.
    pub fn open(&self) -> anyhow::Result<Device> {
        self.cpu.set()?;
        Ok(self.device.open()?)
    }
}

/// How the CPU kernels compute.
#[derive(Debug, Args)]
pub struct CpuArgs {
    /// Threads of the CPU kernels [default: all cores]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub threads: usize,
    /// Precision of the CPU kernels' products: f32; bf16, with sums in f32; or auto, bf16 where the CPU has it
    #[arg(long, value_name = "PRECISION", default_value_t = PrecisionChoice::F32)]
    pub precision: PrecisionChoice,
}

impl CpuArgs {
    /// Sets the threads and the precision.
    pub fn set(&self) -> anyhow::Result<()> {
        set_threads(self.threads)?;
        Ok(self.precision.set()?)
    }
}

/// How an experiment differs from its file, and where it runs.
#[derive(Debug, Args)]
pub struct ExperimentArgs {
    /// Change a field of the experiment, such as distill.pairs=200 or evaluate.epochs=50; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Device and threads.
    #[command(flatten)]
    pub engine: EngineArgs,
}

/// An experiment that leaves a folder.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Folder for the result [default: in runs/, by the name of the experiment]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Overrides, device and threads.
    #[command(flatten)]
    pub experiment: ExperimentArgs,
}

impl RunArgs {
    /// The folder that was named, or `runs/` with the name of the file `config` and `suffix`.
    pub fn folder(&self, config: &Path, suffix: &str) -> PathBuf {
        let name = config.file_stem().unwrap_or_default().to_string_lossy();
        self.out.clone().unwrap_or_else(|| Path::new("runs").join(format!("{name}{suffix}")))
    }
}
