//! Tests that hang end with a message instead of waiting for ever. No test asserts a time: the
//! limit is only longer than any test takes on a busy machine.

#![allow(dead_code, reason = "each test crate uses a part")]

use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Longer than any test takes.
const HUNG: Duration = Duration::from_secs(120);

/// Runs `body`; if it does not end, prints a message and ends the process.
pub(crate) fn watched<R>(name: &str, body: impl FnOnce() -> R) -> R {
    let (done, ended) = mpsc::channel::<()>();
    let name = name.to_owned();
    std::thread::spawn(move || {
        if ended.recv_timeout(HUNG) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("`{name}` hangs");
            std::process::exit(101);
        }
    });
    let result = body();
    drop(done);
    result
}

/// Waits until a condition holds that another thread is about to fulfil.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < HUNG / 2, "still not: {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
}
