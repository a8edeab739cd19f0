//! The proxy as a whole: listeners, what they serve by, its changes and its end.
//!
//! A [`Site`] is a configuration at work, and never changes: a reload makes another one, which
//! takes over what it has in common with the one before. Connections look at the site that is
//! current when they begin, and those of HTTP at each request. So a reload touches no connection.
//!
//! ```text
//!  accept ──▶ PROXY header? ──▶ slot ──▶ TLS? ──▶ http::serve or tcp::serve,
//!     ▲                          │ full            in the listener's class
//!     └── waits for a permit     └──▶ 503, or a reset
//! ```

mod accept;
mod descriptors;
mod handshake;
mod site;

pub use accept::Taken;
pub use site::{Front, Place, Site, Watched};

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel::runtime::Handle;
use evenkeel::task::AbortHandle;
use evenkeel::time::{Instant, sleep, timeout};
use evenkeel::{Class, ClassConfig};
use tokio::sync::{Semaphore, watch};

use crate::access_log::{self, Log, Logs};
use crate::admin;
use crate::config::{self, Config, ConfigError};
use crate::counters::Counter;
use crate::listener::Listener;
use crate::sessions::Sessions;
use crate::socket::Address;

/// How often idle connections to servers are looked through.
const SWEEP: Duration = Duration::from_secs(1);

/// How long a log may take for its last lines.
const LOG_MAX: Duration = Duration::from_secs(1);

/// Why the proxy cannot begin, or not with another configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address cannot be listened on.
    #[error("listener {name} cannot listen on {address}: {error}")]
    Listen {
        /// The listener.
        name: String,
        /// The address.
        address: Address,
        /// The system's error.
        error: io::Error,
    },
    /// The socket for operators.
    #[error("process.admin_socket {path}: {error}")]
    AdminSocket {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The page.
    #[error("process.admin_page {address}: {error}")]
    AdminPage {
        /// Its address.
        address: String,
        /// What is wrong.
        error: evenkeel_admin::AdminError,
    },
    /// A class that came with a reload.
    #[error(
        "class {0} is new, and classes are made when the proxy begins: restart it, or use one of \
         those that there are"
    )]
    NewClass(String),
    /// The runtime refuses a setting of a class.
    #[error("class {name}: {error}")]
    Class {
        /// The class.
        name: String,
        /// What is wrong.
        error: evenkeel::ClassError,
    },
    /// A log cannot be opened.
    #[error("log {name} cannot open {to}: {error}")]
    Log {
        /// The log.
        name: String,
        /// Where it goes.
        to: access_log::Target,
        /// The system's error.
        error: io::Error,
    },
    /// There are too few descriptors.
    #[error("{0}")]
    Descriptors(String),
}

/// What all parts of a proxy share.
#[derive(Debug)]
pub struct Context {
    path: PathBuf,
    site: Mutex<Arc<Site>>,
    closing: watch::Sender<bool>,
    permits: Arc<Semaphore>,
    /// Connections of clients that there may be.
    pub connections_max: usize,
    /// When it began.
    pub began: Instant,
    /// Connections that were taken, of all listeners.
    pub connections: Counter,
    /// Reloads that were made.
    pub reloads: Counter,
    /// The connections that there are.
    pub sessions: Arc<Sessions>,
    running: tokio::sync::Mutex<BTreeMap<Place, Running>>,
}

/// A listener at work.
#[derive(Debug)]
struct Running {
    shown: String,
    accepts: AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

/// A proxy at work.
#[derive(Debug)]
pub struct Server {
    context: Arc<Context>,
    drain: Duration,
    page: Option<evenkeel_admin::Admin>,
    /// Ends with it.
    _admin: Option<admin::Socket>,
}

impl Server {
    /// Begins to listen, by this configuration, which is in this file. The runtime has its classes.
    ///
    /// # Errors
    ///
    /// [`ServerError`].
    pub async fn begin(path: &Path, config: Config) -> Result<Self, ServerError> {
        let process = config.process.get_ref().clone();
        let connections_max = descriptors::secured(process.connections_max, &config)
            .map_err(ServerError::Descriptors)?;
        let context = Arc::new(Context {
            path: path.to_owned(),
            site: Mutex::new(Arc::new(Site::empty(&config))),
            closing: watch::Sender::new(false),
            permits: Arc::new(Semaphore::new(connections_max)),
            connections_max,
            began: Instant::now(),
            connections: Counter::default(),
            reloads: Counter::default(),
            sessions: Arc::default(),
            running: tokio::sync::Mutex::default(),
        });
        context.change(config).await?;
        let admin = match process.admin_socket {
            Some(path) => Some(admin::Socket::listen(&context, path).await?),
            None => None,
        };
        let page = match process.admin_page {
            Some(address) => match page(&context).listen(&address).await {
                Ok(page) => Some(page),
                Err(error) => return Err(ServerError::AdminPage { address, error }),
            },
            None => None,
        };
        let sweeping = Arc::downgrade(&context);
        drop(evenkeel::spawn(async move {
            while let Some(context) = sweeping.upgrade() {
                context.site().sweep();
                drop(context);
                sleep(SWEEP).await;
            }
        }));
        Ok(Self {
            context,
            drain: process.drain,
            page,
            _admin: admin,
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
    pub async fn end(self) -> usize {
        let context = self.context;
        context.closing.send_replace(true);
        context.running.lock().await.clear();
        let all = u32::try_from(context.connections_max).unwrap_or(u32::MAX);
        let ended = timeout(self.drain, context.permits.acquire_many(all)).await;
        let left = match ended {
            Ok(_) => 0,
            Err(_) => context.current(),
        };
        if let Some(page) = self.page {
            page.shutdown().await;
        }
        // Those of a disk that hangs are not worth to hang, too.
        for log in context.site().logs.values() {
            let _ = timeout(LOG_MAX, log.flushed()).await;
        }
        left
    }
}

impl Context {
    /// The configuration at work.
    pub fn site(&self) -> Arc<Site> {
        Arc::clone(&self.site.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the configuration again, and works by it. If there is an error, all goes on as before.
    ///
    /// # Errors
    ///
    /// [`ServerError`].
    pub async fn reload(self: &Arc<Self>) -> Result<(), ServerError> {
        let config = config::read(&self.path)?;
        if config.process != self.site().config.process {
            eprintln!(
                "evenkeel-proxy: [process] has changed, which needs a restart to take effect"
            );
        }
        self.change(config).await?;
        self.reopen_logs();
        self.reloads.one();
        Ok(())
    }

    /// Has the files of all logs opened anew, as when they were renamed.
    pub fn reopen_logs(&self) {
        for log in self.site().logs.values() {
            log.reopen();
        }
    }

    /// The names of the listeners, and where they listen.
    pub async fn listening(&self) -> Vec<(String, String)> {
        let running = self.running.lock().await;
        let site = self.site();
        let shown = |(place, running): (&Place, &Running)| {
            let front = site.fronts.get(place)?;
            Some((front.name.clone(), running.shown.clone()))
        };
        running.iter().filter_map(shown).collect()
    }

    /// Connections of clients, at the moment.
    pub fn current(&self) -> usize {
        self.connections_max - self.permits.available_permits()
    }

    /// Whether the proxy ends, and when it begins to.
    pub fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Listens where it did not, and only then works by the configuration.
    async fn change(self: &Arc<Self>, config: Config) -> Result<(), ServerError> {
        let mut running = self.running.lock().await;
        if *self.closing.borrow() {
            return Ok(());
        }
        let classes = classes(&config)?;
        let before = self.site();
        let logs = logs(&config, &before.logs).await?;
        let mut bound = Vec::new();
        for (name, listener) in &config.listeners {
            let address = listener.get_ref().bind.get_ref();
            let place = Place::new(name, address);
            if running.contains_key(&place) {
                continue;
            }
            let listener = Listener::bind(address).await;
            let listener = listener.map_err(|error| ServerError::Listen {
                name: name.clone(),
                address: address.clone(),
                error,
            })?;
            bound.push((place, listener));
        }
        let runtime = Handle::current();
        for (name, class, settings) in classes {
            let set = runtime.set_class(class, settings);
            set.map_err(|error| ServerError::Class { name, error })?;
        }
        let of_name = |name: &str| runtime.class(name);
        let site = Arc::new(Site::new((config, logs), &before, &self.closing(), of_name));
        running.retain(|place, _| site.fronts.contains_key(place));
        *self.site.lock().unwrap_or_else(PoisonError::into_inner) = site;
        for (place, listener) in bound {
            let shown = listener.shown();
            let accepting = accept::run(Arc::clone(self), place.clone(), listener);
            // In no class of an operator's, who may have asked for it.
            let accepts = evenkeel::spawn_in(Class::NORMAL, accepting).abort_handle();
            running.insert(place, Running { shown, accepts });
        }
        Ok(())
    }
}

/// The page, with the metrics of the proxy as long as it is there.
fn page(context: &Arc<Context>) -> evenkeel_admin::Builder {
    let of = Arc::downgrade(context);
    evenkeel_admin::Builder::new().metrics(move |families| {
        if let Some(context) = of.upgrade() {
            admin::add_metrics(&context.site(), families);
        }
    })
}

async fn logs(config: &Config, before: &Logs) -> Result<Logs, ServerError> {
    let opened = Log::open_all(&config.logs, before).await;
    opened.map_err(|(name, error)| ServerError::Log {
        to: config.logs[&name].get_ref().to.clone(),
        name,
        error,
    })
}

/// The classes that the configuration says something of, with that.
fn classes(config: &Config) -> Result<Vec<(String, Class, ClassConfig)>, ServerError> {
    let runtime = Handle::current();
    let classes = config.classes.iter().map(|(name, settings)| {
        let class = runtime.class(name);
        let class = class.ok_or_else(|| ServerError::NewClass(name.clone()))?;
        Ok((name.clone(), class, settings.get_ref().into()))
    });
    classes.collect()
}
