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
    /// Whether it was there once.
    was_there: Mutex<bool>,
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
            was_there: Mutex::default(),
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
                // By mistake, perhaps, or for a moment: what single logs were to keep would go.
                let was_there = *self
                    .was_there
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                return match was_there {
                    true => Err(format!(
                        "{shown} is gone: to have no settings, leave it there, empty"
                    )),
                    false => Ok(Settings::default()),
                };
            }
            Err(error) => {
                return Err(format!("cannot read {shown}: {}", advice::of_files(&error)));
            }
            Ok(text) => text,
        };
        *self
            .was_there
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
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

#[cfg(test)]
mod tests {
    use evenkeel::runtime::Runtime;

    use super::*;

    #[test]
    fn a_file_that_is_gone_does_not_say_that_there_are_no_settings() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("txlog.toml");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        Runtime::new().unwrap().block_on(async {
            let read = SettingsFile::read_if_there(path.clone(), 100).await;
            let file = read.unwrap();
            assert!(file.read_again().await.unwrap(), "it never was there");
            write("[logs.orders]\nkeep_records = 5");
            file.read_again().await.unwrap();
            std::fs::remove_file(&path).unwrap();
            let error = file.read_again().await.unwrap_err();
            assert!(error.contains("is gone: to have no settings"), "{error}");
            assert_eq!(file.of("orders").await.keep_records, Some(5));
            write("");
            file.read_again().await.unwrap();
            assert_eq!(file.known("orders"), LogSettings::default());
        });
    }
}
