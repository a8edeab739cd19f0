//! Looks at a log to which nothing was appended lately: whether a record could be stored.
//!
//! Somebody has to ask for one, as a look writes to the disk. One is under way at a time, and what
//! it has found is taken for known for a second, so many who ask cost no more than one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel::Class;

use crate::store::Store;

/// For how long the last look says something.
const KNOWN_FOR: Duration = Duration::from_secs(1);

/// The looks at one log.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks(Arc<Mutex<Look>>);

/// What is known by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// When the one began that is under way.
    pub(super) since: Option<Instant>,
    pub(super) last: Option<Looked>,
}

/// A look that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Looked {
    pub(super) ended: Instant,
    pub(super) took: Duration,
    /// Whether the store could look, or why a record could not be stored.
    pub(super) outcome: Result<bool, String>,
}

impl Look {
    /// The last one, if it still says something.
    pub(super) fn known(&self, now: Instant) -> Option<&Looked> {
        let last = self.last.as_ref();
        last.filter(|last| now.saturating_duration_since(last.ended) < KNOWN_FOR)
    }
}

impl Looks {
    /// Looks at the store, unless the last look still says something, or one is under way.
    pub(super) fn begin<S: Store>(&self, store: &S) {
        let began = Instant::now();
        {
            let mut look = self.lock();
            if look.since.is_some() || look.known(began).is_some() {
                return;
            }
            look.since = Some(began);
        }
        let (looks, store) = (self.clone(), store.clone());
        drop(evenkeel::spawn_in(Class::NORMAL, async move {
            let outcome = store.look().await.map_err(|error| error.text);
            let ended = Instant::now();
            let took = ended.saturating_duration_since(began);
            // Before it is known that the look has ended: who closes the log may wait for that.
            drop(store);
            let last = Some(Looked {
                ended,
                took,
                outcome,
            });
            *looks.lock() = Look { since: None, last };
        }));
    }

    pub(super) fn read(&self) -> Look {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Look> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
