//! Whether files have changed since they were read.
//!
//! By asking for what the system says of them, now and then: this sees files that editors replace,
//! and directories that are swapped by links, as for Kubernetes. A change has to last from one look
//! to the next, so that a file that is being written is not read half.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the system says of files: which one it is, its length, and when it was changed. `None` is
/// one that is not there.
pub type Looks = Vec<(PathBuf, Option<[i64; 6]>)>;

/// Looks at files.
///
/// # Cancel safety
///
/// If it is cancelled, nothing has happened.
pub async fn look(files: &[PathBuf]) -> Looks {
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

/// How files looked when they were read, and at the last look after that.
#[derive(Debug, Default)]
pub struct Known(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    read: Looks,
    seen: Option<Looks>,
}

impl Known {
    /// Notes how the files looked when they were read. Also ones that are wrong are not read again
    /// before they change.
    pub fn note_read(&self, looks: Looks) {
        *self.state() = State {
            read: looks,
            seen: None,
        };
    }

    /// Whether the files are to be read: they differ from those that were, and look as at the last
    /// look.
    pub fn have_changed(&self, now: &Looks) -> bool {
        let mut state = self.state();
        if state.read == *now {
            state.seen = None;
            return false;
        }
        if state.seen.as_ref() == Some(now) {
            return true;
        }
        state.seen = Some(now.clone());
        false
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Two lists, which no panic leaves half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(length: i64) -> Looks {
        vec![(PathBuf::from("a"), Some([1, length, 0, 0, 0, 0]))]
    }

    #[test]
    fn a_change_has_to_last_from_one_look_to_the_next() {
        let known = Known::default();
        known.note_read(of(1));
        let looks = [1, 2, 3, 3, 3, 1, 3].map(|length| known.have_changed(&of(length)));
        assert_eq!(looks, [false, false, false, true, true, false, false]);
        known.note_read(of(3));
        assert!(!known.have_changed(&of(3)));
        let gone = vec![(PathBuf::from("a"), None)];
        assert!(!known.have_changed(&gone));
        assert!(known.have_changed(&gone));
    }
}
