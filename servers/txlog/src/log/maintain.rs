//! What a log does from time to time, beside appends: it removes records that need not be kept,
//! writes its mark, and sees whether its directory is still there.
//!
//! Locks are taken in this order: the active segment, the names of removed segments, the file of
//! named cursors, the roster of producers, the mark.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError};

use tokio::sync::{MutexGuard, OwnedMutexGuard};

use super::error::DIRECTORY;
use super::mark::{Kind, MARK_NAME, Mark};
use super::retain::Kept;
use super::segment::{Segment, name_of};
use super::write::{Active, Rotated};
use super::{Disk, End, Log, LogError, Shared, now_ms};

impl<D: Disk> Log<D> {
    /// To be called from time to time, such as each second:
    ///
    /// - if the directory or its newest file was removed or replaced, the log takes no more
    ///   records. (It sees this here and when a new segment begins. Until then it acknowledges
    ///   records that nobody will find.);
    /// - a segment with a record that is too old is followed by a new one, unless an append is
    ///   under way, which does the same;
    /// - segments that need not be kept are removed;
    /// - what is known of [producers](super::producers) is written, if a segment has begun;
    /// - the [mark](super::mark) is written, if records were appended;
    /// - the [named cursors](super::cursors) are read for the figures, until that was done.
    ///
    /// A removal that fails keeps none of the others from being done.
    ///
    /// # Errors
    ///
    /// [`LogError::Displaced`], for good; [`LogError::Io`], after which the next call tries again,
    /// except that a new segment which could not be made fails the log. (If it could not, as there
    /// was no descriptor for its file, records go into the earlier one, and the next call, or a
    /// later append, tries again.)
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next call does the rest. A new segment that was begun is completed.
    pub async fn maintain(&self) -> Result<(), LogError> {
        let shared = &self.shared;
        shared.stay_in_place().await?;
        if let Ok(active) = Arc::clone(&shared.active).try_lock_owned()
            && active.is_sound
            && shared.is_full(&active, now_ms())
        {
            // What was put off is told below.
            let _ = rotate_alone(shared, active).await?;
        }
        let removed = shared.retain().await;
        let noted = shared.note().await;
        shared.cursors.look(shared).await;
        removed.and(noted)?;
        shared.put_off().map_or(Ok(()), Err)
    }

    /// Sees whether a record could be stored, without storing one: the [mark](super::mark) is
    /// written once more and synced, and there has to be room on the disk for what the last segment
    /// grows by.
    ///
    /// Limits of a user or a process, which only a larger file meets, are not seen.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`], [`LogError::NoRoom`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn look(&self) -> Result<(), LogError> {
        let shared = &self.shared;
        let written = shared.mark.lock().await.rewrite().await;
        written.map_err(LogError::io("write", MARK_NAME))?;
        let room = shared.disk.room().await;
        let room = room.map_err(LogError::io("ask for the room on", DIRECTORY))?;
        let needed = shared.config.ahead_bytes.max(self.batch_bytes_max() as u64);
        match room {
            Some(free) if free < needed => Err(LogError::NoRoom { free, needed }),
            _ => Ok(()),
        }
    }

    /// Removes the segments that need not be kept. The log does this itself when a segment is
    /// full, and in [`maintain`](Self::maintain). Returns how many it has removed.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`]. The next call tries failed removals again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next call removes the rest.
    pub async fn retain(&self) -> Result<usize, LogError> {
        self.shared.retain().await
    }
}

impl<D: Disk> Shared<D> {
    pub(super) fn halted(&self) -> Option<LogError> {
        self.halt.get().cloned()
    }

    /// Takes no more records from now on, if the log is not where it was opened.
    pub(super) async fn stay_in_place(&self) -> Result<(), LogError> {
        self.halted().map_or(Ok(()), Err)?;
        let Some(newest) = self.newest() else {
            return Ok(());
        };
        let Some(file) = newest.kept() else {
            // It was followed by a new one this moment, for which the same is done.
            return Ok(());
        };
        let failed = LogError::io("look for", &newest.name);
        let displaced = self.disk.displaced(&newest.name, &*file).await;
        let Some(what) = displaced.map_err(failed)? else {
            return Ok(());
        };
        if !(self.newest()).is_some_and(|later| Arc::ptr_eq(&later, &newest)) {
            // The log may have removed it itself. The next call looks at the newer one.
            return Ok(());
        }
        // The first reason stays.
        let _ = self.halt.set(LogError::Displaced { what });
        self.halted().map_or(Ok(()), Err)
    }

    /// Why the last segment, which is full, is not followed by a new one.
    pub(super) fn put_off(&self) -> Option<LogError> {
        self.lock_put_off().clone()
    }

    pub(super) fn set_put_off(&self, why: Option<LogError>) {
        *self.lock_put_off() = why;
    }

    fn lock_put_off(&self) -> std::sync::MutexGuard<'_, Option<LogError>> {
        self.put_off.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn newest(&self) -> Option<Arc<Segment<D::File>>> {
        self.segments().last().map(Arc::clone)
    }

    /// How far the records are durable.
    pub(super) fn set_end(&self, end: End) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    /// Writes what is known of producers, and the mark, also if the first of them fails: without
    /// a mark, a loss of the latest records would not be noticed.
    pub(super) async fn note(&self) -> Result<(), LogError> {
        let known = self.roster.write(&self.disk).await;
        let marked = self.write_mark().await;
        known.and(marked.map_err(LogError::io("write", MARK_NAME)))
    }

    /// Writes the mark, if records have become durable since the last one.
    pub(super) async fn write_mark(&self) -> io::Result<()> {
        let mut mark = self.mark.lock().await;
        let end = *self.end.lock().unwrap_or_else(PoisonError::into_inner);
        mark.write(Mark {
            log_id: self.log_id,
            epoch: self.epoch,
            segment: end.segment,
            next: end.next,
            bytes: end.bytes,
            kind: Kind::Log,
        })
        .await?;
        let marked = (now_ms(), end.next);
        *self.marked.lock().unwrap_or_else(PoisonError::into_inner) = marked;
        Ok(())
    }

    async fn retain(&self) -> Result<usize, LogError> {
        self.remove_expired(self.doomed.lock().await).await
    }

    /// Does nothing if another call is doing this already.
    pub(super) async fn retain_unless_under_way(&self) -> Result<usize, LogError> {
        match self.doomed.try_lock() {
            Ok(doomed) => self.remove_expired(doomed).await,
            Err(_) => Ok(0),
        }
    }

    async fn remove_expired(
        &self,
        mut doomed: MutexGuard<'_, VecDeque<String>>,
    ) -> Result<usize, LogError> {
        let retention = self.limits().retention;
        self.doom(&mut doomed, |segments, next| {
            retention.expired(segments, next, now_ms())
        });
        self.remove(doomed).await
    }

    /// Gives up as many of the oldest segments as `count` says: they cannot be read any more.
    pub(super) fn doom(
        &self,
        doomed: &mut VecDeque<String>,
        count: impl FnOnce(&[Kept], u64) -> usize,
    ) {
        let mut segments = self.segments();
        let kept: Vec<Kept> = (0..segments.len())
            .map(|at| kept(&segments[at..]))
            .collect();
        let count = count(&kept, *self.next.borrow());
        doomed.extend(segments.drain(..count).map(|segment| segment.name.clone()));
        let first = segments.first().map_or(0, |segment| segment.first);
        self.readers.forget_before(first);
    }

    /// Removes the files of segments that were given up, one by one, each durably before the next:
    /// if a removal fails or is interrupted, the remaining files have no gap.
    pub(super) async fn remove(
        &self,
        mut doomed: MutexGuard<'_, VecDeque<String>>,
    ) -> Result<usize, LogError> {
        let mut removed = 0;
        if !doomed.is_empty() {
            // What it is to cover, these files may be the last to tell.
            self.roster.write(&self.disk).await?;
        }
        while let Some(name) = doomed.front() {
            match self.disk.remove(name).await {
                // An interrupted call may have removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result.map_err(LogError::io("remove", name))?,
            }
            let failed = LogError::io("sync the names in", DIRECTORY);
            self.disk.sync_names().await.map_err(failed)?;
            doomed.pop_front();
            removed += 1;
        }
        Ok(removed)
    }
}

/// Begins a new segment between two batches, in a task of its own: half a segment must not be left
/// if the caller is dropped. If it fails, the log has failed, since there may be half a segment.
pub(super) async fn rotate_alone<D: Disk>(
    shared: &Arc<Shared<D>>,
    mut active: OwnedMutexGuard<Active<D::File>>,
) -> Result<Rotated, LogError> {
    let shared = Arc::clone(shared);
    let rotated = evenkeel::spawn(async move {
        active.is_sound = false;
        let rotated = shared.rotate(&mut active).await.map_err(|error| {
            let failed = LogError::io("make", &name_of(active.next));
            let _ = shared.halt.set(failed(error));
            shared.halted().unwrap_or(LogError::Closed)
        })?;
        active.is_sound = true;
        Ok(rotated)
    });
    // Else the runtime has ended, and the log with it.
    rotated.await.unwrap_or(Err(LogError::Closed))
}

/// The facts about the first of these segments.
fn kept<F>(segments: &[Arc<Segment<F>>]) -> Kept {
    let (segment, following) = (&segments[0], segments.get(1));
    // Where it is not known when the newest record was accepted: before the next segment began.
    let newest_ms = segment.newest_ms();
    let newest_ms = newest_ms.or_else(|| following.map(|following| following.head.created_ms));
    Kept {
        first: segment.first,
        newest_ms: newest_ms.unwrap_or(u64::MAX),
        bytes: segment.bytes(),
    }
}
