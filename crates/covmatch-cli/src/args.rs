//! The command line's grammar.

mod bench;
mod engine;

pub use bench::{BenchEncoderArgs, BenchStepArgs, Phase, ReportArgs};
pub use engine::{CpuArgs, EngineArgs, ExperimentArgs, RunArgs};

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use covmatch::data::source::Format;
use covmatch::methods::Methods;
use covmatch::shard::Shard;

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
  covmatch demo                      distil the built-in dataset; no download
  covmatch inspect scenes --sheet scenes.png
                                     look at the built-in dataset, or at yours
  covmatch distill presets/flickr8k-100.toml --out runs/f100
  covmatch evaluate runs/f100        distil your data, then train and test on the result
  covmatch compare presets/compare-scenes.toml
                                     several methods in one table
  covmatch encoders                  list the networks
  covmatch bench encoder nfnet_l0    how fast one runs on this machine

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Distil the built-in dataset and compare the result with as many real pairs; no download
    Demo(DemoArgs),
    /// Learn a few synthetic pairs that stand for a dataset
    Distill(DistillArgs),
    /// Train fresh models on the pairs of a folder and test them by retrieval
    ///
    /// If it is stopped, the same command goes on after the last model that was tested.
    Evaluate(EvaluateArgs),
    /// Choose real pairs instead of learning synthetic ones: the baselines
    Select(SelectArgs),
    /// Train the models whose trajectories MTT-VL and LoRS follow
    Experts(ExpertsArgs),
    /// Train a model on the whole train split: the upper bound
    Train(TrainArgs),
    /// Make and evaluate a set with each of several methods: one table
    Compare(CompareArgs),
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
    /// Time one step of distillation on generated weights and batches
    Step(BenchStepArgs),
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The same in a few seconds, with numbers too small to mean anything
    #[arg(long)]
    pub smoke: bool,
    /// Folder for the pairs and the report; an earlier demo in it is replaced [default: covmatch-demo]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Threads and precision of the CPU kernels.
    #[command(flatten)]
    pub cpu: CpuArgs,
}

/// Arguments of `distill`.
#[derive(Debug, Args)]
pub struct DistillArgs {
    /// The experiment, a TOML file; presets/ has some
    #[arg(required_unless_present = "resume")]
    pub config: Option<PathBuf>,
    /// Go on with the run in this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "set", "out"])]
    pub resume: Option<PathBuf>,
    /// Folder, overrides, device and threads.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Arguments of `evaluate`.
#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// Folder of a distilled set
    pub folder: PathBuf,
    /// Models to train, each from its own seed [default: the set's evaluate.runs]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub runs: Option<usize>,
    /// Another image encoder than the set was made with; needs --image-weights
    #[arg(long, value_name = "NAME", requires = "image_weights")]
    pub image_encoder: Option<String>,
    /// Its weights
    #[arg(long, value_name = "PATH")]
    pub image_weights: Option<PathBuf>,
    /// Another text encoder of the same width; needs --text-weights
    #[arg(long, value_name = "NAME", requires = "text_weights")]
    pub text_encoder: Option<String>,
    /// Its weights
    #[arg(long, value_name = "PATH")]
    pub text_weights: Option<PathBuf>,
    /// Another side of the pictures in pixels
    #[arg(long, value_name = "PIXELS", value_parser = positive)]
    pub size: Option<usize>,
    /// Do not train the text encoder
    #[arg(long)]
    pub frozen_text: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Overrides, device and threads.
    #[command(flatten)]
    pub experiment: ExperimentArgs,
}

/// Arguments of `select`.
#[derive(Debug, Args)]
pub struct SelectArgs {
    /// How pairs are chosen: random, herding, k-center or forgetting
    #[arg(value_parser = selection)]
    pub method: String,
    /// The experiment, a TOML file
    pub config: PathBuf,
    /// Folder, overrides, device and threads.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The experiment, a TOML file; its section [compare] names methods and numbers of pairs
    pub config: PathBuf,
    /// Fill every n-th cell only, from the i-th on, and leave the others to other processes
    #[arg(long, value_name = "i/n")]
    pub shard: Option<Shard>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Folder, overrides, device and threads.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Arguments of `experts`.
#[derive(Debug, Args)]
pub struct ExpertsArgs {
    /// The experiment, a TOML file; its section [experts] says how many and where they go
    pub config: PathBuf,
    /// Train a share of them, such as 1/4 on the first of four machines with one folder
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Overrides, device and threads.
    #[command(flatten)]
    pub experiment: ExperimentArgs,
}

/// Arguments of `train`.
#[derive(Debug, Args)]
pub struct TrainArgs {
    /// The experiment, a TOML file
    pub config: PathBuf,
    /// Models to train, each from its own seed [default: train.runs]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub runs: Option<usize>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Folder, overrides, device and threads.
    #[command(flatten)]
    pub run: RunArgs,
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

/// A whole number above zero.
fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("give a whole number above 0".to_owned()),
        Ok(number) => Ok(number),
    }
}

/// The name of a method that selects real pairs.
fn selection(name: &str) -> Result<String, String> {
    let known = Methods::built_in();
    known.selecting(name).map(|(method, _)| method.name.to_owned()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }
}
