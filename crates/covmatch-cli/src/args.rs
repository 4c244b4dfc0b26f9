//! The command line's grammar.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use covmatch::data::source::Format;
use covmatch::engine::DeviceChoice;

/// Distil an image-text dataset into a few hundred synthetic pairs by matching cross-covariance.
#[derive(Debug, Parser)]
#[command(name = "covmatch", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Start here:
  covmatch demo                      run the parts that exist, on generated data; no download
  covmatch inspect scenes --sheet scenes.png
                                     look at the built-in dataset, or at yours
  covmatch encoders                  list the networks
  covmatch bench encoder nfnet_l0    how fast one runs on this machine

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run every part that exists end to end, on generated weights and data
    Demo(DemoArgs),
    /// List the image, video and text encoders
    Encoders(EncodersArgs),
    /// Tell what a dataset holds and what is wrong with it
    Inspect(InspectArgs),
    /// Measure speed and memory
    #[command(arg_required_else_help = true)]
    Bench {
        /// What to measure.
        #[command(subcommand)]
        what: BenchCommand,
    },
}

/// What `bench` measures.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Time an encoder on generated weights: forward, and forward with backward to the input and to the weights
    Encoder(BenchEncoderArgs),
}

/// Where and how wide computations run.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// auto, flex (the CPU), cuda[:i], rocm[:i], metal, vulkan or wgpu; each GPU needs a build with its cargo feature
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    pub device: DeviceChoice,
    /// Threads of the CPU kernels [default: all cores]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub threads: usize,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Use the smallest networks and inputs, for a check of a few seconds
    #[arg(long)]
    pub smoke: bool,
    /// Also write the numbers to DIR/demo.json
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Threads of the CPU kernels [default: all cores]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub threads: usize,
}

/// Arguments of `encoders`.
#[derive(Debug, Args)]
pub struct EncodersArgs {
    /// Print a JSON array instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Annotations or a folder that has them, in any format covmatch reads; `scenes` is the built-in dataset
    pub data: PathBuf,
    /// Folder or tar archive of the images [default: beside the annotations]
    #[arg(long, value_name = "PATH")]
    pub images: Option<PathBuf>,
    /// Read DATA as this format instead of finding out
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Leave out what cannot be used, and list it, instead of failing
    #[arg(long)]
    pub skip_bad: bool,
    /// tokenizer.json or vocab.txt, to report token lengths
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,
    /// Write a contact sheet: pictures with their captions
    #[arg(long, value_name = "PNG")]
    pub sheet: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `bench encoder`.
#[derive(Debug, Args)]
pub struct BenchEncoderArgs {
    /// A name that `covmatch encoders` lists
    pub name: String,
    /// Examples in a batch [default: 8 images, 2 clips or 16 captions]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub batch: Option<usize>,
    /// Side of images and frames in pixels [default: what the encoder was trained on]
    #[arg(long, value_name = "PIXELS", value_parser = positive)]
    pub size: Option<usize>,
    /// Frames of a clip [default: 16]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub frames: Option<usize>,
    /// Tokens of a caption [default: 32]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub tokens: Option<usize>,
    /// Timed iterations; the median is reported
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = positive)]
    pub iterations: usize,
    /// Iterations before the timed ones
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub warmup: usize,
    /// Measure one phase only, so that the peak memory is its own
    #[arg(long, value_name = "PHASE")]
    pub only: Option<Phase>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Device and threads.
    #[command(flatten)]
    pub engine: EngineArgs,
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Phase {
    /// The forward pass, without autodiff
    Forward,
    /// Forward and backward to the input; the weights are frozen
    BackwardInput,
    /// Forward and backward to the weights; the input is not tracked
    BackwardWeights,
}

impl Phase {
    /// All phases in the order they run.
    pub const ALL: [Phase; 3] = [Phase::Forward, Phase::BackwardInput, Phase::BackwardWeights];

    /// The name in JSON and for `--only`.
    pub fn key(self) -> &'static str {
        match self {
            Phase::Forward => "forward",
            Phase::BackwardInput => "backward_input",
            Phase::BackwardWeights => "backward_weights",
        }
    }
}

/// A whole number above zero.
fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("give a whole number above 0".to_owned()),
        Ok(number) => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_phase_is_asked_for_by_its_key() {
        for phase in Phase::ALL {
            assert_eq!(Phase::from_str(phase.key(), false), Ok(phase));
        }
    }
}
