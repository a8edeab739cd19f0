//! Directories of logs within one directory.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use evenkeel::fs;
use tokio::sync::Semaphore;
use txlog_client::frame::{Code, LogBounds, is_name};

use super::{Change, SettingsFile, changes};
use crate::advice;
use crate::log::record::PAYLOAD_BYTES_MAX;
use crate::log::{FILES_OF_LOG, Limits, LocalDisk, Log, LogConfig, peek};
use crate::server::{Boxed, LogSource, Page};
use crate::store::{Identity, StoreError};

/// How many bytes of records one sync of a log makes durable: less than where a server has one log,
/// as there may be many of them.
const BATCH_BYTES: usize = 256 * 1024;

/// How much of its buffer a log keeps between batches, so that many idle ones keep little.
const BUFFER_BYTES: usize = 64 * 1024;

/// How many producers a log knows: 3 KiB each.
const PRODUCERS_MAX: usize = 128;

/// How many files of earlier segments a log may have open.
const READ_FILES_MAX: usize = 4;

/// The most descriptors that a log has.
pub const FILES_OF_NAMED_LOG: usize = FILES_OF_LOG + READ_FILES_MAX;

/// How many bytes of records a log's queue holds.
const QUEUE_BYTES: usize = 2 << 20;

/// How many pages of the list of logs are made at a time, for all connections: each has a
/// descriptor, which nobody has set aside for it.
const LISTS_MAX: usize = 4;

/// The name of the file of settings, if none is given.
const SETTINGS_NAME: &str = "txlog.toml";

/// Logs in a directory, each in a directory of its name.
///
/// Any directory in it that has the name of a log is one, also an empty one. What single logs keep
/// is said by a file of [`Settings`](super::Settings), which is read again whenever a log is
/// opened, and when the server is to read its files again.
#[derive(Debug)]
pub struct Directories {
    directory: PathBuf,
    config: LogConfig,
    logs_max: usize,
    settings: SettingsFile,
    /// Held while a log is created, so that no more are created than may be.
    creating: tokio::sync::Mutex<()>,
    /// Turns of those who list logs.
    listing: Semaphore,
}

impl Directories {
    /// Logs in this directory, which is created if necessary. They are configured so; at most
    /// `logs_max` may be there when another one is created. `settings` is the file of settings, by
    /// default `txlog.toml` in the directory, if there is one.
    ///
    /// # Errors
    ///
    /// The directory or the settings cannot be used: what to do about it.
    pub async fn open(
        directory: impl Into<PathBuf>,
        config: LogConfig,
        logs_max: usize,
        settings: Option<PathBuf>,
    ) -> Result<Self, String> {
        let directory = directory.into();
        let made = LocalDisk::make(&directory).await;
        let cannot = |error| {
            let shown = directory.display();
            format!("cannot use {shown}: {}", advice::of_files(&error))
        };
        made.map_err(cannot)?;
        let bytes_max = config.record_bytes_max;
        let settings = match settings {
            Some(path) => SettingsFile::read(Some(path), bytes_max).await?,
            None => SettingsFile::read_if_there(directory.join(SETTINGS_NAME), bytes_max).await?,
        };
        Ok(Self {
            config: LogConfig {
                batch_bytes: config.batch_bytes.min(BATCH_BYTES),
                buffer_bytes: config.buffer_bytes.min(BUFFER_BYTES),
                producers_max: config.producers_max.min(PRODUCERS_MAX),
                queue_bytes: config.queue_bytes.min(QUEUE_BYTES),
                read_files_max: config.read_files_max.min(READ_FILES_MAX),
                ..config
            },
            directory,
            logs_max,
            settings,
            creating: tokio::sync::Mutex::default(),
            listing: Semaphore::new(LISTS_MAX),
        })
    }

    async fn open_log(&self, name: &str, create: bool) -> Result<Log<LocalDisk>, StoreError> {
        let path = self.directory.join(name);
        // Clients are told names and no paths.
        let cannot = |error: io::Error| {
            let text = format!("cannot use the log {name}: {}", advice::of_files(&error));
            StoreError::new(Code::LogFailed, text)
        };
        let disk = match LocalDisk::hold_existing(&path).await {
            Err(error) if error.kind() == ErrorKind::NotFound && create => {
                self.create(name, &path).await?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let text = format!(
                    "this server has no log {name:?}: see `txlog logs` for those that it has, or \
                     create it by --create, which needs a server that was started with \
                     --create-logs"
                );
                return Err(StoreError::new(Code::NoSuchLog, text));
            }
            held => held.map_err(cannot)?,
        };
        let config = self.settings.of(name).await.applied(&self.config);
        let opened = Log::open(disk, config).await.map_err(|error| {
            let why = StoreError::from(error).text;
            StoreError::new(Code::LogFailed, format!("the log {name}: {why}"))
        })?;
        let (log, recovery) = opened;
        if let Some(torn) = &recovery.torn {
            eprintln!(
                "txlog: the log {name}: {torn}; cut off, as the rest of a write that a crash \
                 interrupted"
            );
        }
        Ok(log)
    }

    /// Has an open log go by its settings as far as that is possible, and says what of it changes,
    /// and what cannot.
    fn adjust_log(&self, name: &str, log: &Log<LocalDisk>) -> Vec<String> {
        self.settings.by_known(name, |settings| {
            adjusted(log, &settings.applied(&self.config))
        })
    }

    async fn create(&self, name: &str, path: &Path) -> Result<LocalDisk, StoreError> {
        let failed = |error: io::Error| {
            let text = format!("cannot create the log {name}: {}", advice::of_files(&error));
            StoreError::new(Code::LogFailed, text)
        };
        let _alone = self.creating.lock().await;
        let count = self.names().await.map_err(failed)?.len();
        if count >= self.logs_max {
            let text = format!(
                "there are {count} logs, as many as may be created: remove the directory of one \
                 that nobody needs, or allow more by --logs-max"
            );
            return Err(StoreError::new(Code::TooMany, text));
        }
        LocalDisk::hold(path).await.map_err(failed)
    }

    /// The names of all logs, in order.
    async fn names(&self) -> io::Result<Vec<String>> {
        let mut entries = fs::read_dir(&self.directory).await?;
        let mut names = Vec::new();
        while let Some(entry) = entries.next_entry().await? {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // A link to a directory is one as well.
            if is_name(&name) && fs::metadata(entry.path()).await.is_ok_and(|m| m.is_dir()) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    async fn page(&self, after: &str, count: usize) -> Result<Page, StoreError> {
        // It is never closed.
        let _turn = self.listing.acquire().await;
        let names = self.names().await.map_err(|error| {
            let text = format!("cannot list the logs: {}", advice::of_files(&error));
            StoreError::new(Code::LogFailed, text)
        })?;
        let mut behind = names.into_iter().filter(|name| name.as_str() > after);
        let mut logs = Vec::new();
        for name in behind.by_ref().take(count) {
            // One that cannot be read is listed all the same, and says why when it is opened.
            let bounds = self.bounds(&name).await;
            logs.push((name, bounds));
        }
        let more = behind.next().is_some();
        Ok(Page { logs, more })
    }

    /// What the files of a log say that nobody has open.
    async fn bounds(&self, name: &str) -> Option<LogBounds> {
        let peeked = peek(&self.directory.join(name)).await;
        let (first, next, Identity { log, epoch }) = peeked.ok()??;
        let of = txlog_client::Identity { log, epoch };
        Some(LogBounds { first, next, of })
    }
}

/// Has a log go by this as far as that is possible while it is open.
fn adjusted(log: &Log<LocalDisk>, config: &LogConfig) -> Vec<String> {
    let (was, is) = (
        log.limits(),
        Limits {
            segment_bytes: config.segment_bytes,
            retention: config.retention,
        },
    );
    log.set_limits(is);
    let mut said: Vec<String> = changes(was.retention, is.retention)
        .map(Change::done)
        .collect();
    let change = |setting, was, is| (was != is).then_some(Change { setting, was, is });
    let of_segments = change("segment_bytes", was.segment_bytes, is.segment_bytes);
    said.extend(of_segments.map(Change::done));
    // Memory was set aside for it.
    let bytes_max = config.record_bytes_max.min(PAYLOAD_BYTES_MAX) as u64;
    let of_records = change("record_bytes_max", log.record_bytes_max() as u64, bytes_max);
    said.extend(of_records.map(Change::put_off));
    said
}

impl LogSource<Log<LocalDisk>> for Directories {
    fn open<'a>(
        &'a self,
        name: &'a str,
        create: bool,
    ) -> Boxed<'a, Result<Log<LocalDisk>, StoreError>> {
        Box::pin(self.open_log(name, create))
    }

    fn list<'a>(&'a self, after: &'a str, count: usize) -> Boxed<'a, Result<Page, StoreError>> {
        Box::pin(self.page(after, count))
    }

    fn read_again(&self) -> Boxed<'_, Result<bool, String>> {
        Box::pin(self.settings.read_again())
    }

    fn adjust(&self, name: &str, log: &Log<LocalDisk>) -> Vec<String> {
        self.adjust_log(name, log)
    }

    fn record_bytes_max(&self) -> usize {
        self.config.record_bytes_max
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evenkeel::runtime::Runtime;
    use evenkeel::time::timeout;

    use super::*;

    #[test]
    fn so_many_list_logs_at_a_time_and_others_wait() {
        let directory = tempfile::tempdir().unwrap();
        Runtime::new().unwrap().block_on(async {
            let config = LogConfig::default();
            let opened = Directories::open(directory.path(), config, 9, None).await;
            let source = opened.unwrap();
            drop(source.open_log("one", true).await.unwrap());
            let turns = LISTS_MAX as u32;
            let mut others = source.listing.acquire_many(turns).await.unwrap();
            let mut list = source.list("", 9);
            let early = timeout(Duration::from_millis(300), &mut list).await;
            assert!(early.is_err(), "there is no turn for it");
            drop(others.split(1));
            let listed = timeout(Duration::from_secs(60), list).await;
            let listed = listed.expect("there is one now").unwrap();
            assert_eq!(listed.logs[0].0, "one");
            assert_eq!(listed.logs[0].1.map(|bounds| bounds.next), Some(1));
            assert_eq!(source.listing.available_permits(), 1, "it was given back");
        });
    }
}
