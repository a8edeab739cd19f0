//! What a store has of a camera, and reading it. Lists of days are kept for a while. A store that
//! does not answer is not asked again for a while, so that requests about what is on disks go on.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel::time::{Instant, timeout};

use super::{StoreError, Tier};
use crate::record::names::Closed;
use crate::record::retention::day_of;

/// How long a day's list is good that may grow, and one that may shrink alone.
const FRESH: Duration = Duration::from_secs(15);
const FRESH_OLD: Duration = Duration::from_secs(600);
/// Lists that are kept.
const DAYS_MAX: usize = 512;
/// How long a list is waited for, and how long a store is left alone that did not give one.
const PATIENCE: Duration = Duration::from_secs(3);
const LEFT_ALONE: Duration = Duration::from_secs(10);

/// A day of a camera: when it begins.
type Key = (String, u64);

/// Lists of days.
#[derive(Debug, Default)]
pub(super) struct Days(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    days: BTreeMap<Key, (Instant, Arc<[Closed]>)>,
    unreachable_until: Option<Instant>,
}

impl Days {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Lists, which no panic leaves half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tier {
    /// Whether it did not answer of late, so that what it has is not listed.
    pub fn is_unreachable(&self) -> bool {
        let until = self.days.kept().unreachable_until;
        until.is_some_and(|until| Instant::now() < until)
    }

    /// The segments of a day, in their order; none if the store does not answer.
    pub(crate) async fn segments(&self, camera: &str, day_ms: u64) -> Arc<[Closed]> {
        let key = (camera.to_owned(), day_ms);
        if let Some((asked, closed)) = self.days.kept().days.get(&key) {
            let newest_ms = self.marks().get(camera).map_or(0, |mark| mark.newest_ms);
            let is_old = day_ms < day_of(newest_ms);
            let good = if is_old { FRESH_OLD } else { FRESH };
            if asked.elapsed() < good {
                return Arc::clone(closed);
            }
        }
        if self.is_unreachable() {
            return Arc::default();
        }
        let listed = timeout(PATIENCE, self.day(camera, day_ms)).await;
        let listed = listed.unwrap_or(Err(StoreError::Late(PATIENCE)));
        let mut kept = self.days.kept();
        match listed {
            Ok(closed) => {
                let closed: Arc<[Closed]> = closed.into();
                if kept.days.len() >= DAYS_MAX {
                    let oldest = kept.days.iter().min_by_key(|(_, (asked, _))| *asked);
                    let oldest = oldest.map(|(key, _)| key.clone());
                    oldest.map(|key| kept.days.remove(&key));
                }
                kept.unreachable_until = None;
                kept.days.insert(key, (Instant::now(), Arc::clone(&closed)));
                closed
            }
            Err(error) => {
                kept.unreachable_until = Some(Instant::now() + LEFT_ALONE);
                drop(kept);
                self.counters.read_failures.one();
                self.failed(&error);
                Arc::default()
            }
        }
    }

    /// Bytes of a file that was copied; fewer at its end.
    pub(crate) async fn read(&self, path: &Path, len: usize, offset: u64) -> io::Result<Vec<u8>> {
        match self.store.get(&self.key(path), offset, len).await {
            Ok(bytes) => {
                self.counters.read_bytes.add(bytes.len() as u64);
                Ok(bytes.into())
            }
            Err(error) if error.is_missing() => Err(io::ErrorKind::NotFound.into()),
            Err(error) => {
                self.counters.read_failures.one();
                Err(io::Error::other(error))
            }
        }
    }
}
