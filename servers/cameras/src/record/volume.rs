//! A volume: a directory on a disk of its own, with the rounds in which it is synced and trimmed.
//!
//! Nothing here is shared with other volumes, so one that hangs holds up its own cameras alone.
//!
//! - `left`: what earlier processes and failures left, and how much there is.

mod left;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use evenkeel::time::Instant;
use servers_common::counters::Counter;
use tokio::sync::Notify;

use super::disk::Disk;
use super::names::{Closed, Name, day};
use super::protect;
use super::recover::Listed;
use super::retention::{CameraLimits, Holdings, Victim, VolumeLimits, Why, choose};
use super::segment::{Ended, Progress};
use super::tier::Tier;
use crate::mp4::origin::unix_us;

/// How often limits are looked at, besides when the disk is full.
pub const TRIM_EVERY: Duration = Duration::from_secs(10);
/// How many segments one round deletes, before it looks at the clock and the limits again.
const DELETIONS_MAX: usize = 10_000;

/// A volume.
pub struct Volume<D: Disk> {
    name: String,
    disk: D,
    /// When the process began with it. What is older was written by an earlier process.
    began_ms: u64,
    limits: VolumeLimits,
    /// Of cameras that were removed, whose recordings are still there.
    others: CameraLimits,
    state: Mutex<State>,
    /// One deletes at a time.
    deletes: tokio::sync::Mutex<()>,
    /// Wakes the trimming round before its time.
    trim: Notify,
    /// Where segments are copied, and told that there are some.
    tier: OnceLock<Arc<Tier>>,
    complete: Notify,
    counters: Counters,
}

#[derive(Default)]
struct State {
    holdings: Holdings,
    /// Whether all days were counted since the process began.
    is_counted: bool,
    /// Cameras whose days are not counted; `None` before the volume was listed.
    uncounted: Option<Vec<String>>,
    /// Segments that have not yet the names of complete ones: one that is being written, and those
    /// that wait for the next sync.
    open: BTreeMap<String, Vec<Arc<Progress>>>,
    ended: Vec<(String, Ended)>,
    /// Those that could not be written to their end, and are completed as an earlier process's are.
    broken: Vec<(String, Arc<Progress>)>,
    /// When the call began that has not returned: of the sync, or of the trimming.
    syncs_since: Option<Instant>,
    /// What went wrong with the last round of syncing, and of trimming.
    error: Option<String>,
    trim_error: Option<String>,
}

#[derive(Default)]
struct Counters {
    syncs: Counter,
    sync_failures: Counter,
    deleted: [Counter; 4],
    deleted_bytes: Counter,
}

/// How a volume is doing.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// Bytes of complete segments.
    pub bytes: u64,
    /// Whether all that was there at the start has been counted.
    pub is_counted: bool,
    /// For how long the last sync has been running, if it has not returned.
    pub syncs_for_ms: Option<u64>,
    /// What went wrong last, if it has not succeeded since.
    pub error: Option<String>,
    /// Rounds of syncing that are done.
    pub syncs: u64,
    /// Those that failed.
    pub sync_failures: u64,
    /// Segments that were deleted, by reason.
    pub deleted: BTreeMap<&'static str, u64>,
    /// Their bytes.
    pub deleted_bytes: u64,
}

impl<D: Disk> Volume<D> {
    /// A volume that has not been looked at.
    pub fn new(name: &str, disk: D, limits: VolumeLimits, others: CameraLimits) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            disk,
            began_ms: now_ms(),
            limits,
            others,
            state: Mutex::default(),
            deletes: tokio::sync::Mutex::default(),
            trim: Notify::new(),
            tier: OnceLock::new(),
            complete: Notify::new(),
            counters: Counters::default(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its disk.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Has its segments copied there, from its rounds on.
    pub(super) fn set_tier(&self, tier: Arc<Tier>) {
        // Once, before the rounds begin.
        _ = self.tier.set(tier);
    }

    /// Where its segments are copied.
    pub fn tier(&self) -> Option<&Arc<Tier>> {
        self.tier.get()
    }

    /// Waits until segments have been completed, for this time at most.
    pub(super) async fn completed(&self, limit: Duration) {
        _ = evenkeel::time::timeout(limit, self.complete.notified()).await;
    }

    /// How it is doing.
    pub fn status(&self) -> VolumeStatus {
        let state = self.state();
        VolumeStatus {
            name: self.name.clone(),
            bytes: state.holdings.bytes(),
            is_counted: state.is_counted,
            syncs_for_ms: state
                .syncs_since
                .map(|since| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)),
            error: state.error.clone().or_else(|| state.trim_error.clone()),
            syncs: self.counters.syncs.total(),
            sync_failures: self.counters.sync_failures.total(),
            deleted: (Why::ALL.iter().zip(&self.counters.deleted))
                .map(|(why, counter)| (why.name(), counter.total()))
                .collect(),
            deleted_bytes: self.counters.deleted_bytes.total(),
        }
    }

    /// Bytes of a camera's complete segments, and when the oldest one begins.
    pub fn held(&self, camera: &str) -> (u64, Option<u64>) {
        let state = self.state();
        (
            state.holdings.camera_bytes(camera),
            state.holdings.oldest_ms(camera),
        )
    }

    /// What a camera may hold.
    pub fn set_limits(&self, camera: &str, limits: CameraLimits) {
        self.state().holdings.set_limits(camera, limits);
    }

    /// A segment is being written.
    pub(super) fn opened(&self, camera: &str, progress: &Arc<Progress>) {
        let mut state = self.state();
        let open = state.open.entry(camera.to_owned()).or_default();
        open.push(Arc::clone(progress));
    }

    /// A segment was written to its end. It gets its name after the next sync.
    pub(super) fn ended(&self, camera: &str, ended: Ended) {
        self.state().ended.push((camera.to_owned(), ended));
    }

    /// A segment is no longer written, and was given up or removed.
    pub(super) fn given_up(&self, camera: &str, progress: &Arc<Progress>) {
        forget(&mut self.state(), camera, progress);
    }

    /// Segments of a camera that are not complete.
    pub(super) fn open_of(&self, camera: &str) -> Vec<Arc<Progress>> {
        self.state().open.get(camera).cloned().unwrap_or_default()
    }

    /// Announces a camera, before anything is counted.
    pub(super) fn announce(&self, camera: &str) {
        self.state().open.entry(camera.to_owned()).or_default();
    }

    /// Syncs every so often, until it is dropped.
    pub(super) async fn sync_rounds(self: Arc<Self>, every: Duration) {
        loop {
            evenkeel::time::sleep(every).await;
            self.sync().await;
            self.complete_broken().await;
        }
    }

    /// Syncs what was written, and completes segments that were written to their end.
    pub(super) async fn sync(&self) {
        let (open, ended) = {
            let mut state = self.state();
            let open: Vec<_> = (state.open.values().flatten())
                .map(|progress| (Arc::clone(progress), progress.written()))
                .collect();
            if open.iter().all(|(_, written)| *written == 0) && state.ended.is_empty() {
                return;
            }
            state.syncs_since = Some(Instant::now());
            (open, std::mem::take(&mut state.ended))
        };
        let synced = self.disk.sync().await;
        self.state().syncs_since = None;
        if let Err(error) = synced {
            self.counters.sync_failures.one();
            let mut state = self.state();
            state.error = Some(format!("cannot sync the volume: {error}"));
            // They are completed after a later sync, or by recovery. What they hold may be lost,
            // which their checksums tell.
            state.ended.extend(ended);
            return;
        }
        self.counters.syncs.one();
        for (progress, written) in open {
            progress.set_synced(written);
        }
        let (mut error, mut again) = (None, Vec::new());
        for (camera, ended) in ended {
            match ended.complete(&self.disk).await {
                Ok(()) => {
                    let mut state = self.state();
                    forget(&mut state, &camera, &ended.progress);
                    state.holdings.add(&camera, ended.closed);
                    drop(state);
                    if let Some(tier) = self.tier() {
                        tier.completed(&camera, ended.closed.start_ms);
                    }
                    self.complete.notify_one();
                }
                Err(failed) => {
                    error = Some(format!("cannot rename a segment of {camera}: {failed}"));
                    if failed.kind() == io::ErrorKind::NotFound {
                        // Somebody else has taken it away.
                        self.given_up(&camera, &ended.progress);
                    } else {
                        // A directory may need a block for the longer name, and the disk be full.
                        again.push((camera, ended));
                    }
                }
            }
        }
        let mut state = self.state();
        state.error = error;
        state.ended.extend(again);
    }

    /// Counts what is there, and then keeps within the limits, until it is dropped.
    pub(super) async fn trim_rounds(self: Arc<Self>) {
        loop {
            let counted = self.count().await;
            let counted = counted.map_err(|error| format!("cannot list the volume: {error}"));
            // What was counted is kept within the limits, whatever could not be.
            let is_listed = self.state().uncounted.is_some();
            let kept = match is_listed {
                true => self.keep_limits().await,
                false => Ok(()),
            };
            let kept = kept.map_err(|error| format!("cannot delete old segments: {error}"));
            self.state().trim_error = counted.and(kept).err();
            let woken = self.trim.notified();
            // Whichever comes first; there is nothing to tell apart.
            _ = evenkeel::time::timeout(TRIM_EVERY, woken).await;
        }
    }

    /// Limits are looked at soon.
    pub fn trim_soon(&self) {
        self.trim.notify_one();
    }

    async fn keep_limits(&self) -> io::Result<()> {
        let _one = self.deletes.lock().await;
        self.state().holdings.look_again();
        let mut failed = None;
        for _ in 0..DELETIONS_MAX {
            let free = self.disk.free().await?;
            let victim = (self.state().holdings).next(&self.limits, now_ms(), free);
            let Some(victim) = victim else {
                break;
            };
            if let Err(error) = self.delete(&victim).await {
                // Others can be deleted all the same.
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The disk is full: deletes the oldest segments until so many bytes are free, and the reserve.
    /// Whether something was deleted, or there is room again.
    pub(super) async fn make_room(&self, bytes: u64) -> io::Result<bool> {
        let _one = self.deletes.lock().await;
        let wanted = bytes.saturating_add(self.limits.reserve_bytes);
        self.state().holdings.look_again();
        let (mut deleted, mut failed) = (false, None);
        for _ in 0..DELETIONS_MAX {
            let free = self.disk.free().await?.unwrap_or(0);
            if free >= wanted {
                return Ok(true);
            }
            let victim = self.state().holdings.for_room(wanted - free);
            let Some(victim) = victim else {
                break;
            };
            match self.delete(&victim).await {
                Ok(some) => deleted |= some,
                Err(error) => _ = failed.get_or_insert(error),
            }
        }
        match failed {
            Some(error) if !deleted => Err(error),
            _ => Ok(deleted),
        }
    }

    /// Deletes segments of a day. Whether there were some that could be deleted. After an error the
    /// day is set aside.
    async fn delete(&self, victim: &Victim) -> io::Result<bool> {
        let deleted = self.delete_of_day(victim).await;
        if deleted.is_err() {
            let holdings = &mut self.state().holdings;
            holdings.set_aside(&victim.camera, victim.day_ms);
        }
        deleted
    }

    async fn delete_of_day(&self, victim: &Victim) -> io::Result<bool> {
        let camera = Path::new(&victim.camera);
        let directory = camera.join(day(victim.day_ms));
        let listed = Listed::of(&self.disk.list(&directory).await?);
        let protected = protect::list(&self.disk, camera).await?;
        let mut chosen = choose(&listed.closed, &protected, victim.enough);
        self.keep_what_is_not_copied(victim, &mut chosen);
        let mut failed = None;
        for (place, segment) in chosen.iter().enumerate() {
            if let Err(error) = self.delete_one(&directory, segment).await {
                failed = Some((place, error));
                break;
            }
            let place = Why::ALL.iter().position(|why| *why == victim.why);
            self.counters.deleted[place.unwrap_or(0)].one();
            self.counters.deleted_bytes.add(segment.bytes);
        }
        if let Some((place, _)) = failed {
            chosen.truncate(place);
        }
        let is_left = |segment: &&Closed| !chosen.contains(segment);
        let next_ms = listed.closed.iter().find(is_left).map(|next| next.start_ms);
        let is_over = next_ms.is_none() && listed.open.is_empty();
        {
            let holdings = &mut self.state().holdings;
            for segment in &chosen {
                holdings.removed(&victim.camera, *segment, next_ms);
            }
            if listed.closed.is_empty() {
                // Somebody else has deleted what was counted.
                holdings.set_day(&victim.camera, victim.day_ms, listed.day());
            } else if chosen.is_empty() {
                holdings.set_aside(&victim.camera, victim.day_ms);
            }
        }
        if is_over {
            // It may have a new file, or one of somebody else's, and stays then.
            _ = self.disk.remove_directory(&directory).await;
        }
        match failed {
            Some((_, error)) => Err(error),
            None => Ok(!chosen.is_empty()),
        }
    }

    /// What was not copied is not deleted, unless the disk would be full.
    fn keep_what_is_not_copied(&self, victim: &Victim, chosen: &mut Vec<Closed>) {
        let Some(tier) = self.tier() else {
            return;
        };
        let is_copied = |segment: &Closed| tier.has_copied(&victim.camera, segment.start_ms);
        if victim.why == Why::Reserve {
            let missed = chosen.iter().filter(|segment| !is_copied(segment)).count();
            tier.counters.missed.add(missed as u64);
        } else {
            chosen.retain(is_copied);
        }
    }

    /// The segment goes first: an index alone is removed by recovery.
    async fn delete_one(&self, directory: &Path, segment: &Closed) -> io::Result<()> {
        let index = Name::Index(segment.start_ms).to_string();
        for name in [segment.to_string(), index] {
            match self.disk.remove(&directory.join(name)).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Totals and lists, which no panic leaves half-done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now_ms() -> u64 {
    u64::try_from(unix_us(SystemTime::now()) / 1000).unwrap_or(0)
}

fn forget(state: &mut State, camera: &str, progress: &Arc<Progress>) {
    if let Some(open) = state.open.get_mut(camera) {
        open.retain(|it| !Arc::ptr_eq(it, progress));
    }
}
