//! The proxy as a whole: listeners, what they serve by, its changes and its end.
//!
//! A [`Site`] is a configuration at work, and never changes: a reload makes another one, which
//! takes over what it has in common with the one before. Connections look at the site that is
//! current when they begin, and those of HTTP at each request. So a reload touches no connection.
//!
//! ```text
//!  accept ──▶ slot ──▶ permit ──▶ PROXY header? ──▶ TLS? ──▶ http::serve or tcp::serve,
//!              │ full                 │ client's slot          in the listener's class
//!              └──▶ 503, or a reset ◀─┘
//! ```

mod accept;
mod change;
mod descriptors;
mod error;
mod expiry;
mod handover;
mod handshake;
mod open;
mod page;
mod site;
mod watch;

pub use accept::Taken;
pub use error::ServerError;
pub use expiry::{InUse, Whose, warnings as certificate_warnings};
pub use page::check as check_page;
pub use site::{Front, Place, Site, Watched};

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use evenkeel::time::{Instant, sleep, timeout};
use servers_common::watch::{Known, look};
use tokio::sync::Semaphore;
use tokio::sync::watch::{Receiver, Sender};
use tracing::warn;

use crate::access_log::{Log, Logs};
use crate::acme::Acme;
use crate::admin;
use crate::config::{Config, Process};
use crate::counters::Counter;
use crate::discovery::Discovery;
use crate::runtimes::Runtimes;
use crate::sessions::Sessions;
use crate::supervisor::PidFile;
use crate::upgrade::{PidLeft, Predecessor, Successor};
use open::Open;
use page::Shown;

/// How often idle connections to servers are looked through.
const SWEEP: Duration = Duration::from_secs(1);

/// How long connections that are cut off may take to end, and how often it is looked whether they
/// have.
const CUT_MAX: Duration = Duration::from_secs(1);
const CUT_LOOK: Duration = Duration::from_millis(5);

/// How long a log may take for its last lines.
const LOG_MAX: Duration = Duration::from_secs(1);

/// How many who are refused are told why at leisure; further ones are told and closed.
const REFUSALS_MAX: usize = 64;

/// What all parts of a proxy share.
#[derive(Debug)]
pub struct Context {
    path: PathBuf,
    /// What it began with.
    process: Process,
    /// Where its tasks run.
    pub runtimes: Runtimes,
    site: Mutex<Arc<Site>>,
    /// Logs that a reload has replaced, and in which what was under way still has its lines.
    replaced_logs: Mutex<Vec<Weak<Log>>>,
    /// Which site that is, so that who knows it need not ask. Advanced after each change, with
    /// Release, which pairs with the Acquire in `edition`.
    edition: AtomicU64,
    closing: Sender<bool>,
    leaving: Sender<bool>,
    permits: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    /// Connections of clients that there may be.
    pub connections_max: usize,
    /// What is known of servers by name.
    pub discovery: Discovery,
    /// The certificates that listeners get by themselves.
    acme: Acme,
    /// Those that end soon, of which was told.
    told: Mutex<expiry::Told>,
    /// When it began.
    pub began: Instant,
    /// Connections that were taken, of all listeners.
    pub connections: Counter,
    /// Reloads that were made.
    pub reloads: Counter,
    /// What operators are told of the runtime.
    pub brief: admin::Brief,
    /// The connections that there are.
    pub sessions: Arc<Sessions>,
    open: tokio::sync::Mutex<Open>,
    /// How the files of the configuration looked when they were read.
    read: Known,
    /// Held while another process takes over.
    upgrading: tokio::sync::Mutex<()>,
    /// The process that has taken over. It is told by the end of this one.
    successor: Mutex<Option<Successor>>,
    /// How many earlier processes may be finishing their connections. Relaxed: a limit that may be
    /// late.
    ancestors: AtomicU32,
}

/// A proxy at work.
#[derive(Debug)]
pub struct Server {
    context: Arc<Context>,
    /// The file with the id of the process that it has taken over from.
    pub pid_left: Option<PidLeft>,
    page: Option<evenkeel_admin::Admin>,
    /// The file with its own id, if there is to be one and it could be written.
    pub pid_file: Option<PidFile>,
}

impl Server {
    /// Begins to listen, by this configuration, which is in this file. The serving runtime, in
    /// which this is called, has its classes.
    /// With a predecessor it takes over what that has.
    ///
    /// # Errors
    ///
    /// [`ServerError`].
    pub async fn begin(
        path: &Path,
        config: Config,
        predecessor: Option<Predecessor>,
        runtimes: Runtimes,
    ) -> Result<Self, ServerError> {
        let mut inherited = match predecessor {
            None => None,
            Some(before) => Some(before.inherit().await.map_err(ServerError::Predecessor)?),
        };
        let process = config.process.get_ref().clone();
        check_page(&process)?;
        let connections_max = descriptors::secured(process.connections_max, &config)
            .map_err(ServerError::Descriptors)?;
        let context = Arc::new(Context::new(path, &config, connections_max, runtimes));
        let mut open = context.open.lock().await;
        let bound = context
            .change(&mut open, config, inherited.as_mut())
            .await?;
        let admin = match process.admin_socket {
            None => None,
            Some(path) => {
                let passed = inherited
                    .as_mut()
                    .and_then(|inherited| inherited.admin(&path));
                let bound = admin::Bound::new(path, passed);
                Some(context.runtimes.in_control(bound).await?)
            }
        };
        context
            .read
            .note_read(look(&context.site().config.files).await);
        // Before others are let go, as what is wrong with it can be mended then.
        let mut page = match process.admin_page {
            Some(address) if inherited.is_none() => {
                Shown::Page(page::listen(&context, address).await?)
            }
            Some(address) => Shown::Later(address),
            None => Shown::Nothing,
        };
        if let Some(inherited) = &mut inherited {
            let prepared = inherited.prepared().await;
            prepared.map_err(ServerError::Predecessor)?;
        }
        context.accept(&mut open, bound);
        open.admin = admin.map(|admin| admin.answer(&context));
        drop(open);
        // Before the one that it takes over from says that it has. Serving is worth more than the
        // file: whoever supervises the process sees what is missing.
        let pid_file = process.pid_file.and_then(|path| {
            let written = PidFile::write(&path);
            written.map_err(|error| warn!(%error, "{error}")).ok()
        });
        let pid_left = inherited.as_ref().and_then(|it| it.pid_file.clone());
        if let Some(inherited) = inherited {
            context.serve_after(inherited).await;
        }
        if let Shown::Later(address) = page {
            page = page::later(&context, address).await;
        }
        context.look_after(process.watch);
        Ok(Self {
            context,
            pid_left,
            page: match page {
                Shown::Page(page) => Some(page),
                Shown::Later(_) | Shown::Nothing => None,
            },
            pid_file,
        })
    }

    /// What its parts share.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The address of the page.
    pub fn page(&self) -> Option<String> {
        self.page.as_ref().map(evenkeel_admin::Admin::address)
    }

    /// Takes no more connections, and waits until the open ones have ended, or their time is
    /// up. Returns how many have not.
    ///
    /// If another process has taken over, connections that wait for a request may wait for most of
    /// that time: one that is ended in the moment in which its client sends a request fails that.
    /// The client comes back by itself after its next answer. Otherwise they are ended at once.
    pub async fn end(self) -> usize {
        let context = self.context;
        let drain = context.site().config.process.get_ref().drain;
        let is_followed = *context.leaving.borrow();
        let mut page = self.page;
        if is_followed {
            // The successor waits for its address.
            page::end(&mut page).await;
        } else {
            context.leaving.send_replace(true);
            context.close();
            // The socket for operators stays to the end.
            context.open.lock().await.close_listeners().await;
        }
        let left = if context.is_empty_within(drain).await {
            0
        } else {
            context.current()
        };
        page::end(&mut page).await;
        let admin = context.open.lock().await.admin.take();
        if let Some(admin) = admin {
            admin.finish().await;
        }
        left
    }
}

/// Looks through idle connections to servers, as long as the proxy is there.
async fn sweep(context: std::sync::Weak<Context>) {
    while let Some(context) = context.upgrade() {
        context.site().sweep();
        drop(context);
        sleep(SWEEP).await;
    }
}

impl Context {
    fn new(path: &Path, config: &Config, connections_max: usize, runtimes: Runtimes) -> Self {
        Self {
            path: path.to_owned(),
            process: config.process.get_ref().clone(),
            runtimes,
            site: Mutex::new(Arc::new(Site::empty(config))),
            replaced_logs: Mutex::default(),
            edition: AtomicU64::new(0),
            closing: Sender::new(false),
            leaving: Sender::new(false),
            permits: Arc::new(Semaphore::new(connections_max)),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            connections_max,
            discovery: Discovery::default(),
            acme: Acme::default(),
            told: Mutex::default(),
            began: Instant::now(),
            connections: Counter::default(),
            reloads: Counter::default(),
            brief: admin::Brief::default(),
            sessions: Arc::default(),
            open: tokio::sync::Mutex::default(),
            read: Known::default(),
            upgrading: tokio::sync::Mutex::default(),
            successor: Mutex::default(),
            ancestors: AtomicU32::new(0),
        }
    }

    /// Begins what is done from time to time.
    fn look_after(self: &Arc<Self>, interval: Option<Duration>) {
        drop(evenkeel::spawn(sweep(Arc::downgrade(self))));
        drop(evenkeel::spawn(expiry::watch(Arc::downgrade(self))));
        if let Some(interval) = interval {
            let watch = watch::watch(Arc::downgrade(self), interval);
            drop(evenkeel::spawn(watch));
        }
    }

    /// The configuration at work.
    pub fn site(&self) -> Arc<Site> {
        Arc::clone(&self.site.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of the configuration at work. Whoever reads it and then [`site`](Self::site) has
    /// that one, or a newer one.
    pub fn edition(&self) -> u64 {
        // Acquire: pairs with the Release in `go_by`.
        self.edition.load(Ordering::Acquire)
    }

    /// Has the files of all logs opened anew, as when they were renamed.
    pub fn reopen_logs(&self) {
        for log in self.logs() {
            log.reopen();
        }
    }

    /// Those of the configuration, and those that are still written to.
    fn logs(&self) -> Vec<Arc<Log>> {
        let replaced = self.replaced_logs.lock();
        let replaced = replaced.unwrap_or_else(PoisonError::into_inner);
        let replaced = replaced.iter().filter_map(Weak::upgrade);
        let current = self.site();
        current
            .logs
            .values()
            .map(Arc::clone)
            .chain(replaced)
            .collect()
    }

    /// These logs have taken the place of others.
    fn replace_logs(&self, before: &Logs, now: &Logs) {
        let stays = |name: &String, log| now.get(name).is_some_and(|now| Arc::ptr_eq(now, log));
        let gone = before.iter().filter(|(name, log)| !stays(name, log));
        let replaced = self.replaced_logs.lock();
        let mut replaced = replaced.unwrap_or_else(PoisonError::into_inner);
        replaced.retain(|log| log.strong_count() > 0);
        replaced.extend(gone.map(|(_, log)| Arc::downgrade(log)));
    }

    /// The names of the listeners, and where they listen.
    pub async fn listening(&self) -> Vec<(String, String)> {
        self.open.lock().await.listening(&self.site())
    }

    /// Connections of clients, at the moment.
    pub fn current(&self) -> usize {
        if *self.leaving.borrow() {
            // Whoever waits for the last one takes the places that are free.
            return self.sessions.count();
        }
        self.connections_max - self.permits.available_permits()
    }

    /// Whether the proxy ends, and when it begins to.
    pub fn closing(&self) -> Receiver<bool> {
        self.closing.subscribe()
    }

    /// Whether it takes no more connections, and when it begins to.
    pub fn leaving(&self) -> Receiver<bool> {
        self.leaving.subscribe()
    }

    /// Ends the connections that are left, and writes the last lines of the logs, also theirs.
    pub async fn cut_off(&self) {
        self.sessions.shut_down_all();
        let gone = async {
            while self.sessions.count() > 0 {
                sleep(CUT_LOOK).await;
            }
            // A connection of HTTP/2 goes a moment before its requests.
            sleep(CUT_LOOK).await;
        };
        // One that computes ends when it comes to it.
        let _ = timeout(CUT_MAX, gone).await;
        // Those of a disk that hangs are not worth to hang, too.
        for log in self.logs() {
            let _ = timeout(LOG_MAX, log.flushed()).await;
        }
    }

    /// Waits until all connections have ended. Those that wait for a request are ended when most of
    /// the time is over.
    async fn is_empty_within(&self, drain: Duration) -> bool {
        let all = u32::try_from(self.connections_max).unwrap_or(u32::MAX);
        let mut ended = std::pin::pin!(async {
            // Whoever waits for all places stands before those that come later: a connection that
            // was accepted and has no place yet would wait for the end of all others.
            let accepting = self.open.lock().await.take_ending();
            for accepting in accepting {
                let _ = accepting.await;
            }
            self.permits.acquire_many(all).await
        });
        let last = drain / 10;
        if timeout(drain.saturating_sub(last), ended.as_mut())
            .await
            .is_ok()
        {
            return true;
        }
        self.close();
        timeout(last, ended).await.is_ok()
    }

    /// Ends connections that wait for a request, as soon as it can be done.
    pub fn close(&self) {
        self.closing.send_replace(true);
        self.sessions.close();
    }
}
