//! A volume: a directory on a disk of its own, with the rounds in which it is synced and trimmed.
//!
//! Nothing here is shared with other volumes, so one that hangs holds up its own cameras alone.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use evenkeel::time::Instant;
use servers_common::counters::Counter;
use tokio::sync::Notify;

use super::disk::Disk;
use super::names::{Closed, Name, day, is_camera};
use super::protect;
use super::recover::{self, Listed};
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
    /// Segments that have not yet the names of complete ones: one that is being written, and those
    /// that wait for the next sync.
    open: BTreeMap<String, Vec<Arc<Progress>>>,
    ended: Vec<(String, Ended)>,
    /// When the call began that has not returned: of the sync, or of the trimming.
    syncs_since: Option<Instant>,
    error: Option<String>,
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
    pub deleted: Vec<(&'static str, u64)>,
    /// Their bytes.
    pub deleted_bytes: u64,
}

impl<D: Disk> Volume<D> {
    /// A volume that has not been looked at.
    pub fn new(name: &str, disk: D, limits: VolumeLimits, others: CameraLimits) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            disk,
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
            error: state.error.clone(),
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

    /// Completes what an earlier process left of a camera: in its newest two days, as the last
    /// segment may have begun before midnight.
    pub(super) async fn recover(&self, camera: &str) -> io::Result<()> {
        let path = Path::new(camera);
        for day_ms in recover::days(&self.disk, path)
            .await?
            .into_iter()
            .rev()
            .take(2)
        {
            let directory = path.join(day(day_ms));
            recover::recover(&self.disk, &directory, None).await?;
            let day = Listed::of(&self.disk.list(&directory).await?).day();
            self.state().holdings.set_day(camera, day_ms, day);
        }
        Ok(())
    }

    /// Counts what is there, of cameras that are configured and others. Their newest two days are
    /// counted when they are recovered, as new segments come into them meanwhile.
    async fn count(&self) -> io::Result<()> {
        for camera in self.disk.list(Path::new("")).await? {
            if !is_camera(&camera) {
                continue;
            }
            let path = Path::new(&camera);
            let known = self.state().open.contains_key(&camera);
            let days = recover::days(&self.disk, path).await?;
            let settled = if known {
                days.len().saturating_sub(2)
            } else {
                days.len()
            };
            for &day_ms in &days[..settled] {
                let names = self.disk.list(&path.join(day(day_ms))).await?;
                let day = Listed::of(&names).day();
                self.state().holdings.set_day(&camera, day_ms, day);
            }
            if !known {
                self.set_limits(&camera, self.others);
            }
        }
        self.state().is_counted = true;
        Ok(())
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
            if !self.state().is_counted
                && let Err(error) = self.count().await
            {
                self.state().error = Some(format!("cannot list the volume: {error}"));
            } else if let Err(error) = self.keep_limits().await {
                self.state().error = Some(format!("cannot delete old segments: {error}"));
            }
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
        for _ in 0..DELETIONS_MAX {
            let free = self.disk.free().await?;
            let now_ms = u64::try_from(unix_us(SystemTime::now()) / 1000).unwrap_or(0);
            let victim = self.state().holdings.next(&self.limits, now_ms, free);
            let Some(victim) = victim else {
                break;
            };
            self.delete(&victim).await?;
        }
        Ok(())
    }

    /// The disk is full: deletes the oldest segments until so many bytes are free, and the reserve.
    /// Whether something was deleted, or there is room again.
    pub(super) async fn make_room(&self, bytes: u64) -> io::Result<bool> {
        let _one = self.deletes.lock().await;
        let wanted = bytes.saturating_add(self.limits.reserve_bytes);
        self.state().holdings.look_again();
        let mut deleted = false;
        for _ in 0..DELETIONS_MAX {
            let free = self.disk.free().await?.unwrap_or(0);
            if free >= wanted {
                return Ok(true);
            }
            let victim = self.state().holdings.for_room(wanted - free);
            let Some(victim) = victim else {
                break;
            };
            deleted |= self.delete(&victim).await?;
        }
        Ok(deleted)
    }

    /// Deletes segments of a day. Whether there were some that could be deleted.
    async fn delete(&self, victim: &Victim) -> io::Result<bool> {
        let camera = Path::new(&victim.camera);
        let directory = camera.join(day(victim.day_ms));
        let listed = Listed::of(&self.disk.list(&directory).await?);
        let protected = protect::list(&self.disk, camera).await?;
        let mut chosen = choose(&listed.closed, &protected, victim.enough);
        self.keep_what_is_not_copied(victim, &mut chosen);
        for segment in &chosen {
            self.delete_one(&directory, segment).await?;
            let place = Why::ALL.iter().position(|why| *why == victim.why);
            self.counters.deleted[place.unwrap_or(0)].one();
            self.counters.deleted_bytes.add(segment.bytes);
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
        Ok(!chosen.is_empty())
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

fn forget(state: &mut State, camera: &str, progress: &Arc<Progress>) {
    if let Some(open) = state.open.get_mut(camera) {
        open.retain(|it| !Arc::ptr_eq(it, progress));
    }
}
