//! What Tokio does itself, counted where it happens.

use std::fmt;

use super::report::number;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Makes the kinds, each with the noun that reports have for it.
macro_rules! kinds {
    ($($(#[$says:meta])* $kind:ident: $noun:literal;)*) => {
        /// What Tokio does itself.
        #[derive(Clone, Copy, Debug)]
        pub enum LeftToTokio {
            $($(#[$says])* $kind,)*
        }

        const NOUNS: &[&str] = &[$($noun),*];
    };
}

kinds! {
    /// Watched by the driver: a worker's queue reports no such data.
    Priority: "descriptor with out-of-band data";
    /// The driver's, and with it a process that the system gives no descriptor for.
    Signal: "listener for a signal";
    /// Dropped before it ended: the driver waits for it.
    Orphan: "process that nobody waits for";
    /// In a thread of the pool, as the two below.
    File: "operation on a file or standard stream";
    Lookup: "lookup of a name";
    /// What the program runs itself, by `spawn_blocking`.
    Blocking: "piece of blocking work";
    /// An operation on a file by the driver's ring, which is an unstable interface.
    Ring: "operation by io_uring";
    CurrentThread: "runtime of one thread";
    Local: "runtime of local tasks";
    PausedClock: "pause of a clock";
    /// A multi-thread runtime, as Evenkeel is switched off.
    SwitchedOff: "runtime of many threads, as EVENKEEL is `off`";
}

static COUNTS: [AtomicU64; NOUNS.len()] = [const { AtomicU64::new(0) }; NOUNS.len()];

/// Counts something that is left to Tokio.
pub fn leave(what: LeftToTokio) {
    // Relaxed, here and below: a statistic, by which nobody decides anything.
    COUNTS[what as usize].fetch_add(1, Ordering::Relaxed);
}

/// Says what has been left to Tokio so far.
pub(super) struct Left;

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for (count, noun) in COUNTS.iter().zip(NOUNS) {
            // Relaxed: see `leave`.
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                write!(f, "{before}{}", number(count, noun))?;
                before = ", ";
            }
        }
        f.write_str(if before.is_empty() { "nothing" } else { "" })
    }
}
