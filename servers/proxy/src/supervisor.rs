//! What those see who supervise the process: systemd, by its notifications, and others, by a file
//! with the process id.
//!
//! Notifications go where the environment says (`NOTIFY_SOCKET`), and nowhere without it. One that
//! cannot be sent is no reason to end: whoever waits for it says so.

use std::io;
use std::path::{Path, PathBuf};

use sd_notify::NotifyState;
use tracing::warn;

/// It serves.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// It ends.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Another process has taken over. Only the one that is the main process so far may say so, unless
/// the unit has `NotifyAccess=all`.
pub fn main_process_is(id: u32) {
    notify(&[NotifyState::MainPid(id)]);
}

fn notify(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        warn!(%error, "cannot notify the supervisor at NOTIFY_SOCKET: {error}");
    }
}

/// The file with the process id of the one that serves. It is removed when this is dropped, unless
/// another process has written its own.
#[derive(Debug)]
pub struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Writes it, in one step for whoever reads.
    ///
    /// # Errors
    ///
    /// Those of the system, with the path.
    pub fn write(path: &Path) -> io::Result<Self> {
        let id = std::process::id();
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{id}"));
        let beside = PathBuf::from(beside);
        let written = std::fs::write(&beside, format!("{id}\n"))
            .and_then(|()| std::fs::rename(&beside, path));
        match written {
            Ok(()) => Ok(Self(Some(path.to_owned()))),
            Err(error) => {
                let _ = std::fs::remove_file(&beside);
                let said = format!("process.pid_file {}: {error}", path.display());
                Err(io::Error::new(error.kind(), said))
            }
        }
    }

    /// Leaves the file to a process that has taken over, and writes its own there: that could come
    /// between a look at the file and its end.
    pub fn leave(mut self) {
        self.0 = None;
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            remove_left(path, std::process::id());
        }
    }
}

/// Removes a file with this process id, whose process does not serve any more. With another one it
/// is the file of another process.
pub fn remove_left(path: &Path, id: u32) {
    let id = id.to_string();
    if std::fs::read_to_string(path).is_ok_and(|text| text.trim_end() == id) {
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_goes_with_the_process_that_wrote_it_last() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        let file = PidFile::write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
        PidFile::write(&path).unwrap().leave();
        assert!(path.exists(), "another process writes its own there");
        let file = PidFile::write(&path).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        drop(file);
        assert!(path.exists(), "it is another process's by now");
        let error = PidFile::write(&directory.path().join("no/pid")).unwrap_err();
        assert!(error.to_string().contains("no/pid"), "{error}");
        let names = std::fs::read_dir(directory.path()).unwrap();
        assert_eq!(names.count(), 1, "nothing is left beside it");
    }
}
