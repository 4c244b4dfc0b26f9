//! Distil a large image-text or video-text dataset into a few hundred synthetic pairs.
//!
//! The method is CovMatch (NeurIPS 2025): match the cross-covariance of real and synthetic features, keep the
//! modality means aligned, train both encoders.
//!
//! ```text
//! pairs on disk -> data -> encoders -> distill -> distilled set on disk -> evaluate -> report
//! ```
//! Each arrow is one module. What exists today: [`data`], [`encoders`] and [`engine`].

pub mod data;
pub mod encoders;
pub mod engine;
