//! The server's logs: one without a name, others with names, and who has them open.
//!
//! A log with a name is opened when the first connection asks for it, and stays open as long as a
//! connection has it. Without one it is closed after a while, at once if it has failed for good (so
//! that the next connection opens it again, which repairs what a crash may leave), and when
//! another one needs its place: see `named`.

mod named;

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel::time::{sleep, timeout};
use tokio::sync::watch;
use txlog_client::frame::{Code, LogBounds, LogInfo, is_name};

use self::named::Named;
use super::complaints::Complaints;
use super::counters::LogCounters;
use super::looks::Looks;
use super::peers::Past;
use super::{LogSource, ServerConfig};
use crate::store::{Identity, Store, StoreError};

/// How long a hello waits for its log to be opened, or for a place for it. Clients wait for 10
/// seconds, and are to learn of this.
const HELLO_PATIENCE: Duration = Duration::from_secs(8);

/// Why there is no log for who names none.
pub(super) const NO_UNNAMED: &str =
    "this server has only logs with names: name one, as by --log NAME";

/// How many logs or cursors are listed at a time, in a frame of less than 64 KiB.
pub(super) const LISTED_MAX: usize = 256;

/// A log that is open.
pub(super) struct OpenLog<S> {
    /// Empty for the one without a name.
    pub(super) name: String,
    pub(super) store: S,
    /// What is known of appends by connections that have left.
    pub(super) past: Arc<Past>,
    pub(super) counters: Arc<LogCounters>,
    /// Whether a record could be stored, if somebody asks while none are appended.
    pub(super) looks: Looks,
    /// How many leases there are. Grows only while the table of logs is locked.
    users: AtomicUsize,
    /// When the last lease began or ended.
    used: Mutex<Instant>,
    /// Becomes true when it closes.
    ending: watch::Sender<bool>,
}

/// An open log that stays open as long as this lives.
pub(super) struct Lease<S>(Arc<OpenLog<S>>);

/// All logs of a server.
pub(super) struct Logs<S: Store> {
    unnamed: Option<Arc<OpenLog<S>>>,
    named: Option<Arc<Named<S>>>,
    /// How long a client waits for anything.
    stall_max: Duration,
}

impl<S: Store> Logs<S> {
    pub(super) fn new(
        unnamed: Option<S>,
        source: Option<Box<dyn LogSource<S>>>,
        config: ServerConfig,
    ) -> Self {
        let named = source.map(|source| Arc::new(Named::new(source, config)));
        let unnamed = unnamed.map(|store| Arc::new(OpenLog::new(String::new(), store)));
        Self {
            unnamed,
            named,
            stall_max: config.stall_max,
        }
    }

    /// Whether there is a log for who names none.
    pub(super) fn has_unnamed(&self) -> bool {
        self.unnamed.is_some()
    }

    /// The log of this name, which is opened if it is not open; it is created if there is none,
    /// `create` asks for that, and the server allows it.
    ///
    /// # Errors
    ///
    /// [`Code::NoSuchLog`], [`Code::TooMany`], [`Code::Busy`], or the log's own.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an opening that was begun goes on.
    pub(super) async fn open(&self, name: &str, create: bool) -> Result<Lease<S>, StoreError> {
        if name.is_empty() {
            let unnamed = self.unnamed.as_ref().map(Lease::new);
            return unnamed.ok_or_else(|| no_such_log(NO_UNNAMED));
        }
        if !is_name(name) {
            return Err(no_such_log(&format!(
                "{name:?} is no name for a log: take letters, digits, `.`, `_` and `-`, up to 64, \
                 and begin with a letter, a digit or `_`"
            )));
        }
        let Some(named) = &self.named else {
            return Err(no_such_log(&format!(
                "this server has no log {name:?}, and only one without a name: start it with \
                 --logs to have others"
            )));
        };
        let patience = HELLO_PATIENCE.min(self.stall_max);
        let opened = timeout(patience, named.open(name, create)).await;
        opened.unwrap_or_else(|_| {
            let text = format!(
                "the log {name:?} could not be opened within {} s: connect again later, and see \
                 whether its disk answers",
                patience.as_secs_f64()
            );
            Err(StoreError::new(Code::Busy, text))
        })
    }

    /// The logs with names greater than `after`, as many as fit into one answer, and whether there
    /// are more. The log without a name comes first.
    ///
    /// # Errors
    ///
    /// Those of the source.
    pub(super) async fn list(&self, after: &str) -> Result<(Vec<LogInfo>, bool), StoreError> {
        let unnamed = self.unnamed.as_ref().filter(|_| after.is_empty());
        let mut logs: Vec<LogInfo> = unnamed.map(|log| log.info()).into_iter().collect();
        let mut more = false;
        if let Some(named) = &self.named {
            let (others, behind) = named.list(after, LISTED_MAX).await?;
            logs.extend(others);
            more = behind;
        }
        Ok((logs, more))
    }

    /// Reads again what is said of single logs, and has those that are open go by it: what is to be
    /// told of that. None if nothing can be said of single logs.
    ///
    /// # Errors
    ///
    /// What is wrong with it; then nothing has changed.
    pub(super) async fn read_again(&self) -> Result<Option<Vec<String>>, String> {
        match &self.named {
            Some(named) => named.read_again().await,
            None => Ok(None),
        }
    }

    /// Those that are open.
    pub(super) fn open_ones(&self) -> Vec<Arc<OpenLog<S>>> {
        let mut open: Vec<_> = self.unnamed.iter().map(Arc::clone).collect();
        if let Some(named) = &self.named {
            open.extend(named.open_ones());
        }
        open
    }

    /// Looks after all logs. Returns when the server is to end, as its log without a name has
    /// failed for good.
    pub(super) async fn maintain(&self, config: &ServerConfig) {
        let unnamed = async {
            match &self.unnamed {
                Some(log) => maintain(log, config, config.exit_on_failure).await,
                None => std::future::pending().await,
            }
        };
        let sweep = async {
            loop {
                sleep(config.maintain_every).await;
                if let Some(named) = &self.named {
                    named.sweep(Instant::now());
                }
            }
        };
        tokio::select! {
            () = unnamed => {}
            () = sweep => {}
        }
    }

    /// Closes all logs, all at the same time.
    ///
    /// # Errors
    ///
    /// That of one whose accepted records could not all be made durable.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        let named = self.named.as_ref().map(Named::close_all);
        let unnamed = match &self.unnamed {
            Some(log) => log.store.close().await,
            None => Ok(()),
        };
        let mut closed = unnamed;
        for mut ends in named.unwrap_or_default() {
            // If the task has gone, the runtime ends.
            if let Ok(ended) = ends.wait_for(Option::is_some).await {
                closed = closed.and(ended.clone().unwrap_or(Ok(())));
            }
        }
        closed
    }
}

/// Lets a store remove old records from time to time, and reports when it has failed. Returns when
/// it has failed for good, if that `ends` it.
async fn maintain<S: Store>(log: &OpenLog<S>, config: &ServerConfig, ends: bool) {
    let (mut failures, mut removals) = <(Complaints, Complaints)>::default();
    let of = match &*log.name {
        "" => String::new(),
        name => format!("the log {name}: "),
    };
    loop {
        sleep(config.maintain_every).await;
        match log.store.failure() {
            Some(failure) => failures.say(format!("{of}{failure}")),
            None => failures.pass(),
        }
        if ends && log.store.has_failed_for_good() {
            return;
        }
        match log.store.maintain().await {
            Ok(()) => removals.pass(),
            Err(error) => removals.say(format!("{of}the store could not be looked after: {error}")),
        }
    }
}

fn no_such_log(text: &str) -> StoreError {
    StoreError::new(Code::NoSuchLog, text)
}

impl<S> OpenLog<S> {
    fn new(name: String, store: S) -> Self {
        Self {
            name,
            store,
            past: Arc::default(),
            counters: Arc::default(),
            looks: Looks::default(),
            users: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            ending: watch::Sender::new(false),
        }
    }

    /// Whether nobody has it; then nobody gets it while the table is locked.
    fn is_idle(&self) -> bool {
        // Acquire: pairs with the release of the last lease, whose time is seen then.
        self.users.load(Ordering::Acquire) == 0
    }

    fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn use_now(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl<S: Store> OpenLog<S> {
    fn info(&self) -> LogInfo {
        let (first, next) = self.store.bounds();
        let Identity { log, epoch } = self.store.identity();
        let of = txlog_client::Identity { log, epoch };
        LogInfo {
            name: self.name.clone(),
            is_open: true,
            bounds: Some(LogBounds { first, next, of }),
        }
    }
}

impl<S> Lease<S> {
    fn new(log: &Arc<OpenLog<S>>) -> Self {
        // Relaxed: who looks at it has the lock of the table, as this has; the log without a name
        // is never closed while the server runs.
        log.users.fetch_add(1, Ordering::Relaxed);
        log.use_now();
        Self(Arc::clone(log))
    }
}

impl<S> Drop for Lease<S> {
    fn drop(&mut self) {
        self.0.use_now();
        // Release: pairs with `is_idle`.
        self.0.users.fetch_sub(1, Ordering::Release);
    }
}

impl<S> Deref for Lease<S> {
    type Target = OpenLog<S>;

    fn deref(&self) -> &OpenLog<S> {
        &self.0
    }
}
