//! Cameras by ONVIF: which there are on the network, and where the streams of one are.
//!
//! - `document`: what they say, in XML; `soap`: what they are asked, and who asks.
//! - [`device`]: profiles of a camera, and the address of a profile's stream.
//! - [`discover`]: the search for cameras (WS-Discovery).

pub mod device;
pub mod discover;
mod document;
mod soap;

pub use device::{DeviceError, Profile, profiles, stream};
