//! Streams whose names begin alike, as the logs with names of a server.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use txlog_client::Identity;
use txlog_client::frame::{Code, LogBounds};

use super::config::NatsConfig;
use super::connection::Connection;
use super::error::NatsError;
use super::history;
use super::store::{NatsStore, is_stream_name};
use super::stream::{self, Listed};
use crate::log::LogConfig;
use crate::named;
use crate::server::{Boxed, LogSource, Page};
use crate::store::StoreError;

/// Each stream may have this part of the memory for pending records, so that one which does not
/// acknowledge leaves some to the others.
const STREAM_PART: usize = 4;

/// The logs of a server, each a stream whose name is a prefix and the log's name.
///
/// Names of streams have no dots, so neither have those of these logs.
#[derive(Debug)]
pub struct NatsStreams {
    prefix: String,
    config: NatsConfig,
    logs_max: usize,
    settings: named::SettingsFile,
    /// Held while a stream is created, so that no more are created than may be.
    creating: tokio::sync::Mutex<()>,
}

impl NatsStreams {
    /// Streams whose names begin with this, on the server of `config`; its `stream` is not used.
    /// At most `logs_max` may be there when another one is created.
    ///
    /// # Errors
    ///
    /// The prefix or the settings cannot be used: what to do about it.
    pub async fn open(
        prefix: String,
        config: NatsConfig,
        logs_max: usize,
        settings: Option<PathBuf>,
    ) -> Result<Self, String> {
        if !is_stream_name(&prefix) {
            return Err(format!(
                "{prefix:?} cannot begin the names of streams: use letters, digits, - and _"
            ));
        }
        let settings = named::SettingsFile::read(settings, config.record_bytes_max).await?;
        Ok(Self {
            prefix,
            config,
            logs_max,
            settings,
            creating: tokio::sync::Mutex::default(),
        })
    }

    async fn open_log(&self, name: &str, create: bool) -> Result<NatsStore, StoreError> {
        if !is_stream_name(name) {
            let text = format!(
                "{name:?} is no name for a log in NATS, where names have letters, digits, - and _"
            );
            return Err(StoreError::new(Code::NoSuchLog, text));
        }
        let config = self.config_of(name).await;
        match NatsStore::find(config.clone()).await? {
            Some(store) => Ok(store),
            None if create => {
                let _alone = self.creating.lock().await;
                let count = self.streams().await?.len();
                if count >= self.logs_max {
                    let text = format!(
                        "there are {count} streams of logs, as many as may be created: remove one \
                         that nobody needs, or allow more by --logs-max"
                    );
                    return Err(StoreError::new(Code::TooMany, text));
                }
                NatsStore::connect(config).await
            }
            None => {
                let text = format!(
                    "this server has no log {name:?}, as NATS has no stream {}: see `txlog logs` \
                     for those that it has, or create it by --create, which needs a server that \
                     was started with --create-logs",
                    config.stream
                );
                Err(StoreError::new(Code::NoSuchLog, text))
            }
        }
    }

    async fn config_of(&self, name: &str) -> NatsConfig {
        self.config_by(name, self.settings.of(name).await)
    }

    fn config_by(&self, name: &str, settings: named::LogSettings) -> NatsConfig {
        let of_server = LogConfig {
            record_bytes_max: self.config.record_bytes_max,
            retention: self.config.retention,
            ..LogConfig::default()
        };
        let LogConfig {
            record_bytes_max,
            retention,
            ..
        } = settings.applied(&of_server);
        NatsConfig {
            stream: format!("{}{name}", self.prefix),
            record_bytes_max,
            retention,
            pending_bytes_max: self.config.pending_bytes_max / STREAM_PART,
            ..self.config.clone()
        }
    }

    /// What of an open log would be otherwise now. Nothing of it can change: the stream has these
    /// limits, too, and one with other limits is refused.
    fn put_off(&self, name: &str, store: &NatsStore) -> Vec<String> {
        let is = |settings| self.config_by(name, settings);
        let (was, is) = (store.config(), self.settings.by_known(name, is));
        let mut put_off: Vec<String> = named::changes(was.retention, is.retention)
            .map(|change| {
                let of_stream = "the stream has to have that limit by then, see `nats stream edit`";
                format!("{}; {of_stream}", change.put_off())
            })
            .collect();
        if was.record_bytes_max != is.record_bytes_max {
            let change = named::Change {
                setting: "record_bytes_max",
                was: was.record_bytes_max as u64,
                is: is.record_bytes_max as u64,
            };
            put_off.push(change.put_off());
        }
        put_off
    }

    /// All streams whose names begin so, in order.
    async fn streams(&self) -> Result<Vec<Listed>, NatsError> {
        // Only appends go to the appends of a connection, and this one makes none.
        let connection = Connection::open(&self.config, 0, &Arc::new(OnceLock::new())).await?;
        let mut streams = stream::list(&connection).await?;
        streams.retain(|stream| stream.name.starts_with(&self.prefix));
        streams.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(streams)
    }

    async fn page(&self, after: &str, count: usize) -> Result<Page, StoreError> {
        let streams = self.streams().await?;
        let named = streams.into_iter().filter_map(|stream| {
            let name = stream.name[self.prefix.len()..].to_owned();
            (!name.is_empty() && name.as_str() > after).then_some((name, stream))
        });
        let mut named = named.peekable();
        let mut logs = Vec::new();
        for (name, stream) in named.by_ref().take(count) {
            let (first, next) = stream.info.bounds();
            let of = Identity {
                log: history::log_of(&stream.name),
                epoch: stream.info.epoch(),
            };
            logs.push((name, Some(LogBounds { first, next, of })));
        }
        let more = named.peek().is_some();
        Ok(Page { logs, more })
    }
}

impl LogSource<NatsStore> for NatsStreams {
    fn open<'a>(&'a self, name: &'a str, create: bool) -> Boxed<'a, Result<NatsStore, StoreError>> {
        Box::pin(self.open_log(name, create))
    }

    fn list<'a>(&'a self, after: &'a str, count: usize) -> Boxed<'a, Result<Page, StoreError>> {
        Box::pin(self.page(after, count))
    }

    fn read_again(&self) -> Boxed<'_, Result<bool, String>> {
        Box::pin(self.settings.read_again())
    }

    fn adjust(&self, name: &str, store: &NatsStore) -> Vec<String> {
        self.put_off(name, store)
    }

    fn record_bytes_max(&self) -> usize {
        self.config.record_bytes_max
    }
}
