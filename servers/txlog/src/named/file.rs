//! The file of settings, which is read again whenever a log is opened, and when that is asked for.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Held from reading the file until its settings count, so that the latest ones do; and until
    /// a read has ended for which nobody waits any more, so that a disk that hangs has one of them.
    reading: Arc<tokio::sync::Mutex<()>>,
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
            reading: Arc::default(),
        };
        file.load().await?;
        Ok(file)
    }

    /// The settings of a log as they are now, or as they were before if they cannot be read.
    pub(crate) async fn of(&self, name: &str) -> LogSettings {
        if let Err(error) = self.load().await {
            eprintln!("txlog: {error}; going by the settings as they were before");
        }
        self.lock().of(name)
    }

    /// Reads the file again, if there may be one: whether there may be. If it is wrong, nothing
    /// changes, and nothing does if this is dropped.
    pub(crate) async fn read_again(&self) -> Result<bool, String> {
        self.load().await?;
        Ok(self.path.is_some())
    }

    /// Does this by the settings of a log as they were read last. Others are read after it is done:
    /// so if they are read while a log is told what to go by, it is told of them later.
    pub(crate) fn by_known<T>(&self, name: &str, apply: impl FnOnce(LogSettings) -> T) -> T {
        let settings = self.lock();
        apply(settings.of(name))
    }

    async fn load(&self) -> Result<(), String> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let alone = Arc::clone(&self.reading).lock_owned().await;
        let of = path.clone();
        let read = evenkeel::spawn(async move { (text(&of).await, alone) });
        let (text, _alone) = read.await.map_err(|error| error.to_string())?;
        let settings = self.settings_of(path, text)?;
        *self.lock() = settings;
        Ok(())
    }

    /// What the file says, if it could be read.
    fn settings_of(&self, path: &Path, text: io::Result<String>) -> Result<Settings, String> {
        let shown = path.display();
        let text = match text {
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
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use evenkeel::runtime::Builder;
    use evenkeel::time::timeout;

    use super::*;

    #[test]
    fn a_file_that_is_gone_does_not_say_that_there_are_no_settings() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("txlog.toml");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        Builder::new().workers(2).build().unwrap().block_on(async {
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
            let known = file.by_known("orders", |settings| settings);
            assert_eq!(known, LogSettings::default());
        });
    }

    #[test]
    fn no_settings_take_the_place_of_those_that_a_log_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("txlog.toml");
        let keeping = |records: u64| {
            let text = format!("[logs.orders]\nkeep_records = {records}");
            std::fs::write(&path, text).unwrap();
        };
        keeping(5);
        Builder::new().workers(2).build().unwrap().block_on(async {
            let read = SettingsFile::read_if_there(path.clone(), 100).await;
            let file = Arc::new(read.unwrap());
            keeping(7);
            let (began, begins) = channel();
            let told = file.by_known("orders", |settings| {
                let file = Arc::clone(&file);
                let later = evenkeel::spawn(async move {
                    began.send(()).unwrap();
                    file.read_again().await.unwrap();
                });
                begins.recv().unwrap();
                std::thread::sleep(Duration::from_millis(300));
                assert!(!later.is_finished(), "the log is told what holds no more");
                (settings.keep_records, later)
            });
            assert_eq!(told.0, Some(5));
            told.1.await.unwrap();
            let known = file.by_known("orders", |settings| settings);
            assert_eq!(known.keep_records, Some(7));
        });
    }

    /// A named pipe to which nobody writes is like a file whose disk hangs.
    #[test]
    fn a_file_that_does_not_come_is_read_once_however_often_it_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("txlog.toml");
        Builder::new().workers(2).build().unwrap().block_on(async {
            let file = SettingsFile::read_if_there(path.clone(), 100).await;
            let file = file.unwrap();
            let made = std::process::Command::new("mkfifo").arg(&path).status();
            assert!(made.unwrap().success());
            for _ in 0..2 {
                let read = timeout(Duration::from_millis(100), file.read_again()).await;
                assert!(read.is_err(), "it does not come");
                assert!(file.reading.try_lock().is_err(), "it is read until it ends");
            }
            // Nobody waits for what comes then.
            std::fs::write(&path, "[logs.orders]\nkeep_records = 5").unwrap();
            let ended = timeout(Duration::from_secs(60), file.reading.lock()).await;
            drop(ended.expect("the read ends"));
            let known = file.by_known("orders", |settings| settings);
            assert_eq!(known, LogSettings::default());
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "[logs.orders]\nkeep_records = 7").unwrap();
            assert_eq!(file.of("orders").await.keep_records, Some(7));
        });
    }
}
