//! Tells one program: a signed request for each event, one after the other, in their order.
//!
//! The body is the event, in JSON. `x-evenkeel-signature` is `sha256=` and the HMAC-SHA256 of the
//! time in `x-evenkeel-time`, a dot and the body, by the secret: who receives it can tell that it
//! is from here, and by the time that nobody sends it once more. `x-evenkeel-event` numbers events;
//! one whose answer was lost comes again with the same number.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::http::{Request, Uri};
use evenkeel::net::TcpStream;
use evenkeel::time::{sleep, timeout};
use hmac::{Hmac, KeyInit, Mac};
use hyper::client::conn::http1;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use sha2::Sha256;
use tokio::sync::Notify;

use super::queue::Queue;
use super::{Event, Kind};
use crate::tls::{self, NoAuthorities, Stream};

/// How long a request may take, with its connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// A webhook as the operator wrote it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where events are sent: `http://` or `https://`.
    pub url: String,
    /// The key of signatures.
    pub secret: String,
    /// What is told; everything, if nothing is given.
    #[serde(default)]
    pub events: Vec<Kind>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither the secret nor the address, which may bear one.
        f.debug_struct("Settings")
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

/// What is wrong with the settings of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// The address is none.
    #[error("the url of a webhook is http://HOST/PATH or https://HOST/PATH")]
    Url,
    /// Anybody could sign.
    #[error("the secret of a webhook has 16 bytes or more, which nobody can guess")]
    Secret,
    /// Certificates of others cannot be checked.
    #[error("a webhook by https: {0}")]
    Authorities(#[from] NoAuthorities),
}

/// Why an event was not told.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the connection: {0}")]
    Connection(#[from] std::io::Error),
    #[error("the request: {0}")]
    Request(#[from] hyper::Error),
    #[error("the answer is {0}")]
    Answer(u16),
    #[error("there was no answer within {PATIENCE:?}")]
    Late,
}

/// A webhook.
pub struct Hook {
    settings: Settings,
    host: String,
    port: u16,
    path: String,
    tls: Option<Arc<ClientConfig>>,
    queue: Mutex<Queue>,
    more: Notify,
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl Hook {
    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`WebhookError`].
    pub fn new(settings: &Settings) -> Result<Self, WebhookError> {
        let url: Uri = settings.url.parse().map_err(|_| WebhookError::Url)?;
        let host = url.host().ok_or(WebhookError::Url)?.to_owned();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let (tls, port) = match url.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => {
                ServerName::try_from(bare).map_err(|_| WebhookError::Url)?;
                (Some(tls::trusting(None)?), 443)
            }
            _ => return Err(WebhookError::Url),
        };
        if settings.secret.len() < 16 {
            return Err(WebhookError::Secret);
        }
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            settings: settings.clone(),
            port: url.port_u16().unwrap_or(port),
            path: path.to_owned(),
            host,
            tls,
            queue: Mutex::default(),
            more: Notify::new(),
        })
    }

    /// Has an event told, if this webhook is for it.
    pub fn add(&self, event: &Event) {
        let wanted = &self.settings.events;
        if wanted.is_empty() || wanted.contains(&event.event) {
            self.queue().add(event.clone());
            self.more.notify_one();
        }
    }

    /// Its host, for reports.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// What waits, and what was counted: told, failed, dropped.
    pub fn counts(&self) -> (usize, u64, u64, u64) {
        let queue = self.queue();
        (queue.len(), queue.told, queue.failed, queue.dropped)
    }

    /// Tells, for as long as the task is there.
    pub(super) async fn run(self: Arc<Self>) {
        let mut has_failed = false;
        loop {
            let first = self.queue().first();
            let Some((number, event)) = first else {
                self.more.notified().await;
                continue;
            };
            let told = timeout(PATIENCE, self.tell(number, &event)).await;
            let told = told.unwrap_or(Err(Failure::Late));
            if let Err(failure) = &told
                && !has_failed
            {
                // Once, and not for each attempt.
                eprintln!(
                    "evenkeel-cameras: webhook at {}: {failure}; trying again",
                    self.host
                );
            }
            has_failed = told.is_err();
            let pause = self.queue().attempted(number, told.is_ok());
            sleep(pause).await;
        }
    }

    async fn tell(&self, number: u64, event: &Event) -> Result<(), Failure> {
        // Numbers and texts, which can be written.
        let body = serde_json::to_string(event).unwrap_or_default();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since.map_or(0, |since| since.as_secs());
        let request = Request::post(&self.path)
            .header("host", format!("{}:{}", self.host, self.port))
            .header("content-type", "application/json")
            .header("content-length", body.len())
            .header("x-evenkeel-event", number)
            .header("x-evenkeel-time", seconds)
            .header(
                "x-evenkeel-signature",
                sign(&self.settings.secret, seconds, &body),
            )
            .body(Body::from(body))
            .map_err(std::io::Error::other)?;
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        let socket = TcpStream::connect((bare, self.port)).await?;
        let stream = match &self.tls {
            None => Stream::plain(socket),
            Some(config) => tls::connect(Arc::clone(config), bare, socket).await?,
        };
        let (mut sender, connection) = http1::handshake(stream).await?;
        let answer = async move { sender.send_request(request).await };
        tokio::pin!(answer);
        tokio::select! {
            answer = &mut answer => status(answer?.status().as_u16()),
            ended = connection => {
                ended?;
                status(answer.await?.status().as_u16())
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A list and numbers, which no panic leaves half-changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn status(status: u16) -> Result<(), Failure> {
    match status {
        200..300 => Ok(()),
        other => Err(Failure::Answer(other)),
    }
}

/// The signature of a body that is sent at this time.
pub fn sign(secret: &str, seconds: u64, body: &str) -> String {
    // Keys of all lengths are taken.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    mac.update(format!("{seconds}.{body}").as_bytes());
    let digest = mac.finalize().into_bytes();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_other_programs() {
        // printf '7.{"a":1}' | openssl dgst -sha256 -hmac 0123456789abcdef
        let known = "sha256=b1d16cd10c3b6a2b52dd83d2eaea1b966721b127ae82046bad8f92a9e213a639";
        assert_eq!(sign("0123456789abcdef", 7, "{\"a\":1}"), known);
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let of = |url: &str, secret: &str| {
            let settings = Settings {
                url: url.to_owned(),
                secret: secret.to_owned(),
                events: Vec::new(),
            };
            Hook::new(&settings).map(|hook| (hook.host.clone(), hook.port, hook.path.clone()))
        };
        let secret = "0123456789abcdef";
        let good = of("http://[::1]:8/a?b", secret).unwrap();
        assert_eq!(good, ("[::1]".to_owned(), 8, "/a?b".to_owned()));
        for url in ["", "x", "/a", "ftp://a/", "http://"] {
            assert_eq!(of(url, secret).unwrap_err(), WebhookError::Url, "{url}");
        }
        assert_eq!(of("http://a", "short").unwrap_err(), WebhookError::Secret);
    }
}
