//! What Evenkeel has done in this process: for whoever operates a program that knows nothing of it.
//!
//! `EVENKEEL_REPORT` in the environment asks for it, on standard error: `1` when the process exits,
//! a duration such as `60s` also whenever that has passed.

use std::env;
use std::fmt;
use std::io;
use std::panic;
use std::time::Duration;

use super::left::Left;
use crate::clock;
use crate::runtime::{Handle, settings};
use crate::stats::{HogFunction, HogStats, finish_names};
use crate::sync::{Mutex, OnceLock, thread};
use crate::sys::exit;

const VARIABLE: &str = "EVENKEEL_REPORT";
/// How many kinds of hogs are listed, and how many functions.
const LISTED: usize = 10;
/// How long the last report waits for the names of functions. To make the first ones takes some
/// 50 ms of a processor, many times that in a build without optimisations on a busy machine.
const NAMES_MAX: Duration = Duration::from_secs(5);

static REPORT: Mutex<Report> = Mutex::new(Report::new());

/// When a report is to be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    AtExit,
    /// At the exit, too.
    Every(Duration),
}

/// What the environment asks for. Nothing, if it cannot be understood: no runtime is built then.
fn asked() -> Option<Asked> {
    env::var(VARIABLE).ok().and_then(|text| read(&text).ok()?)
}

fn read(text: &str) -> Result<Option<Asked>, ()> {
    match text {
        "" | "0" => Ok(None),
        "1" => Ok(Some(Asked::AtExit)),
        _ => match settings::duration(text) {
            Ok(period) if !period.is_zero() => Ok(Some(Asked::Every(period))),
            _ => Err(()),
        },
    }
}

/// Prepares for the report, if it is wanted.
///
/// # Errors
///
/// The variable has a value that means nothing, or there is no thread for reports.
pub fn prepare() -> io::Result<()> {
    static PREPARED: OnceLock<()> = OnceLock::new();
    let value = env::var_os(VARIABLE).unwrap_or_default();
    let asked = value.to_str().ok_or(()).and_then(read).map_err(|()| {
        io::Error::other(format!(
            "the environment variable {VARIABLE} is {value:?}: use 1 for a report when the process \
             exits, a whole number with us, ms or s, such as 60s, for one so often, or leave it out"
        ))
    })?;
    let Some(asked) = asked.filter(|_| PREPARED.set(()).is_ok()) else {
        return Ok(());
    };
    exit::call_at_exit(print_last);
    match asked {
        Asked::AtExit => Ok(()),
        Asked::Every(period) => print_every(period),
    }
}

/// Prints a report so often, by a thread of its own: workers that are busy do not delay it.
fn print_every(period: Duration) -> io::Result<()> {
    let began = clock::now();
    let thread = thread::Builder::new().name("evenkeel-report".into());
    let started = thread.spawn(move || {
        loop {
            thread::sleep(period);
            let after = clock::now().duration_since(began);
            print(&format!("evenkeel: after {:.1} s\n", after.as_secs_f64()));
        }
    });
    started.map(drop)
}

/// A runtime begins.
pub fn begin(handle: &Handle) {
    if asked().is_some() {
        // So that hogs have names when the process exits.
        handle.shared().ask_for_names();
        REPORT.lock().alive.push(handle.clone());
    }
}

/// A runtime is about to stop, after which no names are made.
pub(super) fn stop(handle: &Handle) {
    if asked().is_some() {
        finish_names(handle.shared(), clock::now() + NAMES_MAX);
    }
}

/// A runtime ends, and what it has done is kept.
pub fn end(handle: &Handle) {
    if asked().is_none() {
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

/// Prints what has been done when the process exits.
fn print_last() {
    // A panic must not leave a function that C calls. Without names, there is all the rest to say.
    let _ = panic::catch_unwind(|| {
        let alive = REPORT.lock().alive.clone();
        let until = clock::now() + NAMES_MAX;
        (alive.iter()).for_each(|handle| finish_names(handle.shared(), until));
    });
    print("");
}

/// Prints what has been done so far, below a title.
fn print(title: &str) {
    // As above.
    let text = panic::catch_unwind(|| {
        let report = REPORT.lock();
        let mut done = report.done.clone();
        report.alive.iter().for_each(|handle| done.add(handle));
        format!("{title}{done}")
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
                functions: Vec::new(),
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
    /// What the hogs were doing.
    functions: Vec<HogFunction>,
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
                (&other.spawned_at, &other.future) == (&hog.spawned_at, &hog.future)
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
        for found in stats.hog_functions {
            let is_same = |other: &&mut HogFunction| {
                (&other.function, &other.callee) == (&found.function, &found.callee)
            };
            match self.functions.iter_mut().find(is_same) {
                Some(row) => {
                    row.count += found.count;
                    row.ended += found.ended;
                    row.total += found.total;
                    row.add_spans(found.spans, found.spans_others);
                }
                None => self.functions.push(found),
            }
        }
        (self.functions).sort_by_key(|found| std::cmp::Reverse((found.total, found.count)));
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
        more(f, self.hogs.len(), "kind of tasks more")?;
        for found in self.functions.iter().take(LISTED) {
            writeln!(f, "evenkeel: found in: {found}")?;
        }
        more(f, self.functions.len(), "function more")?;
        writeln!(f, "evenkeel: left to Tokio: {Left}")
    }
}

fn line(f: &mut fmt::Formatter<'_>, hog: &HogStats) -> fmt::Result {
    writeln!(
        f,
        "evenkeel: too long: {}, {} in all, {} at most, of tasks spawned at {}: {}",
        number(hog.count, "poll"),
        ms(hog.total),
        ms(hog.longest),
        hog.spawned_at,
        hog.future
    )
}

/// What is not listed of so many rows.
fn more(f: &mut fmt::Formatter<'_>, rows: usize, what: &str) -> fmt::Result {
    match rows.saturating_sub(LISTED) {
        0 => Ok(()),
        left => writeln!(f, "evenkeel: and {}", number(left as u64, what)),
    }
}

/// So many things, whose name forms its plural in the first word: as "task" or as "process" does.
pub(super) fn number(count: u64, what: &str) -> String {
    let (first, rest) = what.split_at(what.find(' ').unwrap_or(what.len()));
    let ending = match count {
        1 => "",
        _ if first.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {first}{ending}{rest}")
}

fn ms(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read() {
        let every = |period| Ok(Some(Asked::Every(period)));
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("0"), Ok(None));
        assert_eq!(read("1"), Ok(Some(Asked::AtExit)));
        assert_eq!(read("60s"), every(Duration::from_secs(60)));
        assert_eq!(read("500ms"), every(Duration::from_millis(500)));
        for wrong in ["yes", "60", "0s", "1h", "-1s"] {
            assert_eq!(read(wrong), Err(()), "{wrong}");
        }
    }

    #[test]
    fn numbers_have_their_plurals() {
        assert_eq!(number(1, "seat"), "1 seat");
        assert_eq!(number(0, "lookup of a name"), "0 lookups of a name");
        let process = "process that nobody waits for";
        assert_eq!(number(1, process), "1 process that nobody waits for");
        assert_eq!(number(3, process), "3 processes that nobody waits for");
    }
}
