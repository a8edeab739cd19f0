//! What Evenkeel has done in this process: for whoever operates a program that knows nothing of it.
//!
//! With `EVENKEEL_REPORT=1` in the environment it is printed to standard error when the process
//! exits.

use std::env;
use std::fmt::{self, Write};
use std::io;
use std::panic;
use std::time::Duration;

use crate::runtime::Handle;
use crate::stats::HogStats;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, OnceLock};
use crate::sys::exit;

const VARIABLE: &str = "EVENKEEL_REPORT";
/// How many kinds of hogs are listed.
const LISTED: usize = 10;

/// What Tokio does itself.
#[derive(Clone, Copy, Debug)]
pub enum LeftToTokio {
    /// A descriptor with out-of-band data.
    Priority,
    /// A listener for a signal.
    Signal,
    /// A current-thread runtime, or a local one.
    CurrentThread,
    /// A multi-thread runtime, as Evenkeel is switched off.
    SwitchedOff,
}

const LEFT: [&str; 4] = [
    "descriptor with out-of-band data",
    "listener for a signal",
    "runtime of one thread",
    "runtime of many threads, as EVENKEEL is `off`",
];

static COUNTS: [AtomicU64; LEFT.len()] = [const { AtomicU64::new(0) }; LEFT.len()];
static REPORT: Mutex<Report> = Mutex::new(Report::new());

/// Counts something that is left to Tokio.
pub fn leave(what: LeftToTokio) {
    // Relaxed, here and below: a statistic.
    COUNTS[what as usize].fetch_add(1, Ordering::Relaxed);
}

/// Prepares for the report, if it is wanted.
///
/// # Errors
///
/// The variable has a value that means nothing.
pub fn prepare() -> io::Result<()> {
    match env::var_os(VARIABLE) {
        Some(value) if value == "1" => {
            static PREPARED: OnceLock<()> = OnceLock::new();
            PREPARED.get_or_init(|| exit::call_at_exit(print));
            Ok(())
        }
        Some(value) if !value.is_empty() && value != "0" => Err(io::Error::other(format!(
            "the environment variable {VARIABLE} is {value:?}: use 1 for a report when the process \
             exits, or leave it out"
        ))),
        _ => Ok(()),
    }
}

fn is_wanted() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| value == "1")
}

/// A runtime begins.
pub fn begin(handle: &Handle) {
    if is_wanted() {
        REPORT.lock().alive.push(handle.clone());
    }
}

/// A runtime ends, and what it has done is kept.
pub fn end(handle: &Handle) {
    if !is_wanted() {
        return;
    }
    let mut report = REPORT.lock();
    let is_other = |other: &Handle| !std::ptr::eq(&**other.shared(), &**handle.shared());
    let before = report.alive.len();
    report.alive.retain(is_other);
    if report.alive.len() < before {
        report.done.add(handle);
    }
}

fn print() {
    // A panic must not leave a function that C calls.
    let text = panic::catch_unwind(|| {
        let report = REPORT.lock();
        let mut done = report.done.clone();
        report.alive.iter().for_each(|handle| done.add(handle));
        done.to_string()
    });
    if let Ok(text) = text {
        // All at once, so that other threads' lines do not come in between. An error has nobody to
        // be told.
        let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
    }
}

struct Report {
    alive: Vec<Handle>,
    done: Done,
}

impl Report {
    const fn new() -> Self {
        Self {
            alive: Vec::new(),
            done: Done {
                runtimes: 0,
                workers: 0,
                hand_offs: 0,
                given_up: 0,
                refused: 0,
                hogs: Vec::new(),
            },
        }
    }
}

/// What some runtimes have done.
#[derive(Clone, Debug)]
struct Done {
    runtimes: usize,
    workers: usize,
    hand_offs: u64,
    given_up: u64,
    refused: u64,
    hogs: Vec<HogStats>,
}

impl Done {
    fn add(&mut self, handle: &Handle) {
        let stats = handle.stats();
        self.runtimes += 1;
        self.workers += stats.workers.len();
        self.hand_offs += stats.heavy.hand_offs;
        self.given_up += stats.heavy.given_up;
        self.refused += stats.heavy.refused;
        for hog in stats.hogs {
            let is_same = |other: &&mut HogStats| {
                (other.spawned_at, other.future) == (hog.spawned_at, hog.future)
            };
            match self.hogs.iter_mut().find(is_same) {
                Some(row) => {
                    row.count += hog.count;
                    row.total += hog.total;
                    row.longest = row.longest.max(hog.longest);
                }
                None => self.hogs.push(hog),
            }
        }
        self.hogs.sort_by_key(|hog| std::cmp::Reverse(hog.total));
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "evenkeel: {} with {} on Evenkeel",
            number(self.runtimes as u64, "runtime"),
            number(self.workers as u64, "worker")
        )?;
        writeln!(
            f,
            "evenkeel: {} handed over for polls that were too long, {} by block_in_place; {} \
             refused",
            number(self.hand_offs - self.given_up, "seat"),
            self.given_up,
            self.refused
        )?;
        self.hogs
            .iter()
            .take(LISTED)
            .try_for_each(|hog| line(f, hog))?;
        if self.hogs.len() > LISTED {
            let more = self.hogs.len() - LISTED;
            writeln!(
                f,
                "evenkeel: and {}",
                number(more as u64, "kind of tasks more")
            )?;
        }
        let mut left = String::new();
        for (count, what) in COUNTS.iter().zip(LEFT) {
            // Relaxed: a statistic.
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                let comma = if left.is_empty() { "" } else { ", " };
                write!(left, "{comma}{}", number(count, what))?;
            }
        }
        let left = if left.is_empty() { "nothing" } else { &left };
        writeln!(f, "evenkeel: left to Tokio: {left}")
    }
}

fn line(f: &mut fmt::Formatter<'_>, hog: &HogStats) -> fmt::Result {
    // The wrapper that every task has says nothing.
    let future = (hog.future.strip_prefix(WRAPPER))
        .and_then(|rest| rest.strip_suffix('>'))
        .unwrap_or(hog.future);
    writeln!(
        f,
        "evenkeel: too long: {}, {} in all, {} at most, of tasks spawned at {}: {future}",
        number(hog.count, "poll"),
        ms(hog.total),
        ms(hog.longest),
        hog.spawned_at
    )
}

/// What the futures of all tasks are wrapped into.
const WRAPPER: &str = "tokio::evenkeel::scheduler::Polled<";

/// So many things, whose name forms its plural in the first word.
fn number(count: u64, what: &str) -> String {
    let (first, rest) = what.split_at(what.find(' ').unwrap_or(what.len()));
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {first}{s}{rest}")
}

fn ms(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}
