//! A log at work: its queue, and the task that has a lane write what is in it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel::Class;
use evenkeel::blocking::Lane;
use evenkeel::time::{Instant, sleep};
use tokio::sync::Notify;
use toml::Spanned;
use tracing::warn;

use super::format::Record;
use super::queue::{Added, Queue};
use super::sink::{Sink, Target, Unwritten};
use crate::config;
use crate::counters::Counter;

/// How long lines are gathered, so that one write takes many.
const GATHER: Duration = Duration::from_millis(20);

/// The time between two complaints.
const COMPLAINTS: Duration = Duration::from_secs(1);

/// What a thread keeps to write its next line in.
const LINE_BYTES_MAX: usize = 16 * 1_024;

thread_local! {
    static LINE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The logs of a configuration, by their names.
pub type Logs = BTreeMap<String, Arc<Log>>;

/// A log. What waits is still written when this is dropped.
#[derive(Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    name: String,
    config: config::Log,
    queue: Queue,
    wakes: Notify,
    /// Set by whoever wants the target opened anew, and cleared by the task when it has it done.
    reopens: AtomicBool,
    /// Set when nobody adds any more; never cleared.
    ends: AtomicBool,
    /// Set by the task while it writes.
    writes: AtomicBool,
    written: Counter,
    dropped: Counter,
    complained: Mutex<Option<Instant>>,
}

impl Log {
    /// Opens the logs of a configuration. Those of which nothing changed go on.
    ///
    /// # Errors
    ///
    /// The name of the log that cannot be opened, and why.
    pub async fn open_all(
        logs: &BTreeMap<String, Spanned<config::Log>>,
        before: &Logs,
    ) -> Result<Logs, (String, io::Error)> {
        let mut opened = Logs::new();
        for (name, config) in logs {
            let config = config.get_ref();
            let log = match before.get(name) {
                Some(known) if known.0.config == *config => Arc::clone(known),
                _ => {
                    let log = Self::open(name, config.clone()).await;
                    Arc::new(log.map_err(|error| (name.clone(), error))?)
                }
            };
            opened.insert(name.clone(), log);
        }
        Ok(opened)
    }

    /// Opens one, and begins to write what is added to it.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub async fn open(name: &str, config: config::Log) -> io::Result<Self> {
        // Lanes have names of which there is one each, and an old log may still be writing.
        static LANES: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only that no two get the same number matters.
        let number = LANES.fetch_add(1, Ordering::Relaxed);
        let lane = Lane::builder(format!("access-log-{number}")).build();
        let lane = lane.map_err(io::Error::other)?;
        let (target, facility) = (config.to.clone(), config.facility);
        let sink = lane.run(move || Sink::open(&target, facility)).await;
        let sink = sink.map_err(io::Error::other)??;
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            queue: Queue::new(config.queue_bytes_max),
            config,
            wakes: Notify::new(),
            reopens: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            writes: AtomicBool::new(false),
            written: Counter::default(),
            dropped: Counter::default(),
            complained: Mutex::default(),
        });
        // Not in the class of a request: a line is written by whoever is there, for all.
        drop(evenkeel::spawn_in(
            Class::NORMAL,
            run(Arc::clone(&shared), lane, sink),
        ));
        Ok(Self(shared))
    }

    /// Adds the line of a request, without waiting. If there is no room, it is left out.
    pub fn add(&self, record: &Record<'_>) {
        let mut line = LINE.try_with(Cell::take).unwrap_or_default();
        line.clear();
        self.0.config.format.write(record, &mut line);
        let added = self.0.queue.add(&line);
        if line.capacity() <= LINE_BYTES_MAX {
            let _ = LINE.try_with(|kept| kept.set(line));
        }
        match added {
            Added::First => self.0.wakes.notify_one(),
            Added::More => {}
            Added::Full => {
                self.0.dropped.one();
                self.0.complain(&format_args!(
                    "lines are left out, as {} takes them too slowly; left out so far: {}",
                    self.0.config.to,
                    self.0.dropped.total()
                ));
            }
        }
    }

    /// Has the target opened anew, as when its file was renamed.
    pub fn reopen(&self) {
        // Release: pairs with Acquire in `run`.
        self.0.reopens.store(true, Ordering::Release);
        self.0.wakes.notify_one();
    }

    /// Waits until what was added is written.
    pub async fn flushed(&self) {
        /// Somebody waits for this only when the proxy ends.
        const LOOK: Duration = Duration::from_millis(5);
        // Acquire: pairs with Release in `run`.
        while !self.0.queue.is_empty() || self.0.writes.load(Ordering::Acquire) {
            sleep(LOOK).await;
        }
    }

    /// Where lines go.
    pub fn target(&self) -> &Target {
        &self.0.config.to
    }

    /// Bytes of lines that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.0.queue.bytes()
    }

    /// Lines that were written.
    pub fn written(&self) -> u64 {
        self.0.written.total()
    }

    /// Lines that were left out, or could not be written.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.total()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Release: pairs with Acquire in `run`.
        self.0.ends.store(true, Ordering::Release);
        self.0.wakes.notify_one();
    }
}

impl Shared {
    /// Says something, once in a second.
    fn complain(&self, what: &dyn std::fmt::Display) {
        let now = Instant::now();
        let mut last = self
            .complained
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| now.saturating_duration_since(last) >= COMPLAINTS) {
            *last = Some(now);
            drop(last);
            warn!(log = %self.name, "log {}: {what}", self.name);
        }
    }
}

/// Writes what is added, until nobody adds any more.
async fn run(shared: Arc<Shared>, lane: Lane, sink: Sink) {
    let sink = Arc::new(Mutex::new(sink));
    let mut empty = Vec::new();
    loop {
        shared.wakes.notified().await;
        // Acquire: pairs with Release in `drop` of `Log`. Whoever added something did it before.
        let ends = shared.ends.load(Ordering::Acquire);
        if !ends {
            sleep(GATHER).await;
        }
        // AcqRel: pairs with Release in `reopen`.
        if shared.reopens.swap(false, Ordering::AcqRel) {
            reopen(&shared, &lane, &sink).await;
        }
        // Release: pairs with Acquire in `flushed`; set before the queue is empty.
        shared.writes.store(true, Ordering::Release);
        let (bytes, lines) = shared.queue.take(std::mem::take(&mut empty));
        if lines > 0 {
            empty = written(&shared, &lane, &sink, bytes, lines).await;
        }
        shared.writes.store(false, Ordering::Release);
        if ends && shared.queue.is_empty() {
            return;
        }
    }
}

/// Has the lane write. If something cannot be written, the target is opened anew, and the rest is
/// tried once more; what cannot be written then is counted as left out. Returns room for more
/// lines.
async fn written(
    shared: &Arc<Shared>,
    lane: &Lane,
    sink: &Arc<Mutex<Sink>>,
    mut bytes: Vec<u8>,
    mut lines: u64,
) -> Vec<u8> {
    let mut has_failed = false;
    let mut from = 0;
    loop {
        let into = Arc::clone(sink);
        let wrote = lane.run(move || {
            let mut sink = into.lock().unwrap_or_else(PoisonError::into_inner);
            let result = sink.write(&bytes[from..]);
            (bytes, result)
        });
        let result;
        (bytes, result) = match wrote.await {
            Ok((bytes, result)) => (bytes, result),
            Err(error) => (Vec::new(), Err(io::Error::other(error).into())),
        };
        let Err(Unwritten {
            bytes: there,
            error,
        }) = result
        else {
            shared.written.add(lines);
            return bytes;
        };
        let (whole, rest) = resumed(bytes.get(from..).unwrap_or_default(), there);
        shared.written.add(whole);
        lines = lines.saturating_sub(whole);
        // Of what goes through a buffer nobody knows how much of it was written.
        let is_unknown = bytes.is_empty() || shared.config.to == Target::Stdout;
        let gives_up = is_unknown || (has_failed && there == 0);
        let lost = match gives_up {
            true => lines,
            false => u64::from(rest > there),
        };
        shared.dropped.add(lost);
        let to = &shared.config.to;
        shared.complain(&format_args!(
            "cannot write to {to}: {error}; lines that are lost: {lost}"
        ));
        reopen(shared, lane, sink).await;
        lines = lines.saturating_sub(lost);
        if gives_up || lines == 0 {
            return bytes;
        }
        (has_failed, from) = (true, from + rest);
    }
}

/// Of lines of which so many bytes were written: how many are there whole, and where to go on,
/// behind the one that was cut off.
fn resumed(lines: &[u8], there: usize) -> (u64, usize) {
    let (written, left) = lines.split_at_checked(there).unwrap_or((lines, &[]));
    let whole = written.iter().filter(|&&byte| byte == b'\n').count() as u64;
    let is_cut = written.last().is_some_and(|&byte| byte != b'\n');
    let end = left.iter().position(|&byte| byte == b'\n');
    match end {
        Some(end) if is_cut => (whole, there + end + 1),
        _ => (whole, there),
    }
}

/// Opens the target anew. If it cannot be opened, what was open stays.
async fn reopen(shared: &Arc<Shared>, lane: &Lane, sink: &Arc<Mutex<Sink>>) {
    let (target, facility) = (shared.config.to.clone(), shared.config.facility);
    let into = Arc::clone(sink);
    let opened = lane.run(move || {
        let opened = Sink::open(&target, facility)?;
        *into.lock().unwrap_or_else(PoisonError::into_inner) = opened;
        Ok::<_, io::Error>(())
    });
    let opened = opened
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)));
    if let Err(error) = opened {
        let to = &shared.config.to;
        shared.complain(&format_args!("cannot open {to}: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_written_is_tried_from_the_next_line_on() {
        let lines = b"one\ntwo\nthree\n";
        for (there, resumes) in [
            (0, (0, 0)),
            (2, (0, 4)),
            (4, (1, 4)),
            (5, (1, 8)),
            (8, (2, 8)),
            (13, (2, 14)),
            (14, (3, 14)),
        ] {
            assert_eq!(resumed(lines, there), resumes, "{there}");
        }
    }
}
