//! Which files of earlier segments are open, to be read.
//!
//! A log may have more segments than a process may have files. So a file is opened when somebody
//! reads it, and stays open until another one needs its place. There are so many places and no
//! more, so a log never takes descriptors that were meant for connections. Each log has places of
//! its own: one whose disk hangs holds up no other.
//!
//! A read takes first the right to read, then a place for a file, and holds one of each. Whoever
//! has the right and no place finds a free one, or one whose file nobody reads: the others with the
//! right are fewer than the places.

use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::segment::Segment;
use super::{Disk, DiskFile};

/// The files of a log's earlier segments that are open.
#[derive(Debug)]
pub(super) struct Readers<F> {
    rights: Arc<Semaphore>,
    places: Arc<Semaphore>,
    table: Mutex<Table<F>>,
}

#[derive(Debug)]
struct Table<F> {
    /// By the first records of their segments; the one that was asked for last is the last.
    open: Vec<(u64, Arc<Opened<F>>)>,
    /// Segments that begin before this record were removed.
    removed_before: u64,
}

#[derive(Debug)]
struct Opened<F> {
    file: F,
    _place: OwnedSemaphorePermit,
}

/// A file that is being read.
#[derive(Debug)]
pub(super) struct Reading<F> {
    file: Lent<F>,
    // Dropped after the file, which leaves its place to who gets this right next.
    _right: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
enum Lent<F> {
    /// Of the last segment, which is open anyway.
    Kept(Arc<F>),
    Opened(Arc<Opened<F>>),
}

impl<F> Deref for Reading<F> {
    type Target = F;

    fn deref(&self) -> &F {
        match &self.file {
            Lent::Kept(file) => file,
            Lent::Opened(opened) => &opened.file,
        }
    }
}

impl<F: DiskFile> Readers<F> {
    /// Of a log that may have so many of them open.
    pub(super) fn new(files_max: usize) -> Self {
        let places = files_max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            rights: Arc::new(Semaphore::new(places)),
            places: Arc::new(Semaphore::new(places)),
            table: Mutex::new(Table {
                open: Vec::new(),
                removed_before: 0,
            }),
        }
    }

    /// A segment's file. Waits while as many others are read as may be. Who has one must not ask
    /// for another.
    pub(super) async fn open<D: Disk<File = F>>(
        &self,
        disk: &D,
        segment: &Segment<F>,
    ) -> io::Result<Reading<F>> {
        if let Some(file) = segment.kept() {
            return Ok(Reading {
                file: Lent::Kept(file),
                _right: None,
            });
        }
        let right = Arc::clone(&self.rights).acquire_owned().await;
        let _right = Some(right.map_err(io::Error::other)?);
        let first = segment.first;
        let known = self.lock().find(first);
        let opened = match known {
            Some(opened) => opened,
            None => {
                let _place = self.place().await;
                let file = disk.open(&segment.name).await?;
                self.lock().put(first, Arc::new(Opened { file, _place }))
            }
        };
        let file = Lent::Opened(opened);
        Ok(Reading { file, _right })
    }

    /// Closes the files of segments that were removed, unless they are being read.
    pub(super) fn forget_before(&self, first: u64) {
        let mut table = self.lock();
        table.removed_before = table.removed_before.max(first);
        table.open.retain(|&(of, _)| of >= first);
    }

    /// A place for a file, for who has the right to read.
    async fn place(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
                return place;
            }
            if !self.lock().close_one() {
                // One that was removed is being closed.
                evenkeel::task::yield_now().await;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table<F>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> Table<F> {
    fn find(&mut self, first: u64) -> Option<Arc<Opened<F>>> {
        let at = self.open.iter().position(|&(of, _)| of == first)?;
        let found = self.open.remove(at);
        let opened = Arc::clone(&found.1);
        self.open.push(found);
        Some(opened)
    }

    /// The file of a segment, or the one that another has opened meanwhile.
    fn put(&mut self, first: u64, opened: Arc<Opened<F>>) -> Arc<Opened<F>> {
        if let Some(other) = self.find(first) {
            return other;
        }
        if first >= self.removed_before {
            self.open.push((first, Arc::clone(&opened)));
        }
        opened
    }

    /// Closes the file that nobody has asked for for the longest time, of those that nobody reads.
    fn close_one(&mut self) -> bool {
        // Who reads one has got it from here, under the lock.
        let is_idle = |(_, opened): &(u64, Arc<Opened<F>>)| Arc::strong_count(opened) == 1;
        let idle = self.open.iter().position(is_idle);
        idle.map(|at| self.open.remove(at)).is_some()
    }
}
