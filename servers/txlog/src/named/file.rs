//! The file of settings, which is read again whenever a log is opened, and when that is asked for.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel::fs;

use super::{LogSettings, Settings};
use crate::advice;

/// The largest file of settings.
const BYTES_MAX: u64 = 1 << 20;

/// A file of settings, and what it said when it could be read last.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    path: Option<PathBuf>,
    /// Whether there has to be one.
    is_needed: bool,
    record_bytes_max: usize,
    settings: Mutex<Settings>,
    /// Held from reading the file until its settings count, so that the latest ones do.
    reading: tokio::sync::Mutex<()>,
}

impl SettingsFile {
    /// The settings in this file, which has to be there, on a server that takes records of this
    /// size; without a file, none.
    pub(crate) async fn read(
        path: Option<PathBuf>,
        record_bytes_max: usize,
    ) -> Result<Self, String> {
        let is_needed = path.is_some();
        Self::new(path, is_needed, record_bytes_max).await
    }

    /// As `read`; without the file at this path, none.
    pub(crate) async fn read_if_there(
        path: PathBuf,
        record_bytes_max: usize,
    ) -> Result<Self, String> {
        Self::new(Some(path), false, record_bytes_max).await
    }

    async fn new(
        path: Option<PathBuf>,
        is_needed: bool,
        record_bytes_max: usize,
    ) -> Result<Self, String> {
        let file = Self {
            path,
            is_needed,
            record_bytes_max,
            settings: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        };
        *file.lock() = file.now().await?;
        Ok(file)
    }

    /// The settings of a log as they are now, or as they were before if they cannot be read.
    pub(crate) async fn of(&self, name: &str) -> LogSettings {
        let _alone = self.reading.lock().await;
        match self.now().await {
            Ok(settings) => *self.lock() = settings,
            Err(error) => eprintln!("txlog: {error}; going by the settings as they were before"),
        }
        self.lock().of(name)
    }

    /// Reads the file again, if there may be one: whether there may be. If it is wrong, nothing
    /// changes.
    pub(crate) async fn read_again(&self) -> Result<bool, String> {
        let _alone = self.reading.lock().await;
        let settings = self.now().await?;
        *self.lock() = settings;
        Ok(self.path.is_some())
    }

    /// The settings of a log as they were read last.
    pub(crate) fn known(&self, name: &str) -> LogSettings {
        self.lock().of(name)
    }

    async fn now(&self) -> Result<Settings, String> {
        let Some(path) = &self.path else {
            return Ok(Settings::default());
        };
        let shown = path.display();
        let text = match text(path).await {
            Err(error) if error.kind() == ErrorKind::NotFound && !self.is_needed => {
                return Ok(Settings::default());
            }
            Err(error) => {
                return Err(format!("cannot read {shown}: {}", advice::of_files(&error)));
            }
            Ok(text) => text,
        };
        let said = |error: String| format!("{shown}: {error}");
        let settings: Settings = text.parse().map_err(said)?;
        match settings.beyond(self.record_bytes_max) {
            None => Ok(settings),
            Some(beyond) => Err(said(beyond)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn text(path: &Path) -> io::Result<String> {
    if fs::metadata(path).await?.len() > BYTES_MAX {
        let what = format!("it has more than {BYTES_MAX} bytes");
        return Err(io::Error::other(what));
    }
    fs::read_to_string(path).await
}
