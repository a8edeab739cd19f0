//! The connection of a session, which is made again when it has ended.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use evenkeel::time::{sleep, timeout};
use tokio::sync::{Mutex, watch};

use super::backoff::Backoff;
use super::outcome::AppendError;
use super::portion::record_bytes_max;
use crate::client::{Client, Health};
use crate::connect::Connect;
use crate::error::ClientError;

/// The time between two questions whether a trouble has passed.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// In which time a log would have to take a record that is well again.
const WRITABLE_WITHIN: Duration = Duration::from_secs(1);

/// In which time that has to be answered.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Servers, and the connection to one of them.
pub(super) struct Link {
    connect: Connect,
    servers: Vec<String>,
    /// Held while connecting, so that one task does it for all.
    state: Mutex<State>,
    /// Whether an answer has come since the last attempt to connect. Set by who got one, cleared by
    /// who connects.
    works: AtomicBool,
    /// The largest record that the last server takes, 0 if none has said so yet.
    record_bytes_max: AtomicUsize,
    /// Why there is no connection, or why it is of no use.
    trouble: watch::Sender<Option<ClientError>>,
}

#[derive(Default)]
struct State {
    client: Option<Client>,
    /// Which server is to be tried next.
    at: usize,
    backoff: Backoff,
    not_before: Option<Instant>,
}

impl Link {
    pub(super) fn new(connect: Connect, servers: Vec<String>) -> Result<Self, ClientError> {
        if servers.is_empty() {
            let what = "a session needs a server's address, as 127.0.0.1:7010".into();
            return Err(ClientError::Unusable { what });
        }
        Ok(Self {
            connect,
            servers,
            state: Mutex::default(),
            works: AtomicBool::new(false),
            record_bytes_max: AtomicUsize::new(0),
            trouble: watch::Sender::new(None),
        })
    }

    /// Another link with the same servers, without a connection yet.
    pub(super) fn another(&self) -> Self {
        Self {
            connect: self.connect.clone(),
            servers: self.servers.clone(),
            state: Mutex::default(),
            works: AtomicBool::new(false),
            record_bytes_max: AtomicUsize::new(0),
            trouble: watch::Sender::new(None),
        }
    }

    /// Takes this connection for the first one.
    pub(super) fn begin_with(&mut self, client: Client) {
        self.state.get_mut().client = Some(client);
    }

    pub(super) fn trouble(&self) -> watch::Receiver<Option<ClientError>> {
        self.trouble.subscribe()
    }

    /// The server refuses what may pass.
    pub(super) fn is_refused(&self, why: &ClientError) {
        self.trouble.send_if_modified(|trouble| {
            let is_new = trouble.is_none();
            trouble.get_or_insert_with(|| why.clone());
            is_new
        });
    }

    /// There is a connection. A log that was away may still be: that is over when it has taken
    /// something.
    fn is_connected(&self) {
        self.trouble.send_if_modified(|trouble| {
            let is_over = !matches!(trouble, None | Some(ClientError::LogAway { .. }));
            trouble.take_if(|_| is_over).is_some()
        });
    }

    /// Whether there is trouble that may pass by itself.
    fn is_troubled(&self) -> bool {
        self.trouble.borrow().as_ref().is_some_and(may_pass)
    }

    /// Waits for trouble, and then asks from time to time whether it has passed, for as long as
    /// nobody has anything to send that would show it. Returns when it has.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn healed(&self) {
        let mut trouble = self.trouble.subscribe();
        // The sender is in `self`, so this cannot fail.
        let _ = trouble
            .wait_for(|it| it.as_ref().is_some_and(may_pass))
            .await;
        while self.is_troubled() {
            sleep(ASKED_AGAIN_AFTER).await;
            // By this all trouble has passed but that of a log.
            let Ok(client) = self.client().await else {
                continue;
            };
            if self.is_troubled() {
                let health = timeout(ANSWERED_WITHIN, client.health(WRITABLE_WITHIN)).await;
                if matches!(health, Ok(Ok(Health { writable: true, .. }))) {
                    self.is_well();
                }
            }
        }
    }

    /// There is no trouble any more.
    pub(super) fn is_well(&self) {
        self.trouble
            .send_if_modified(|trouble| trouble.take().is_some());
    }

    /// The connection; if it has ended, after a pause, the result of one attempt at each server.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the attempt is given up.
    pub(super) async fn client(&self) -> Result<Client, ClientError> {
        let mut state = self.state.lock().await;
        if let Some(client) = &state.client
            && client.end().is_none()
        {
            return Ok(client.clone());
        }
        state.client = None;
        // Relaxed: it orders nothing, and a late reset only makes one pause longer.
        if self.works.swap(false, Ordering::Relaxed) {
            state.backoff.reset();
            state.not_before = None;
        }
        if let Some(at) = state.not_before {
            sleep(at.saturating_duration_since(Instant::now())).await;
        }
        // Also a server that takes a connection and then closes it is not asked without a pause.
        let pause = state.backoff.next();
        state.not_before = Some(Instant::now() + pause);
        let mut last = ClientError::Closed;
        for _ in 0..self.servers.len() {
            let server = self.servers[state.at].as_str();
            match self.connect.connect(server).await {
                Ok(client) => {
                    state.client = Some(client.clone());
                    let record_bytes_max = record_bytes_max(&client.info());
                    // Relaxed: the limit alone, which guards nothing.
                    self.record_bytes_max
                        .store(record_bytes_max, Ordering::Relaxed);
                    self.is_connected();
                    return Ok(client);
                }
                Err(error) => last = error,
            }
            state.at = (state.at + 1) % self.servers.len();
        }
        state.not_before = Some(Instant::now() + pause);
        self.trouble.send_replace(Some(last.clone()));
        Err(last)
    }

    /// Refuses a record that is larger than the last server takes.
    pub(super) fn check_record(&self, record: &Bytes) -> Result<(), AppendError> {
        // Relaxed: as where it is stored. Who connects later checks again.
        let bytes_max = self.record_bytes_max.load(Ordering::Relaxed);
        let bytes = record.len();
        if bytes <= bytes_max || bytes_max == 0 {
            return Ok(());
        }
        let why = ClientError::RecordTooLarge { bytes, bytes_max };
        Err(AppendError::NotStored { why })
    }

    /// An answer has come, so that the next time there is no pause before connecting.
    pub(super) fn works(&self) {
        // Relaxed: as above.
        self.works.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("connect", &self.connect)
            .field("servers", &self.servers)
            .field("trouble", &*self.trouble.borrow())
            .finish_non_exhaustive()
    }
}

/// Whether another attempt may have another result.
pub(super) fn may_pass(error: &ClientError) -> bool {
    use crate::frame::Code;
    match error {
        ClientError::Connect { .. } | ClientError::Disconnected { .. } => true,
        // Also what does not answer in time, or is cut in its welcome.
        ClientError::NotTxlog { .. } => true,
        ClientError::LogAway { .. } => true,
        // As many logs are open as may be. A request is refused so only for cursors, which stay.
        ClientError::Fault {
            code: Code::TooMany,
            ..
        } => true,
        ClientError::Refused { code, .. } | ClientError::Fault { code, .. } => matches!(
            code,
            Code::TooManyConnections
                | Code::TooSlow
                | Code::Closing
                | Code::LogFailed
                | Code::LogFailedBefore
                | Code::TooManyReads
                | Code::Busy
        ),
        _ => false,
    }
}
