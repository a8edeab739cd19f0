//! Certificates that listeners get by themselves, from an authority that speaks ACME (RFC 8555).
//!
//! ```text
//!  due? ──▶ account ──▶ order ──▶ challenges, which any listener answers ──▶ certificate
//!   ▲ └ two thirds of the last one's lifetime; or it is missing, or has       │
//!   │   other names                                                           │
//!   └───────── a file, and the listener has it from its next handshake on ◀───┘
//! ```
//!
//! What fails changes nothing, is told once, and is tried again later and later. One order is made
//! at a time, as listeners may share an account. The state is in files, so that a process that
//! takes over, or one that is started anew, goes on with it.
//!
//! - `due`: when a certificate is to be renewed, and when what has failed is tried again.
//! - `challenges`: what is answered to the authority.
//! - `order`: how a certificate is had.
//! - `client`: requests to the authority.
//! - `store`: the files.

mod challenges;
mod client;
mod due;
mod order;
mod store;

pub use challenges::{Challenge, Challenges};
pub use client::is_allowed;
pub use order::AcmeError;
pub use store::{StoreError, certificate_path};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel::Class;
use evenkeel::task::AbortHandle;
use evenkeel::time::{sleep, timeout};
use jiff::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::watch::Receiver;
use tracing::{Instrument, error_span, info, warn};

use crate::tls::{self, ClientSide, Live};

/// How long an order may take.
const ORDER_MAX: Duration = Duration::from_secs(600);

/// How long is slept at most: a clock that is set is noticed then.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);

/// What certificate is wanted, from whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The URL of the authority's directory.
    pub directory: String,
    /// Whom it may ask.
    pub contacts: Vec<String>,
    /// The names of the certificate.
    pub names: Vec<String>,
    /// How the authority sees whose they are.
    pub challenge: Challenge,
    /// Where the state is.
    pub state: PathBuf,
    /// How the authority shows who it is; without TLS it is on this machine.
    pub trust: ClientSide,
}

/// The certificates of all listeners.
#[derive(Debug, Default)]
pub struct Acme {
    keepers: Mutex<BTreeMap<String, Keeper>>,
    /// Held while one is ordered.
    ordering: Arc<tokio::sync::Mutex<()>>,
}

/// Who keeps the certificate of a listener.
#[derive(Debug)]
struct Keeper {
    wanted: Wanted,
    live: Arc<Live>,
    task: AbortHandle,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Acme {
    /// Keeps the certificates of these listeners from now on, and of no others. One of which
    /// nothing has changed is left alone.
    pub fn follow(
        &self,
        listeners: impl Iterator<Item = (String, Wanted, Arc<Live>)>,
        challenges: &Arc<Challenges>,
        leaving: &Receiver<bool>,
    ) {
        let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *keepers);
        for (name, wanted, live) in listeners {
            let known = before
                .remove(&name)
                .filter(|known| known.wanted == wanted && Arc::ptr_eq(&known.live, &live));
            let keeper = known.unwrap_or_else(|| {
                let keeping = Keeping {
                    wanted: wanted.clone(),
                    live: Arc::clone(&live),
                    challenges: Arc::clone(challenges),
                    ordering: Arc::clone(&self.ordering),
                };
                let task = keeping.run(leaving.clone());
                let task = task.instrument(error_span!("listener", listener = name));
                let task = evenkeel::spawn_in(Class::NORMAL, task).abort_handle();
                Keeper { wanted, live, task }
            });
            keepers.insert(name, keeper);
        }
    }
}

/// What a keeper needs.
struct Keeping {
    wanted: Wanted,
    live: Arc<Live>,
    challenges: Arc<Challenges>,
    ordering: Arc<tokio::sync::Mutex<()>>,
}

impl Keeping {
    /// Keeps the certificate until another process has taken over, or this one ends.
    async fn run(self, mut leaving: Receiver<bool>) {
        tokio::select! {
            _ = leaving.wait_for(|leaving| *leaving) => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&self) {
        let names = self.wanted.names.join(", ");
        let mut failures = 0;
        let mut told = None;
        let mut is_of_another = self.is_of_another().await;
        loop {
            self.rest(failures, is_of_another).await;
            let _ordering = self.ordering.lock().await;
            let ordered = order::order(&self.wanted, self.live.path(), &self.challenges);
            let ordered = timeout(ORDER_MAX, ordered).await;
            match ordered.unwrap_or(Err(AcmeError::Slow(ORDER_MAX))) {
                Ok(certificate) => {
                    let what = tls::described(&certificate);
                    let due = due::due(&certificate, &self.wanted.names, 0.0);
                    self.live.set(certificate);
                    info!("a certificate was issued: {what}");
                    (failures, told) = (0, None);
                    is_of_another = false;
                    // Otherwise one would be ordered after the other.
                    if due.is_none_or(|due| due <= Timestamp::now()) {
                        failures = 1;
                        let again = due::backoff(failures, 0.0);
                        warn!(
                            names,
                            "what was issued for {names} is to be renewed already: it lacks a \
                             name, or this machine's clock is wrong; another one is ordered in \
                             {again:?}"
                        );
                    }
                }
                Err(why) => {
                    failures += 1;
                    let why = why.to_string();
                    // The same again is no news.
                    if told.as_ref() != Some(&why) {
                        let again = due::backoff(failures, 0.0);
                        warn!(
                            names,
                            "no certificate could be had for {names}: {why}; what there is stays, \
                             and it is tried again in {again:?} and later"
                        );
                        told = Some(why);
                    }
                }
            }
        }
    }

    /// Whether the one that is there is of another authority, such as one for trials.
    async fn is_of_another(&self) -> bool {
        let path = self.live.path().to_owned();
        let known = evenkeel::spawn_blocking(move || store::authority(&path)).await;
        let known = known.ok().flatten();
        known.is_some_and(|known| known != self.wanted.directory)
    }

    /// Waits until a certificate is to be ordered.
    async fn rest(&self, failures: u32, is_of_another: bool) {
        let jitter = jitter();
        if failures > 0 {
            return sleep(due::backoff(failures, jitter)).await;
        }
        loop {
            let certificate = self.live.own().filter(|_| !is_of_another);
            let due = certificate.and_then(|own| due::due(&own, &self.wanted.names, jitter));
            let now = Timestamp::now();
            let Some(due) = due.filter(|due| *due > now) else {
                return;
            };
            let left = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            sleep(left.min(SLEEP_MAX)).await;
        }
    }
}

/// From 0 to 1, so that not all proxies ask at the same moment.
fn jitter() -> f64 {
    let mut bytes = [0; 2];
    // Without random bytes there is no jitter.
    let _ = SystemRandom::new().fill(&mut bytes);
    f64::from(u16::from_ne_bytes(bytes)) / f64::from(u16::MAX)
}
