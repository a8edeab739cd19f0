//! Looks whether the files of the configuration have changed, and has them read again.
//!
//! By asking for what the system says of them, now and then: this sees files that editors replace,
//! and directories that are swapped by links, as for Kubernetes. A change has to last from one look
//! to the next, so that a file that is being written is not read half.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{PoisonError, Weak};
use std::time::Duration;

use evenkeel::time::sleep;

use super::{Context, ServerError};

/// What the system says of files: which one it is, its length, and when it was changed. `None` is
/// one that is not there.
pub(super) type Looks = Vec<(PathBuf, Option<[i64; 6]>)>;

/// Looks at files.
pub(super) async fn look(files: &[PathBuf]) -> Looks {
    let mut looks = Looks::new();
    for file in files {
        let metadata = evenkeel::fs::metadata(file).await;
        let look = metadata.ok().map(|metadata| {
            let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            [
                number(metadata.ino()),
                number(metadata.len()),
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.ctime(),
                metadata.ctime_nsec(),
            ]
        });
        looks.push((file.clone(), look));
    }
    looks
}

/// Looks again and again, as long as the proxy is there.
pub(super) async fn watch(context: Weak<Context>, interval: Duration) {
    let mut seen = None;
    loop {
        sleep(interval).await;
        let Some(context) = context.upgrade() else {
            return;
        };
        if *context.leaving.borrow() {
            return;
        }
        let now = look(&context.site().config.files).await;
        if context.has_read(&now) {
            seen = None;
        } else if seen.as_ref() != Some(&now) {
            seen = Some(now);
        } else {
            match context.reload().await {
                Ok(()) => eprintln!("evenkeel-proxy: a file has changed, and was read again"),
                // It is tried again.
                Err(ServerError::Upgrading) => continue,
                Err(error) => eprintln!(
                    "evenkeel-proxy: a file has changed: {error}\nevenkeel-proxy: nothing was \
                     changed"
                ),
            }
            // Also one that is wrong is not read again before it changes.
            context.note_read(now);
            seen = None;
        }
    }
}

impl Context {
    /// Notes how the files looked when they were read.
    pub(super) fn note_read(&self, looks: Looks) {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = looks;
    }

    fn has_read(&self, looks: &Looks) -> bool {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) == *looks
    }
}
