//! Writes the groups of one camera, in the class for bulk work. It alone waits for its disk: what
//! comes meanwhile waits in the backlog.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::task::JoinHandle;
use evenkeel::time::{sleep, timeout};
use tokio::sync::watch;

use super::backlog::{Taken, lost};
use super::disk::Disk;
use super::gap::{Gap, Reason};
use super::queues::Queue;
use super::recover::has_not_begun;
use super::report::Report;
use super::segment::{Beginning, Segment, WriteError};
use super::timeline::{Place, Timeline};
use super::volume::Volume;
use crate::media::Gop;

/// How long nothing comes before the segment is ended.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// The pause before something is tried again that was not begun, as the disk's queue was full.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause before a volume is looked at again that could not be read.
const PAUSE_RECOVERY: Duration = Duration::from_secs(5);
/// How often room is made for one group.
const ROOM_TRIES_MAX: u32 = 3;

/// The writer of a camera.
pub(super) struct Writer<D: Disk> {
    /// The end of the camera's writer before this one on the same volume, whose files are not to be
    /// touched until then.
    pub(super) before: Option<JoinHandle<()>>,
    pub(super) camera: String,
    pub(super) volume: Arc<Volume<D>>,
    pub(super) queue: Arc<Queue>,
    pub(super) timeline: Timeline,
    pub(super) report: Arc<Report>,
    pub(super) boot_us: i64,
    /// Becomes true when what waits is to be written, and nothing more comes.
    pub(super) stop: watch::Receiver<bool>,
}

impl<D: Disk> Writer<D> {
    /// Writes until it is told to stop, and then what still waits.
    pub(super) async fn run(mut self) {
        if let Some(before) = self.before.take() {
            // One that has panicked writes no longer either.
            _ = before.await;
        }
        loop {
            match self.volume.recover(&self.camera).await {
                Ok(None) => break,
                Ok(Some(trouble)) => {
                    self.report.failed(trouble);
                    break;
                }
                Err(error) => self.report.failed(format!(
                    "cannot read the volume {}: {error}",
                    self.volume.name()
                )),
            }
            if self.stops_within(PAUSE_RECOVERY).await {
                return;
            }
        }
        let mut segment = None;
        loop {
            // Whoever has dropped the sender wants nothing more either.
            let stops = *self.stop.borrow() || self.stop.has_changed().is_err();
            let next = if stops {
                self.queue.try_take()
            } else {
                tokio::select! {
                    taken = timeout(IDLE_MAX, self.queue.take()) => taken.ok(),
                    _ = self.stop.changed() => continue,
                }
            };
            match next {
                Some(taken) => {
                    self.report.begins();
                    segment = self.write(segment, taken).await;
                    self.queue.done();
                    self.report.ends();
                }
                None => {
                    self.end(segment.take()).await;
                    if stops {
                        return;
                    }
                }
            }
        }
    }

    /// Whether it is told to stop before this time has passed.
    async fn stops_within(&mut self, pause: Duration) -> bool {
        if *self.stop.borrow() {
            return true;
        }
        timeout(pause, self.stop.changed()).await.is_ok()
    }

    /// Writes a group into this segment or another one, which it returns.
    async fn write(&mut self, mut segment: Option<Segment<D>>, taken: Taken) -> Option<Segment<D>> {
        let Taken { gop, gap } = taken;
        let mut room_tries = 0;
        let mut place = self.timeline.place(&gop)?;
        loop {
            let written = self.attempt(&mut segment, &gop, gap, place).await;
            let reason = match written {
                Ok(()) => {
                    self.report.wrote(&gop);
                    return segment;
                }
                Err(error) => {
                    self.report.failed(format!("cannot write: {error}"));
                    match fault(&error) {
                        Fault::NotBegun => {
                            sleep(PAUSE).await;
                            // What was not begun is tried again, in the same segment.
                            place = match (segment.is_some(), place) {
                                (true, place) => Place::Same(place.origin()),
                                (false, place) => place,
                            };
                            continue;
                        }
                        Fault::Full if room_tries < ROOM_TRIES_MAX && self.has_room(&gop).await => {
                            room_tries += 1;
                            self.end(segment.take()).await;
                            place = self.timeline.place(&gop)?;
                            continue;
                        }
                        Fault::Full => Reason::DiskFull,
                        Fault::Failed => Reason::WriteFailed,
                        Fault::Unusable => Reason::Unusable,
                    }
                }
            };
            self.end(segment.take()).await;
            self.lose(&gop, gap, reason);
            return None;
        }
    }

    /// One attempt: begins another segment if the group's place is in one, and writes what is
    /// missing and the group.
    async fn attempt(
        &self,
        segment: &mut Option<Segment<D>>,
        gop: &Gop,
        gap: Option<Gap>,
        place: Place,
    ) -> Result<(), WriteError> {
        if matches!(place, Place::New(..)) || segment.is_none() {
            self.complete(segment.take()).await;
            let cause = match place {
                Place::New(_, cause) => cause,
                Place::Same(_) => super::timeline::Cause::First,
            };
            let camera = PathBuf::from(&self.camera);
            let beginning = Beginning {
                camera: &camera,
                gop,
                origin: place.origin(),
                cause,
                boot_us: self.boot_us,
            };
            let begun = Segment::begin(self.volume.disk(), beginning).await?;
            self.volume.opened(&self.camera, begun.progress());
            self.report.began();
            *segment = Some(begun);
        }
        if let Some(segment) = segment {
            segment.append(gap, gop, place.origin()).await?;
        }
        Ok(())
    }

    /// Ends the segment, and begins another one with the next group.
    async fn end(&mut self, segment: Option<Segment<D>>) {
        self.timeline.broke_off();
        self.complete(segment).await;
    }

    async fn complete(&self, segment: Option<Segment<D>>) {
        let Some(segment) = segment else {
            return;
        };
        let progress = Arc::clone(segment.progress());
        match segment.end().await {
            Ok(Some(ended)) => self.volume.ended(&self.camera, ended),
            Ok(None) => self.volume.given_up(&self.camera, &progress),
            Err(error) => {
                self.report.failed(format!("cannot end a segment: {error}"));
                self.volume.broke(&self.camera, &progress);
            }
        }
    }

    async fn has_room(&self, gop: &Gop) -> bool {
        match self.volume.make_room(gop.bytes() as u64 * 2).await {
            Ok(has_room) => has_room,
            Err(error) => {
                self.report.failed(format!("cannot make room: {error}"));
                false
            }
        }
    }

    /// The group is not written, nor is it what was missing before it.
    fn lose(&self, gop: &Gop, before: Option<Gap>, reason: Reason) {
        let gap = lost(gop, reason);
        self.report.lost(gap);
        self.queue
            .missing(before.map_or(gap, |before| before.and(gap)));
    }
}

/// What an error of writing means.
enum Fault {
    /// The disk has not begun, as it has too much to do: trying again may help.
    NotBegun,
    /// There is no room.
    Full,
    /// The disk refuses.
    Failed,
    /// The group cannot be written anywhere.
    Unusable,
}

fn fault(error: &WriteError) -> Fault {
    match error {
        WriteError::Unusable(_) => Fault::Unusable,
        WriteError::Disk(error) if has_not_begun(error) => Fault::NotBegun,
        WriteError::Disk(error) => match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Fault::Full,
            _ => Fault::Failed,
        },
    }
}
