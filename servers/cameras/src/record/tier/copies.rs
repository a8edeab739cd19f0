//! The rounds in which the segments of a volume are copied: of each camera in their order, of
//! several cameras at a time.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::time::sleep;
use futures_util::StreamExt;

use super::store::StoreError;
use super::upload::{CopyError, Upload};
use super::{Mark, Tier};
use crate::ingest::backoff::Backoff;
use crate::record::disk::Disk;
use crate::record::names::{Closed, DAY_MS, Name, day, day_start, is_camera};
use crate::record::recover::{self, Listed};
use crate::record::retention::day_of;
use crate::record::volume::Volume;

/// How often segments are looked for that were completed, besides when the volume says so.
const EVERY: Duration = Duration::from_secs(5);
/// The first pause after a failure.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// Segments of one camera that are copied before it is the next one's turn.
const TURN: usize = 8;
/// Cameras that are copied at a time, if memory is there for more.
const CAMERAS_MAX: usize = 16;

impl Tier {
    /// Copies what is complete on a volume, for as long as the task is there.
    pub(crate) async fn copy_rounds<D: Disk>(self: Arc<Self>, volume: Arc<Volume<D>>) {
        let mut backoff = Backoff::new(RETRY_FIRST, self.settings.retry_max);
        loop {
            match self.round(&volume).await {
                Ok(0) => {
                    backoff.succeeded();
                    volume.completed(EVERY).await;
                }
                Ok(_) => backoff.succeeded(),
                Err(()) => sleep(backoff.next(crate::ingest::random())).await,
            }
        }
    }

    /// Copies some of each camera. How many segments, or that something failed.
    async fn round<D: Disk>(&self, volume: &Volume<D>) -> Result<usize, ()> {
        let cameras = volume.disk().list(Path::new("")).await;
        let cameras = cameras.map_err(|error| self.failed(&wrong("", error)))?;
        let cameras = cameras.into_iter().filter(|name| is_camera(name));
        let at_a_time = (self.settings.memory / self.settings.part_bytes).clamp(1, CAMERAS_MAX);
        let copies = cameras.map(|camera| async move { self.turn(volume, &camera).await });
        let mut copies = futures_util::stream::iter(copies).buffer_unordered(at_a_time);
        let (mut copied, mut has_failed) = (0, false);
        while let Some(turn) = copies.next().await {
            match turn {
                Ok(segments) => copied += segments,
                Err(error) => {
                    has_failed = true;
                    self.failed(&error);
                }
            }
        }
        if has_failed {
            return Err(());
        }
        self.succeeded();
        Ok(copied)
    }

    /// Copies some segments of a camera. How many.
    async fn turn<D: Disk>(&self, volume: &Volume<D>, camera: &str) -> Result<usize, CopyError> {
        let known = self.marks().get(camera).cloned();
        let mark = match known {
            Some(mark) => mark,
            None => {
                let mark = self.mark(volume, camera).await?;
                self.marks().insert(camera.to_owned(), mark.clone());
                mark
            }
        };
        let path = Path::new(camera);
        let mut copied = 0;
        for segment in after(volume, camera, &mark).await? {
            let directory = path.join(day(segment.start_ms));
            let upload = Upload {
                tier: self,
                disk: volume.disk(),
                camera: path,
                directory: &directory,
                segment,
            };
            match upload.run().await {
                // It was counted as it was deleted.
                Err(error) if error.is_gone() => {}
                outcome => outcome?,
            }
            let mut marks = self.marks();
            marks
                .entry(camera.to_owned())
                .or_default()
                .copied(segment.start_ms);
            drop(marks);
            copied += 1;
        }
        Ok(copied)
    }

    /// What an earlier process has copied of a camera.
    async fn mark<D: Disk>(&self, volume: &Volume<D>, camera: &str) -> Result<Mark, CopyError> {
        let mut mark = Mark {
            newest_ms: self.newest(camera).await?,
            ..Mark::default()
        };
        let newest_day = day_of(mark.newest_ms);
        for day_ms in [newest_day.saturating_sub(DAY_MS), newest_day] {
            let path = Path::new(camera).join(day(day_ms));
            let names = volume.disk().list(&path).await;
            let here = Listed::of(&names.map_err(|error| wrong(camera, error))?);
            let there = self.day(camera, day_ms).await?;
            let is_late =
                |segment: &&Closed| segment.start_ms <= mark.newest_ms && !there.contains(segment);
            let late = here.closed.iter().filter(is_late);
            let late: Vec<u64> = late.map(|segment| segment.start_ms).collect();
            mark.late.extend(late);
        }
        Ok(mark)
    }

    /// When the newest segment of a camera begins that the store has; 0 if it has none.
    async fn newest(&self, camera: &str) -> Result<u64, StoreError> {
        let prefix = self.key(Path::new(camera)) + "/";
        let mut days = Vec::new();
        let mut after = None;
        loop {
            let (_, found, is_more) = self.store.list(&prefix, after.as_deref(), true).await?;
            let before = days.len();
            days.extend(found.iter().filter_map(|it| {
                let name = it.strip_prefix(&prefix)?.trim_end_matches('/');
                day_start(name)
            }));
            // Behind all that is in the last of them.
            after = found.last().map(|it| format!("{it}\u{7f}"));
            if !is_more || days.len() == before {
                break;
            }
        }
        for day_ms in days.into_iter().rev() {
            // A day may have an index alone, whose segment did not follow.
            if let Some(last) = self.day(camera, day_ms).await?.last() {
                return Ok(last.start_ms);
            }
        }
        Ok(0)
    }

    /// The segments of a day that the store has, in their order.
    pub(super) async fn day(&self, camera: &str, day_ms: u64) -> Result<Vec<Closed>, StoreError> {
        let prefix = self.key(&Path::new(camera).join(day(day_ms))) + "/";
        let (mut closed, mut after) = (Vec::new(), None::<String>);
        loop {
            let listed = self.store.list(&prefix, after.as_deref(), false).await?;
            let (keys, _, is_more) = listed;
            for key in &keys {
                let name = key.strip_prefix(&prefix).and_then(Name::parse);
                if let Some(Name::Closed(segment)) = name {
                    closed.push(segment);
                }
            }
            after = keys.last().cloned();
            if !is_more || after.is_none() {
                closed.sort_unstable();
                return Ok(closed);
            }
        }
    }
}

/// The next segments of a camera that are complete.
async fn after<D: Disk>(
    volume: &Volume<D>,
    camera: &str,
    mark: &Mark,
) -> Result<Vec<Closed>, CopyError> {
    let first_ms = mark.late.first().copied().unwrap_or(mark.newest_ms);
    let path = Path::new(camera);
    let days = recover::days(volume.disk(), path).await;
    let mut next = Vec::new();
    for day_ms in days.map_err(|error| wrong(camera, error))? {
        if day_ms < day_of(first_ms.min(mark.newest_ms)) {
            continue;
        }
        let names = volume.disk().list(&path.join(day(day_ms))).await;
        let listed = Listed::of(&names.map_err(|error| wrong(camera, error))?);
        let is_next = |segment: &Closed| !mark.has(segment.start_ms);
        next.extend(listed.closed.into_iter().filter(is_next));
        if next.len() >= TURN {
            break;
        }
    }
    next.truncate(TURN);
    Ok(next)
}

fn wrong(place: &str, error: io::Error) -> CopyError {
    CopyError::Disk(place.to_owned(), error)
}
