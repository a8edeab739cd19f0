//! What the tests share: the program, cameras, and clients.

mod camera;
mod client;
mod program;

pub(crate) use camera::{Camera, Reply, description};
pub(crate) use client::Client;
pub(crate) use program::Program;

use std::time::{Duration, Instant};

use cameras::simulator::{Settings, Simulator, Stream};

/// Longer than anything takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Looks again and again, until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "it does not come to this: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Cameras that send fast and have a key frame every ten pictures, so that tests are short.
pub(crate) fn simulator() -> Simulator {
    simulator_of(4_000)
}

/// The same with pictures of so many bytes, a hundred of them a second.
pub(crate) fn simulator_of(bytes: usize) -> Simulator {
    let settings = Settings {
        stream: Stream::synthetic(10, bytes),
        rate: 100,
        credentials: None,
    };
    Simulator::start("127.0.0.1:0".parse().unwrap(), settings).unwrap()
}
