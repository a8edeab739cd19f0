//! A server for network cameras on Evenkeel: takes their streams, and passes them on.
//!
//! - [`media`]: tracks, samples and groups of pictures, which all parts speak of.
//! - [`hub`]: from each camera to all that want its samples.
//! - [`counters`]: what was counted.

pub mod counters;
pub mod hub;
pub mod media;
