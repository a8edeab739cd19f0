//! What tests of servers share: the program, certificates, alerts, and waiting.
//!
//! Everything here panics where something is not as a test needs it.

pub mod alerts;
mod certificates;
mod program;
pub mod real_time;

pub use certificates::{Authority, Issued, write_private};
pub use program::{Program, signal, wait};

use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Looks again and again, until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "it does not come to this: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
