//! What the tests share: the program, cameras, and clients.

mod camera;
mod client;
mod http;
mod program;
mod segments;

pub(crate) use camera::{Camera, Reply, description};
pub(crate) use client::Client;
pub(crate) use program::Program;
pub(crate) use segments::{Segment, Sent, segments};

use cameras::simulator::{Settings, Simulator, Stream};
pub(crate) use servers_common::testing::{LIMIT, until};

/// Cameras that send fast and have a key frame every ten pictures, so that tests are short.
pub(crate) fn simulator() -> Simulator {
    simulator_of(4_000)
}

/// The same with pictures of so many bytes, a hundred of them a second.
pub(crate) fn simulator_of(bytes: usize) -> Simulator {
    simulator_of_stream(Stream::synthetic(10, bytes))
}

/// The same with these pictures.
pub(crate) fn simulator_of_stream(stream: Stream) -> Simulator {
    let settings = Settings {
        stream,
        rate: 100,
        credentials: None,
    };
    Simulator::start("127.0.0.1:0".parse().unwrap(), settings).unwrap()
}
