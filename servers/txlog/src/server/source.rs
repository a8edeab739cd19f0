//! The seam between the server and the place where its logs with names are.

use std::future::Future;
use std::pin::Pin;

use txlog_client::frame::LogBounds;

use crate::store::StoreError;

/// A future of a [`LogSource`].
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where logs with names are: directories in one directory, or streams.
pub trait LogSource<S>: Send + Sync + 'static {
    /// Opens the log of this name. If there is none, creates it, provided that `create` says so.
    ///
    /// The name consists of letters, digits, `.`, `_` and `-`, and does not begin with a dot. Of
    /// each log one opening is under way at a time, and none while it is open.
    ///
    /// # Errors
    ///
    /// [`Code::NoSuchLog`](txlog_client::frame::Code::NoSuchLog) if there is none,
    /// [`Code::TooMany`](txlog_client::frame::Code::TooMany) if no more may be created, or why it
    /// cannot be opened.
    fn open<'a>(&'a self, name: &'a str, create: bool) -> Boxed<'a, Result<S, StoreError>>;

    /// The logs with names greater than `after`, by their names in order, `count` of them at most.
    ///
    /// # Errors
    ///
    /// Why they cannot be listed.
    fn list<'a>(&'a self, after: &'a str, count: usize) -> Boxed<'a, Result<Page, StoreError>>;

    /// Reads again what is said of single logs, such as what they keep: whether anything can be
    /// said of them. It counts for logs that are opened from now on, and for open ones when they
    /// are [adjusted](Self::adjust).
    ///
    /// # Errors
    ///
    /// What is wrong with it; then nothing has changed.
    fn read_again(&self) -> Boxed<'_, Result<bool, String>> {
        Box::pin(async { Ok(false) })
    }

    /// Has an open log go by what is said of it now, and returns what has changed, and what cannot
    /// change while it is open, each as a sentence without the log's name.
    fn adjust(&self, _name: &str, _log: &S) -> Vec<String> {
        Vec::new()
    }

    /// The largest record that any of the logs takes, in bytes.
    fn record_bytes_max(&self) -> usize;
}

/// A part of the list of logs.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Their names, and which records they have, if that can be told without opening them.
    pub logs: Vec<(String, Option<LogBounds>)>,
    /// Whether there are more behind them.
    pub more: bool,
}
