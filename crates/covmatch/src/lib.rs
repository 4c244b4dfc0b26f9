//! Distil a large image-text or video-text dataset into a few hundred synthetic pairs.
//!
//! The method is CovMatch (NeurIPS 2025): match the cross-covariance of real and synthetic features, keep the
//! modality means aligned, train both encoders.
//!
//! ```text
//! data -> encoders -> model -> methods -> run_folder -> distill -> evaluate -> compare -> report
//! ```
//! A module uses those to its left. A [`config`] names an [`experiment`]; [`model`] joins two encoders with their heads;
//! [`methods`] has every way to make pairs and says how to add one.

pub mod branches;
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
pub mod methods;
pub mod metrics;
pub mod model;
pub mod optimize;
pub mod report;
pub mod retrieval;
pub mod run_folder;
pub mod shard;
pub mod tables;
pub mod tensor_file;
