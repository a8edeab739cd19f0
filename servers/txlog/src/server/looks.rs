//! Looks at a log to which nothing was appended lately: whether a record could be stored.
//!
//! Somebody has to ask for one, as a look writes to the disk. One is under way at a time, and what
//! it has found is taken for known for a second, so many who ask cost no more than one.

use std::future::Future;
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
    pub(super) outcome: Outcome,
}

/// Whether the store could look, or why a record could not be stored.
type Outcome = Result<bool, String>;

/// A look that has begun. When it is dropped, it is known that the look has ended, also if it
/// panicked: else no other would ever begin.
struct UnderWay {
    looks: Looks,
    began: Instant,
    outcome: Option<Outcome>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let ended = Instant::now();
        let outcome = self.outcome.take().unwrap_or_else(|| {
            let text = "the look at the log's disk ended without an answer: see the server's \
                        messages for a panic";
            Err(text.to_owned())
        });
        let last = Some(Looked {
            ended,
            took: ended.saturating_duration_since(self.began),
            outcome,
        });
        *self.looks.lock() = Look { since: None, last };
    }
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
        let store = store.clone();
        self.spawn(began, async move {
            let outcome = store.look().await.map_err(|error| error.text);
            // Before it is known that the look has ended: who closes the log may wait for that.
            drop(store);
            outcome
        });
    }

    fn spawn(&self, began: Instant, look: impl Future<Output = Outcome> + Send + 'static) {
        let under_way = UnderWay {
            looks: self.clone(),
            began,
            outcome: None,
        };
        drop(evenkeel::spawn_in(Class::NORMAL, async move {
            let mut under_way = under_way;
            under_way.outcome = Some(look.await);
        }));
    }

    pub(super) fn read(&self) -> Look {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Look> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::runtime::Runtime;
    use evenkeel::time::{sleep, timeout};

    use super::*;

    #[test]
    fn a_look_that_panics_has_ended_and_found_nothing_good() {
        Runtime::new().unwrap().block_on(async {
            let looks = Looks::default();
            let began = Instant::now();
            looks.lock().since = Some(began);
            looks.spawn(began, async { panic!("as the test wants") });
            let ended = async {
                while looks.read().since.is_some() {
                    sleep(Duration::from_millis(1)).await;
                }
            };
            timeout(Duration::from_secs(30), ended)
                .await
                .expect("an end");
            let outcome = looks.read().last.unwrap().outcome;
            assert!(outcome.unwrap_err().contains("panic"));
        });
    }
}
