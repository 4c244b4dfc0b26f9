//! The commands, one file each. A command returns the text of its result.

pub mod bench_encoder;
pub mod demo;
pub mod encoders;
pub mod inspect;
