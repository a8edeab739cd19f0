//! Starting the server, and ending it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use evenkeel::Class;
use evenkeel::runtime::Handle;
use evenkeel::serve::{Listener, Served};
use evenkeel::task::JoinHandle;
use tokio::sync::oneshot;

use crate::access::Access;
use crate::address::{Address, Bound};
use crate::error::AdminError;
use crate::metrics::{Added, Families};
use crate::timed::{Prompt, TimedListener};
use crate::{CONNECTIONS_MAX, REQUEST_TIMEOUT, routes};

/// Serves the runtime of the calling task, until the runtime ends.
///
/// `address` is an IP address and a port, 0 for any free one, or `unix:` and a path.
///
/// # Errors
///
/// The address is none, is taken, or is one that others than this machine can connect to, for which
/// a [`Builder`] with a token is needed.
///
/// # Panics
///
/// Outside a runtime.
pub async fn listen(address: &str) -> Result<Admin, AdminError> {
    Builder::new().listen(address).await
}

/// Settings of a server.
///
/// # Examples
///
/// ```
/// # #[evenkeel::main]
/// # async fn main() -> Result<(), evenkeel_admin::AdminError> {
/// let token = std::env::var("ADMIN_TOKEN").unwrap_or("correct-horse".to_owned());
/// let admin = evenkeel_admin::Builder::new()
///     .token(token)
///     .listen("0.0.0.0:0")
///     .await?;
/// admin.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Builder {
    token: Option<String>,
    extras: Extras,
}

/// What a program adds to the answers.
#[derive(Clone, Default)]
pub(crate) struct Extras {
    pub(crate) metrics: Option<Added>,
    pub(crate) health: Option<Health>,
}

/// Whether a program is well, and otherwise why not.
pub(crate) type Health =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync>;

impl std::fmt::Debug for Builder {
    /// Without the token, which is not for logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

impl Builder {
    /// No token.
    pub fn new() -> Self {
        Self::default()
    }

    /// What requests have to carry, as `Authorization: Bearer TOKEN`: 8 to 256 visible ASCII
    /// characters. `GET /healthz` and the page itself, which asks for the token, need none.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Adds the families of a program to those of the runtime, whenever metrics are asked for.
    ///
    /// `write` is called on a worker, and is not to take long or to block. Each family is to be
    /// added once, and its name is to begin with the program's.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use evenkeel_admin::metrics::{Family, Kind, Value};
    ///
    /// static DONE: AtomicU64 = AtomicU64::new(0);
    /// const JOBS: Family = Family {
    ///     name: "app_jobs",
    ///     help: "Jobs that were done",
    ///     kind: Kind::Counter,
    ///     unit: None,
    ///     labels: &[],
    /// };
    /// let builder = evenkeel_admin::Builder::new().metrics(|families| {
    ///     families.add(&JOBS, |row| row(&[], Value::Count(DONE.load(Ordering::Relaxed))));
    /// });
    /// ```
    pub fn metrics(mut self, write: impl Fn(&mut Families<'_>) + Send + Sync + 'static) -> Self {
        self.extras.metrics = Some(Arc::new(write));
        self
    }

    /// What `GET /healthz` answers: `ok`, or with status 503 why the program is not well.
    ///
    /// No token is asked for there, so the reason is one that everybody may learn who can connect.
    /// It has to be known within [`REQUEST_TIMEOUT`].
    pub fn health<F>(mut self, health: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.extras.health = Some(Arc::new(move || Box::pin(health())));
        self
    }

    /// Whether [`listen`](Self::listen) could use this address and the token, without listening.
    ///
    /// # Errors
    ///
    /// As [`listen`](Self::listen), except for what the system says.
    ///
    /// # Examples
    ///
    /// ```
    /// let admin = evenkeel_admin::Builder::new();
    /// assert!(admin.check("127.0.0.1:7000").is_ok());
    /// assert!(admin.check("0.0.0.0:7000").is_err()); // needs a token
    /// assert!(admin.check("port 7000").is_err());
    /// ```
    pub fn check(&self, address: &str) -> Result<(), AdminError> {
        self.checked(address).map(|_| ())
    }

    fn checked(&self, address: &str) -> Result<(Address, Access), AdminError> {
        let address = Address::parse(address)?;
        if !address.is_local() && self.token.is_none() {
            return Err(AdminError::NeedsToken(address.to_string()));
        }
        let is_tcp = matches!(address, Address::Tcp(_));
        let access = Access::new(self.token.clone(), is_tcp)?;
        Ok((address, access))
    }

    /// Serves the runtime of the calling task. As [`listen`].
    ///
    /// # Errors
    ///
    /// As [`listen`]; and the token is none.
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub async fn listen(self, address: &str) -> Result<Admin, AdminError> {
        let (address, access) = self.checked(address)?;
        let (address, bound) = address.bind().await?;
        Ok(match bound {
            Bound::Tcp(listener) => Admin::start(listener, address, access, self.extras),
            Bound::Unix(listener) => Admin::start(listener, address, access, self.extras),
        })
    }
}

/// A server. Dropped, it goes on until the runtime ends.
#[derive(Debug)]
pub struct Admin {
    address: Address,
    stop: oneshot::Sender<()>,
    serves: JoinHandle<Served>,
}

impl Admin {
    fn start<L: Listener<Io: Prompt>>(
        listener: L,
        address: Address,
        access: Access,
        extras: Extras,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let runtime = Handle::current();
        let router = routes::router(runtime.clone(), access, extras);
        let timeout = REQUEST_TIMEOUT;
        let serve = evenkeel::serve(TimedListener { listener, timeout }, router)
            .max_connections(CONNECTIONS_MAX)
            .header_read_timeout(Some(timeout))
            .drain_limit(timeout)
            .with_graceful_shutdown(async {
                if stopped.await.is_err() {
                    // The handle was dropped, and the server goes on.
                    std::future::pending().await
                }
            });
        let serves = runtime.spawn_in(Class::URGENT, async { serve.await });
        Self {
            address,
            stop,
            serves,
        }
    }

    /// Where it listens, as it was given, with the port that was chosen.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Ends the server: answers under way are finished, for at most [`REQUEST_TIMEOUT`]. The file
    /// of a Unix socket is removed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server ends all the same, and the file stays.
    pub async fn shutdown(self) {
        // Both fail only if the server has ended already, as the runtime ends.
        _ = self.stop.send(());
        _ = self.serves.await;
        if let Address::Unix(path) = self.address {
            // It may have been removed by whoever tidies up.
            _ = evenkeel::fs::remove_file(path).await;
        }
    }
}
