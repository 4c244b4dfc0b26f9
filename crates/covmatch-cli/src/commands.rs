//! The commands, one file each. A command returns the text of its result.

pub mod bench_encoder;
pub mod bench_step;
pub mod compare;
pub mod demo;
pub mod distill;
pub mod encoders;
pub mod evaluate;
pub mod experts;
pub mod inspect;
pub mod select;
pub mod train;
