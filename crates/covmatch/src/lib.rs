//! Distil a large image-text or video-text dataset into a few hundred synthetic pairs.
//!
//! The method is CovMatch (NeurIPS 2025): match the cross-covariance of real and synthetic features, keep the
//! modality means aligned, train both encoders.
//!
//! ```text
//! pairs on disk -> data -> encoders -> distill -> distilled set on disk -> evaluate -> report
//! ```
//! Each arrow is one module. A [`config`] names an [`experiment`]; [`model`] joins two encoders with their heads.

pub mod compare;
pub mod config;
pub mod data;
pub mod distill;
pub mod distilled;
pub mod encoders;
pub mod engine;
pub mod evaluate;
pub mod experiment;
pub mod files;
pub mod losses;
pub mod metrics;
pub mod model;
pub mod optimize;
pub mod report;
pub mod select;
pub mod shard;
pub mod tensor_file;
pub mod trajectory;
