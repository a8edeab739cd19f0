//! All volumes and cameras that are recorded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use evenkeel::Class;
use evenkeel::task::JoinHandle;
use evenkeel::time::{Instant, timeout_at};
use tokio::sync::{oneshot, watch};

use super::backlog::{Budgets, Waiting};
use super::disk::{Disk, LocalDisk};
use super::queues::{Queue, Queues};
use super::report::{Report, Reported};
use super::retention::{CameraLimits, VolumeLimits};
use super::takes::Takes;
use super::tier::{Tier, TierStatus};
use super::timeline::Timeline;
use super::volume::{Volume, VolumeStatus};
use super::writer::Writer;
use crate::hub::{Hub, SubscribeError};
use crate::mp4::origin::unix_us;

/// How recordings are made.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a segment is, and up to the next key frame.
    pub segment: Duration,
    /// How often volumes are synced: what a loss of power may cost.
    pub sync_every: Duration,
    /// What may wait for disks.
    pub budgets: Budgets,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            segment: Duration::from_secs(60),
            sync_every: Duration::from_secs(5),
            budgets: Budgets::default(),
        }
    }
}

/// Why a camera is not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// There is no such volume.
    #[error("there is no volume named {0:?}; add it to the configuration first")]
    UnknownVolume(String),
    /// It is recorded already.
    #[error("camera {0:?} is recorded already")]
    Already(String),
    /// There is no such camera.
    #[error(transparent)]
    Camera(#[from] SubscribeError),
}

/// All recordings.
pub struct Recordings<D: Disk = LocalDisk> {
    settings: Settings,
    boot_us: i64,
    queues: Arc<Queues>,
    volumes: BTreeMap<String, Arc<Volume<D>>>,
    cameras: Mutex<BTreeMap<String, Camera<D>>>,
    /// Those that are recorded no longer, and have not come to their end.
    leaving: Mutex<Vec<Leaving<D>>>,
    rounds: Mutex<Vec<JoinHandle<()>>>,
}

/// A camera that is recorded.
struct Camera<D: Disk> {
    volume: Arc<Volume<D>>,
    queue: Arc<Queue>,
    report: Arc<Report>,
    /// Has `takes` take what there is, and end.
    ends: oneshot::Sender<()>,
    takes: JoinHandle<()>,
    /// Has `writes` write what waits, and end.
    stop: watch::Sender<bool>,
    writes: JoinHandle<()>,
}

/// A camera that is recorded no longer, until what came of it is written.
struct Leaving<D: Disk> {
    camera: String,
    volume: Arc<Volume<D>>,
    ends: JoinHandle<()>,
}

/// How the recording of a camera is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CameraStatus {
    /// The camera.
    pub camera: String,
    /// Its volume.
    pub volume: String,
    /// What waits for the disk.
    pub waiting: Waiting,
    /// What its tasks say.
    pub reported: Reported,
    /// Bytes of its complete segments.
    pub bytes: u64,
    /// When the oldest one begins.
    pub oldest_ms: Option<u64>,
}

impl<D: Disk> Recordings<D> {
    /// Makes volumes ready, by their names. Cameras are added before [`start`](Self::start).
    pub fn new(
        settings: Settings,
        disks: Vec<(String, D, VolumeLimits)>,
        others: CameraLimits,
    ) -> Self {
        let volumes = disks.into_iter().map(|(name, disk, limits)| {
            let volume = Volume::new(&name, disk, limits, others);
            (name, volume)
        });
        Self {
            settings,
            boot_us: unix_us(SystemTime::now()),
            queues: Queues::new(settings.budgets),
            volumes: volumes.collect(),
            cameras: Mutex::default(),
            leaving: Mutex::default(),
            rounds: Mutex::default(),
        }
    }

    /// Has the segments of a volume copied to a store. Before [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// [`RecordError::UnknownVolume`].
    pub fn set_tier(&self, volume: &str, tier: &Arc<Tier>) -> Result<(), RecordError> {
        let unknown = || RecordError::UnknownVolume(volume.to_owned());
        let volume = self.volumes.get(volume).ok_or_else(unknown)?;
        volume.set_tier(Arc::clone(tier));
        Ok(())
    }

    /// How each store is doing that segments are copied to.
    pub fn tiers_status(&self) -> Vec<TierStatus> {
        let tiers = self.volumes.values().filter_map(|volume| volume.tier());
        // Volumes may share one.
        let tiers = tiers.map(|tier| tier.status());
        let tiers: BTreeMap<_, _> = tiers.map(|status| (status.name.clone(), status)).collect();
        tiers.into_values().collect()
    }

    /// Begins the rounds in which volumes are synced, trimmed and copied.
    pub fn start(&self) {
        let mut rounds = self.rounds();
        for volume in self.volumes.values() {
            let syncs = Arc::clone(volume).sync_rounds(self.settings.sync_every);
            rounds.push(evenkeel::spawn_in(Class::BULK, syncs));
            let trims = Arc::clone(volume).trim_rounds();
            rounds.push(evenkeel::spawn_in(Class::BULK, trims));
            if let Some(tier) = volume.tier() {
                let copies = Arc::clone(tier).copy_rounds(Arc::clone(volume));
                rounds.push(evenkeel::spawn_in(Class::BULK, copies));
            }
        }
    }

    /// Records a camera of the hub on a volume, until it is removed from either.
    ///
    /// # Errors
    ///
    /// [`RecordError`].
    pub fn record(
        &self,
        hub: &Hub,
        camera: &str,
        volume: &str,
        limits: CameraLimits,
    ) -> Result<(), RecordError> {
        let unknown = || RecordError::UnknownVolume(volume.to_owned());
        let volume = self.volumes.get(volume).ok_or_else(unknown)?;
        let mut cameras = self.cameras();
        if cameras.contains_key(camera) {
            return Err(RecordError::Already(camera.to_owned()));
        }
        let gops = hub.subscribe_gops(camera)?;
        volume.announce(camera);
        volume.set_limits(camera, limits);
        let report = Arc::new(Report::default());
        let queue = Arc::new(self.queues.queue(&report));
        let (stop, stopped) = watch::channel(false);
        let (ends, ended) = oneshot::channel();
        let takes = Takes::new(&queue, &report);
        let writer = Writer {
            before: self.leaving_from(volume, camera),
            camera: camera.to_owned(),
            volume: Arc::clone(volume),
            queue: Arc::clone(&queue),
            timeline: Timeline::new(self.settings.segment),
            report: Arc::clone(&report),
            boot_us: self.boot_us,
            stop: stopped,
        };
        let recorded = Camera {
            volume: Arc::clone(volume),
            queue,
            report,
            ends,
            takes: evenkeel::spawn(takes.run(gops, ended)),
            stop,
            writes: evenkeel::spawn_in(Class::BULK, writer.run()),
        };
        cameras.insert(camera.to_owned(), recorded);
        Ok(())
    }

    /// What a camera that is recorded may hold from now on.
    pub fn set_limits(&self, camera: &str, limits: CameraLimits) {
        if let Some(recorded) = self.cameras().get(camera) {
            recorded.volume.set_limits(camera, limits);
        }
    }

    /// Whether there is a volume of this name.
    pub fn has_volume(&self, volume: &str) -> bool {
        self.volumes.contains_key(volume)
    }

    /// Records a camera no longer. What came is still written, also of a group that no key frame
    /// has completed; what was recorded stays.
    pub fn forget(&self, camera: &str) -> bool {
        let Some(recorded) = self.cameras().remove(camera) else {
            return false;
        };
        let mut leaving = self.leaving();
        leaving.retain(|it| !it.ends.is_finished());
        leaving.push(Leaving {
            camera: camera.to_owned(),
            volume: Arc::clone(&recorded.volume),
            ends: evenkeel::spawn(recorded.leave()),
        });
        true
    }

    /// The end of what this volume still writes of a camera that was recorded there before.
    fn leaving_from(&self, volume: &Arc<Volume<D>>, camera: &str) -> Option<JoinHandle<()>> {
        let mut leaving = self.leaving();
        let is_it = |it: &Leaving<D>| it.camera == camera && Arc::ptr_eq(&it.volume, volume);
        let place = leaving.iter().position(is_it)?;
        Some(leaving.swap_remove(place).ends)
    }

    /// The volume on which a camera is recorded.
    pub fn volume_of(&self, camera: &str) -> Option<Arc<Volume<D>>> {
        self.cameras().get(camera).map(|it| Arc::clone(&it.volume))
    }

    /// How each camera is doing.
    pub fn cameras_status(&self) -> Vec<CameraStatus> {
        let cameras = self.cameras();
        cameras.iter().map(|(name, it)| status(name, it)).collect()
    }

    /// How this camera is doing; `None` if it is not recorded.
    pub fn status_of(&self, camera: &str) -> Option<CameraStatus> {
        self.cameras().get(camera).map(|it| status(camera, it))
    }

    /// How each volume is doing.
    pub fn volumes_status(&self) -> Vec<VolumeStatus> {
        self.volumes
            .values()
            .map(|volume| volume.status())
            .collect()
    }

    /// Bytes that wait for disks.
    pub fn waiting_bytes(&self) -> usize {
        self.queues.bytes()
    }

    /// Ends all recordings: what waits is written, and each camera's incomplete group as far as it
    /// has come, within this time. What is not is lost; segments are then completed by the next
    /// start. Returns the cameras that did not come to their end.
    pub async fn end(&self, limit: Duration) -> Vec<String> {
        for round in std::mem::take(&mut *self.rounds()) {
            round.abort();
        }
        let mut cameras = std::mem::take(&mut *self.cameras());
        let mut leaving = std::mem::take(&mut *self.leaving());
        let until = Instant::now() + limit;
        let mut ending = Vec::new();
        for volume in self.volumes.values() {
            let is_of = |_: &String, it: &mut Camera<D>| Arc::ptr_eq(&it.volume, volume);
            let of_it = cameras.extract_if(.., is_of).collect();
            let is_of = |it: &mut Leaving<D>| Arc::ptr_eq(&it.volume, volume);
            let left = leaving.extract_if(.., is_of).collect();
            let ends = end_on(Arc::clone(volume), of_it, left, until);
            ending.push(evenkeel::spawn(ends));
        }
        let mut late = Vec::new();
        for ends in ending {
            late.extend(ends.await.unwrap_or_default());
        }
        late.sort();
        late.dedup();
        late
    }

    fn leaving(&self) -> MutexGuard<'_, Vec<Leaving<D>>> {
        // A list, which no panic leaves half-changed.
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rounds(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        // A list, which no panic leaves half-changed.
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cameras(&self) -> MutexGuard<'_, BTreeMap<String, Camera<D>>> {
        // A map, which no panic leaves half-changed.
        self.cameras.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Disk> Camera<D> {
    /// Takes and writes what there is, and ends.
    async fn leave(self) {
        // Either may have ended by itself, as the camera was removed from the hub.
        _ = self.ends.send(());
        _ = self.takes.await;
        _ = self.stop.send(true);
        _ = self.writes.await;
    }
}

fn status<D: Disk>(name: &str, camera: &Camera<D>) -> CameraStatus {
    let (bytes, oldest_ms) = camera.volume.held(name);
    CameraStatus {
        camera: name.to_owned(),
        volume: camera.volume.name().to_owned(),
        waiting: camera.queue.waiting(),
        reported: camera.report.read(),
        bytes,
        oldest_ms,
    }
}

/// Ends the recordings of a volume, apart from those of others: one that hangs takes no time from
/// them. Returns the cameras that did not come to their end.
async fn end_on<D: Disk>(
    volume: Arc<Volume<D>>,
    cameras: Vec<(String, Camera<D>)>,
    leaving: Vec<Leaving<D>>,
    until: Instant,
) -> Vec<String> {
    let mut writers = Vec::new();
    for (name, recorded) in cameras {
        // It may have ended by itself, as its camera was removed.
        _ = recorded.ends.send(());
        writers.push((name, recorded.takes, recorded.stop, recorded.writes));
    }
    for (_, takes, stop, _) in &mut writers {
        // A writer ends with what has been taken: only when all of it is there.
        _ = timeout_at(until, takes).await;
        _ = stop.send(true);
    }
    let mut late = Vec::new();
    for (name, _, _, writes) in writers {
        if timeout_at(until, writes).await.is_err() {
            late.push(name);
        }
    }
    for it in leaving {
        if timeout_at(until, it.ends).await.is_err() {
            late.push(it.camera);
        }
    }
    // One that hangs has no more to say.
    _ = timeout_at(until, volume.sync()).await;
    late
}

#[cfg(test)]
mod tests;
