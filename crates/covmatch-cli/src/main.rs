//! The covmatch command line: parse, run, print.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage. Results go to stdout, progress and errors to stderr.

mod allocator;
mod args;
mod commands;
mod console;
mod experiment;
mod network;
mod progress;
mod timing;

use std::process::ExitCode;

use clap::Parser;

use args::{BenchCommand, Cli, Command};

fn main() -> ExitCode {
    allocator::keep_freed_memory();
    let outcome = match Cli::parse().command {
        Command::Demo(args) => commands::demo::run(&args),
        Command::Distill(args) => commands::distill::run(&args),
        Command::Evaluate(args) => commands::evaluate::run(&args),
        Command::Select(args) => commands::select::run(&args),
        Command::Experts(args) => commands::experts::run(&args),
        Command::Train(args) => commands::train::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Encoders(args) => commands::encoders::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Bench { what: BenchCommand::Encoder(args) } => commands::bench_encoder::run(&args),
        Command::Bench { what: BenchCommand::Step(args) } => commands::bench_step::run(&args),
    };
    match outcome.and_then(|result| console::result(&result)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            console::error(&error);
            ExitCode::FAILURE
        }
    }
}
