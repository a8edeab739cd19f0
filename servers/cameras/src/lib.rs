//! A server for network cameras on Evenkeel: takes their streams, and passes them on.
//!
//! - [`media`]: tracks, samples and groups of pictures, which all parts speak of.
//! - [`rtp`]: from packets to samples and back.
//! - [`rtsp`]: the protocol of cameras, both sides of it.
//! - [`hub`]: from each camera to all that want its samples.
//! - [`counters`]: what was counted.

pub mod config;
pub mod counters;
pub mod hub;
pub mod ingest;
pub mod media;
pub mod rtp;
pub mod rtsp;
