//! A server for network cameras on Evenkeel: takes their streams, records them and passes them on.
//!
//! - [`media`]: tracks, samples and groups of pictures, which all parts speak of.
//! - [`config`]: what the operator wrote, and what is wrong with it.
//! - [`server`]: what runs; [`cameras`]: the cameras there are, and what each of them does;
//!   [`book`]: which there are to be, and where each is recorded.
//! - [`ingest`]: takes the streams of cameras; [`onvif`]: where they are.
//! - [`hub`]: from each camera to all that want its samples.
//! - [`serve`]: viewers and publishers by RTSP.
//! - [`rtsp`]: the protocol of cameras, both sides of it, and [`rtp`]: packets. No I/O.
//! - [`mp4`]: fragments of MP4; [`record`]: files of them on disks.
//! - [`watch`]: the page, and what programs ask over HTTP; [`site`]: it and recordings by the
//!   configuration.
//! - [`events`]: what happens, told to other programs.
//! - [`users`]: passwords, and sessions of browsers; [`tls`]: certificates.
//! - [`simulator`]: cameras that are none; [`cli`]: the command line of the program.

pub mod book;
pub mod cameras;
pub mod cli;
pub mod config;
mod descriptors;
pub mod events;
pub mod hub;
pub mod ingest;
pub mod media;
mod metrics;
pub mod mp4;
pub mod onvif;
pub mod record;
pub mod rtp;
pub mod rtsp;
pub mod serve;
pub mod server;
pub mod simulator;
pub mod site;
pub mod tls;
pub mod users;
pub mod watch;

#[cfg(test)]
mod testing;
