//! Arguments of `bench`.

use clap::{Args, ValueEnum};

use super::{EngineArgs, positive};

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
    /// Form of the report.
    #[command(flatten)]
    pub report: ReportArgs,
    /// Device and threads.
    #[command(flatten)]
    pub engine: EngineArgs,
}

/// Arguments of `bench step`.
#[derive(Debug, Args)]
pub struct BenchStepArgs {
    /// An image encoder that `covmatch encoders` lists
    #[arg(long, value_name = "NAME", default_value = "efficientnet_lite0")]
    pub image_encoder: String,
    /// A text encoder that `covmatch encoders` lists
    #[arg(long, value_name = "NAME", default_value = "minilm-l6")]
    pub text_encoder: String,
    /// Real pairs of each of the two batches
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = positive)]
    pub real: usize,
    /// Synthetic pairs
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = positive)]
    pub synthetic: usize,
    /// Side of the pictures in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 96, value_parser = positive)]
    pub size: usize,
    /// Tokens of a caption
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = positive)]
    pub tokens: usize,
    /// Width of the heads
    #[arg(long, value_name = "N", default_value_t = 2304, value_parser = positive)]
    pub width: usize,
    /// One real batch, and one forward pass of it, for both the matching and the online step
    #[arg(long)]
    pub share_real_batch: bool,
    /// Timed steps; the median is reported
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = positive)]
    pub iterations: usize,
    /// Steps before the timed ones
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warmup: usize,
    /// Form of the report.
    #[command(flatten)]
    pub report: ReportArgs,
    /// Device and threads.
    #[command(flatten)]
    pub engine: EngineArgs,
}

/// How a benchmark reports.
#[derive(Clone, Copy, Debug, Args)]
pub struct ReportArgs {
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Measure once for every line on stdin, for drivers that let programs take turns
    #[arg(long, requires = "json")]
    pub serve: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_asked_for_by_its_key() {
        for phase in Phase::ALL {
            assert_eq!(Phase::from_str(phase.key(), false), Ok(phase));
        }
    }
}
