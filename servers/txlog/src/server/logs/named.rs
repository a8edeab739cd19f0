//! The logs with names: which are open, and which are being opened or closed.
//!
//! ```text
//!           1             2              3             4
//! unknown ----> opening ----> open ----------> closing ----> unknown
//!                  |  5                            ^
//!                  +----> unknown                  | at the server's end, 6
//! ```
//!
//! 1 `open`, 2 and 5 `Turn::opened`, 3 `close` by `open` or `sweep`, 4 `Turn`'s drop, 6
//! `close_all`. Each step that takes time is a task of its own, so that no connection waits for a
//! log that it has not asked for, and whoever waits may leave.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel::time::timeout;
use tokio::sync::{Semaphore, watch};
use txlog_client::frame::{Code, LogInfo};

use super::{Lease, OpenLog, maintain};
use crate::server::{LogSource, Page, ServerConfig};
use crate::store::{Store, StoreError};

/// How many logs may be opened at a time: each reads the end of its log, and all have one disk.
const OPENING_MAX: usize = 4;

/// How long an opening holds a place among these. One whose disk hangs goes on without, so that
/// others are not held up.
const OPENING_PATIENCE: Duration = Duration::from_secs(2);

/// The logs that have names.
pub(super) struct Named<S: Store> {
    source: Box<dyn LogSource<S>>,
    config: ServerConfig,
    opening: Semaphore,
    table: Mutex<Table<S>>,
    /// Counts openings and closings that have ended.
    ended: watch::Sender<u64>,
}

struct Table<S> {
    logs: HashMap<String, Phase<S>>,
    /// Set at the server's end: no log is opened any more.
    is_closed: bool,
}

enum Phase<S> {
    Open(Arc<OpenLog<S>>),
    /// It is being opened or closed.
    Busy(Ends),
}

/// How an opening or a closing ended; `None` before.
pub(super) type Ends = watch::Receiver<Option<Result<(), StoreError>>>;

/// The task that opens or closes a log. When it is dropped, nobody finds the log in this phase any
/// more.
struct Turn<S: Store> {
    named: Arc<Named<S>>,
    name: String,
    ends: watch::Sender<Option<Result<(), StoreError>>>,
}

impl<S: Store> Named<S> {
    pub(super) fn new(source: Box<dyn LogSource<S>>, config: ServerConfig) -> Self {
        Self {
            source,
            config,
            opening: Semaphore::new(OPENING_MAX),
            table: Mutex::new(Table {
                logs: HashMap::new(),
                is_closed: false,
            }),
            ended: watch::Sender::new(0),
        }
    }

    /// A log that is open, or is opened now.
    pub(super) async fn open(
        self: &Arc<Self>,
        name: &str,
        create: bool,
    ) -> Result<Lease<S>, StoreError> {
        loop {
            let (mut ends, is_own) = match self.begin(name)? {
                Step::Open(lease) => return Ok(lease),
                Step::Begin(ends, turn) => {
                    drop(evenkeel::spawn(turn.open(create)));
                    (ends, true)
                }
                Step::Wait(ends) => (ends, false),
                Step::Close(closing) => {
                    closing.begin();
                    continue;
                }
                Step::Full(mut ended) => {
                    // The sender is in `self`, so this cannot fail.
                    let _ = ended.changed().await;
                    continue;
                }
            };
            let ended = match ends.wait_for(Option::is_some).await {
                Ok(ended) => ended.clone().unwrap_or(Ok(())),
                // Its task is gone; the next one may fare better.
                Err(_) => Ok(()),
            };
            match ended {
                // Another one was not to create the log.
                Err(error) if error.code == Code::NoSuchLog && create && !is_own => {}
                Err(error) => return Err(error),
                Ok(()) => {}
            }
        }
    }

    /// Those that are open, by their names.
    pub(super) fn open_ones(&self) -> Vec<Arc<OpenLog<S>>> {
        let table = self.lock();
        let open = table.logs.values().filter_map(|phase| match phase {
            Phase::Open(log) => Some(Arc::clone(log)),
            Phase::Busy(_) => None,
        });
        let mut open: Vec<_> = open.collect();
        drop(table);
        open.sort_by(|one, other| one.name.cmp(&other.name));
        open
    }

    /// Reads again what is said of single logs, and has those that are open go by it.
    pub(super) async fn read_again(&self) -> Result<Option<Vec<String>>, String> {
        if !self.source.read_again().await? {
            return Ok(None);
        }
        // One that is being opened is adjusted when it is in the table.
        let open = self.open_ones();
        Ok(Some(open.iter().flat_map(|log| self.adjust(log)).collect()))
    }

    fn adjust(&self, log: &OpenLog<S>) -> Vec<String> {
        let changes = self.source.adjust(&log.name, &log.store).into_iter();
        changes
            .map(|change| format!("the log {}: {change}", log.name))
            .collect()
    }

    /// Logs with names, and whether there are more.
    pub(super) async fn list(
        &self,
        after: &str,
        count: usize,
    ) -> Result<(Vec<LogInfo>, bool), StoreError> {
        let Page { logs, more } = self.source.list(after, count).await?;
        let table = self.lock();
        let listed = logs
            .into_iter()
            .map(|(name, bounds)| match table.logs.get(&name) {
                Some(Phase::Open(log)) => log.info(),
                _ => LogInfo {
                    name,
                    is_open: false,
                    bounds,
                },
            });
        Ok((listed.collect(), more))
    }

    /// The log, or what has to be done before it is looked for again.
    fn begin(self: &Arc<Self>, name: &str) -> Result<Step<S>, StoreError> {
        let mut table = self.lock();
        if table.is_closed {
            return Err(StoreError::new(Code::Closing, "the server is ending"));
        }
        match table.logs.get(name) {
            Some(Phase::Open(log)) => return Ok(Step::Open(Lease::new(log))),
            Some(Phase::Busy(ends)) => return Ok(Step::Wait(ends.clone())),
            None => {}
        }
        let open_max = self.config.open_logs_max.max(1);
        if table.logs.len() < open_max {
            let turn = self.turn(&mut table, name);
            return Ok(Step::Begin(turn.ends.subscribe(), turn));
        }
        let idle = table.logs.iter().filter_map(|(name, phase)| match phase {
            Phase::Open(log) if log.is_idle() => Some((log.used(), name)),
            _ => None,
        });
        if let Some((_, idle)) = idle.min() {
            let idle = idle.clone();
            return Ok(self
                .close(&mut table, &idle)
                .map_or(Step::Full(self.ended.subscribe()), Step::Close));
        }
        let is_busy = |phase| matches!(phase, &Phase::Busy(_));
        if table.logs.values().any(is_busy) {
            return Ok(Step::Full(self.ended.subscribe()));
        }
        let count = table.logs.len();
        let text = format!(
            "{count} logs have connections, and the server keeps {open_max} logs open: close the \
             connections of one, or give it more by --open-logs-max"
        );
        Err(StoreError::new(Code::TooMany, text))
    }

    /// Closes those that nobody has used for a while, and those that have failed.
    pub(super) fn sweep(self: &Arc<Self>, now: Instant) {
        let idle_max = self.config.log_idle_max;
        let is_due = |log: &OpenLog<S>| {
            let idle_for = now.saturating_duration_since(log.used());
            log.is_idle() && (idle_for >= idle_max || log.store.has_failed_for_good())
        };
        let due = self.close_those(&mut self.lock(), is_due);
        due.into_iter().for_each(Closing::begin);
    }

    /// Closes all that are open, and opens no more. Returns what is to be waited for.
    pub(super) fn close_all(self: &Arc<Self>) -> Vec<Ends> {
        let mut table = self.lock();
        table.is_closed = true;
        let closing = self.close_those(&mut table, |_| true);
        let busy = table.logs.values().filter_map(|phase| match phase {
            Phase::Busy(ends) => Some(ends.clone()),
            Phase::Open(_) => None,
        });
        let busy = busy.collect();
        drop(table);
        closing.into_iter().for_each(Closing::begin);
        busy
    }

    fn close_those(
        self: &Arc<Self>,
        table: &mut Table<S>,
        meant: impl Fn(&OpenLog<S>) -> bool,
    ) -> Vec<Closing<S>> {
        let names = table.logs.iter().filter_map(|(name, phase)| match phase {
            Phase::Open(log) if meant(log) => Some(name.clone()),
            _ => None,
        });
        let names: Vec<String> = names.collect();
        let closing = names.iter().map(|name| self.close(table, name));
        closing.flatten().collect()
    }

    /// A log that is open, to be closed.
    fn close(self: &Arc<Self>, table: &mut Table<S>, name: &str) -> Option<Closing<S>> {
        let Some(Phase::Open(log)) = table.logs.get(name) else {
            return None;
        };
        let log = Arc::clone(log);
        let turn = self.turn(table, name);
        Some(Closing { turn, log })
    }

    fn turn(self: &Arc<Self>, table: &mut Table<S>, name: &str) -> Turn<S> {
        let ends = watch::Sender::new(None);
        let phase = Phase::Busy(ends.subscribe());
        table.logs.insert(name.to_owned(), phase);
        Turn {
            named: Arc::clone(self),
            name: name.to_owned(),
            ends,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table<S>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What has to be done for a log. Tasks are begun when the table is not locked: one that cannot
/// begin is dropped at once, and locks it.
enum Step<S: Store> {
    /// Nothing: it is open.
    Open(Lease<S>),
    /// Open it, and wait for that.
    Begin(Ends, Turn<S>),
    /// Wait for somebody else who opens or closes it.
    Wait(Ends),
    /// Close this one, which has its place.
    Close(Closing<S>),
    /// Wait until any opening or closing has ended.
    Full(watch::Receiver<u64>),
}

/// A log to be closed.
struct Closing<S: Store> {
    turn: Turn<S>,
    log: Arc<OpenLog<S>>,
}

impl<S: Store> Closing<S> {
    fn begin(self) {
        drop(evenkeel::spawn(self.turn.close(self.log)));
    }
}

impl<S: Store> Turn<S> {
    async fn open(self, create: bool) {
        let create = create && self.named.config.create_logs;
        let named = Arc::clone(&self.named);
        let name = self.name.clone();
        let place = named.opening.acquire().await;
        let mut opening = named.source.open(&name, create);
        let opened = match timeout(OPENING_PATIENCE, &mut opening).await {
            Ok(opened) => opened,
            Err(_) => {
                drop(place);
                eprintln!(
                    "txlog: the log {} takes longer than {} s to open; see whether its disk \
                     answers",
                    self.name,
                    OPENING_PATIENCE.as_secs()
                );
                opening.await
            }
        };
        self.opened(opened);
    }

    fn opened(self, opened: Result<S, StoreError>) {
        let (named, name) = (Arc::clone(&self.named), self.name.clone());
        let store = match opened {
            Ok(store) => store,
            Err(error) => {
                self.end(Err(error));
                return;
            }
        };
        let log = Arc::new(OpenLog::new(name.clone(), store));
        let mut table = named.lock();
        if table.is_closed {
            drop(table);
            drop(evenkeel::spawn(self.close(log)));
            return;
        }
        table.logs.insert(name, Phase::Open(Arc::clone(&log)));
        drop(table);
        // What is said of it may have been read again since it was asked for.
        for change in named.adjust(&log) {
            eprintln!("txlog: {change}");
        }
        let config = named.config;
        drop(evenkeel::spawn(async move {
            let mut ending = log.ending.subscribe();
            tokio::select! {
                () = maintain(&log, &config, false) => {}
                _ = ending.wait_for(|ending| *ending) => {}
            }
        }));
        self.end(Ok(()));
    }

    async fn close(self, log: Arc<OpenLog<S>>) {
        log.ending.send_replace(true);
        let closed = log.store.close().await;
        // Its directory is free from here on.
        drop(log);
        let closed = closed.map_err(|StoreError { code, text, .. }| {
            StoreError::new(code, format!("the log {}: {text}", self.name))
        });
        if let Err(error) = &closed {
            eprintln!("txlog: {error}");
        }
        // Who waits for its end to open it, or another one, is not told of what it lost: those are
        // who appended.
        let is_end = self.named.lock().is_closed;
        self.end(if is_end { closed } else { Ok(()) });
    }

    fn end(self, how: Result<(), StoreError>) {
        let ends = self.ends.clone();
        drop(self);
        ends.send_replace(Some(how));
    }
}

impl<S: Store> Drop for Turn<S> {
    fn drop(&mut self) {
        let mut table = self.named.lock();
        if let Some(Phase::Busy(_)) = table.logs.get(&self.name) {
            table.logs.remove(&self.name);
        }
        drop(table);
        self.named.ended.send_modify(|ended| *ended += 1);
    }
}
