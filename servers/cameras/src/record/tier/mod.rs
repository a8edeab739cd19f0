//! A second tier of recordings: a store with the interface of S3, to which the segments of a volume
//! are copied soon after they are complete, and from which they are read when their disk has them
//! no longer.
//!
//! ```text
//!  VOLUME/CAMERA/DAY/SEGMENT.mp4 ──▶ BUCKET/PREFIX/CAMERA/DAY/SEGMENT.mp4, its index before it
//! ```
//!
//! Objects have the names of files, and there is no other record of what was copied: segments of a
//! camera are copied in their order, and the newest one in the store says where to go on; of the
//! days around it all names are compared. Nothing
//! here is waited for by recordings: a store that hangs or fails is tried again after pauses, and
//! counted.
//!
//! - `store`: its requests; `credentials`: who we are to it.
//! - `upload`: one segment, in parts if it is long, which a restart goes on with.
//! - `copies`: the rounds in which a volume is copied.
//! - [`view`]: what is there, and reading it; `file`: a file wherever it is.

mod copies;
mod credentials;
mod file;
mod store;
mod upload;
pub mod view;

pub use file::AnyFile;
pub use store::{SettingsError, StoreError};

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use servers_common::counters::Counter;
use tokio::sync::Semaphore;

use store::Store;
use view::Days;

/// Bytes of a part: stores take few that are shorter than 5 MiB, but for the last.
pub const PART_BYTES: usize = 8 << 20;

/// Segments of a camera that wait behind a newer one.
const LATE_MAX: usize = 10_000;

/// A permit of what is in flight is for so many bytes.
const PERMIT_BYTES: usize = 64 << 10;

/// How a store is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its address.
    pub endpoint: String,
    /// The bucket, which has to be there.
    pub bucket: String,
    /// As signatures name it.
    pub region: String,
    /// What keys begin with.
    pub prefix: String,
    /// A file with credentials; without it they are in the environment.
    pub credentials: Option<PathBuf>,
    /// Bytes that are in flight at a time.
    pub memory: usize,
    /// Bytes of a part, of objects that are longer.
    pub part_bytes: usize,
    /// How long a request may take.
    pub patience: Duration,
    /// The longest pause after failures.
    pub retry_max: Duration,
}

/// A store at work.
pub struct Tier {
    name: String,
    settings: Settings,
    store: Store,
    in_flight: Arc<Semaphore>,
    permits: usize,
    /// Of each camera, what was copied.
    marks: Mutex<BTreeMap<String, Mark>>,
    days: Days,
    pub(super) counters: Counters,
    error: Mutex<Option<String>>,
}

/// What was copied of a camera: all up to its newest segment there, but for some.
#[derive(Clone, Debug, Default)]
struct Mark {
    /// When that segment begins; 0 if there is none.
    newest_ms: u64,
    /// When segments begin that were completed after a newer one, as when a clock was set back.
    late: BTreeSet<u64>,
}

impl Mark {
    fn has(&self, start_ms: u64) -> bool {
        start_ms <= self.newest_ms && !self.late.contains(&start_ms)
    }

    fn copied(&mut self, start_ms: u64) {
        self.late.remove(&start_ms);
        self.newest_ms = self.newest_ms.max(start_ms);
    }
}

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct Counters {
    copied: Counter,
    copied_bytes: Counter,
    resumed: Counter,
    failures: Counter,
    /// Segments that were deleted before they were copied.
    pub(super) missed: Counter,
    read_bytes: Counter,
    read_failures: Counter,
}

/// How a store is doing.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct TierStatus {
    /// Its name.
    pub name: String,
    /// Segments that were copied since the process began.
    pub copied: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Objects that an earlier process had begun, and this one has completed.
    pub resumed: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Segments that were deleted from a full disk before they were copied.
    pub missed: u64,
    /// Bytes that were read from it.
    pub read_bytes: u64,
    /// Reads that failed.
    pub read_failures: u64,
    /// What went wrong last, if nothing has succeeded since.
    pub error: Option<String>,
}

impl std::fmt::Debug for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without credentials.
        f.debug_struct("Tier")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Tier {
    /// By its settings. This reads the file with credentials; nothing is asked of the store.
    ///
    /// # Errors
    ///
    /// [`SettingsError`].
    pub fn new(name: &str, settings: &Settings) -> Result<Self, SettingsError> {
        let permits = settings
            .memory
            .max(settings.part_bytes)
            .div_ceil(PERMIT_BYTES);
        Ok(Self {
            name: name.to_owned(),
            store: Store::new(settings)?,
            in_flight: Arc::new(Semaphore::new(permits)),
            permits,
            marks: Mutex::default(),
            days: Days::default(),
            counters: Counters::default(),
            error: Mutex::default(),
            settings: settings.clone(),
        })
    }

    /// How it is doing.
    pub fn status(&self) -> TierStatus {
        let counters = &self.counters;
        TierStatus {
            name: self.name.clone(),
            copied: counters.copied.total(),
            copied_bytes: counters.copied_bytes.total(),
            resumed: counters.resumed.total(),
            failures: counters.failures.total(),
            missed: counters.missed.total(),
            read_bytes: counters.read_bytes.total(),
            read_failures: counters.read_failures.total(),
            error: self.error().clone(),
        }
    }

    /// Whether a segment that begins then was copied.
    pub(super) fn has_copied(&self, camera: &str, start_ms: u64) -> bool {
        let marks = self.marks();
        marks.get(camera).is_some_and(|mark| mark.has(start_ms))
    }

    /// A segment was completed, and is to be copied.
    pub(super) fn completed(&self, camera: &str, start_ms: u64) {
        if let Some(mark) = self.marks().get_mut(camera)
            && start_ms <= mark.newest_ms
        {
            if mark.late.len() < LATE_MAX {
                mark.late.insert(start_ms);
            } else {
                self.counters.missed.one();
            }
        }
    }

    /// The key of a file of the volume.
    fn key(&self, path: &Path) -> String {
        format!("{}{}", self.settings.prefix, path.display())
    }

    fn marks(&self) -> MutexGuard<'_, BTreeMap<String, Mark>> {
        // Numbers, which no panic leaves half-changed.
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self) -> MutexGuard<'_, Option<String>> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says once that something fails, and not for each attempt.
    fn failed(&self, error: &dyn std::fmt::Display) {
        self.counters.failures.one();
        let said = self.error().replace(error.to_string());
        if said.is_none() {
            let name = &self.name;
            eprintln!("evenkeel-cameras: tier {name}: {error}; trying again");
        }
    }

    fn succeeded(&self) {
        if self.error().take().is_some() {
            eprintln!("evenkeel-cameras: tier {}: it works again", self.name);
        }
    }
}
