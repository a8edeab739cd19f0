//! Reads that miss the page cache: by threads, or by the kernel's completion queue.
//!
//! A read that hits the cache takes a thread some microseconds; one that misses holds it for as
//! long as the device takes. Threads do up to [`THREADS`] reads at a time without asking which it
//! will be: fewer thread switches are not possible. While there are that many, the next read asks
//! only the cache, and on a miss goes to the completion queue. Reads of less than [`RING_MIN`] are
//! so short that the queue would cost more than the thread.
//!
//! All orderings are `Relaxed`: the number of reads only has to be about right, `unasked` is a
//! hint, and a ring that is made while the device closes is closed when it is waited for.

use std::any::Any;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::sched::config::Config;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, OnceLock};

#[cfg(target_os = "linux")]
use super::ring::{CompletionQueue, Read, Reply};

/// How many reads of a device threads do at a time, if there is a ring for more.
const THREADS: usize = 4;
/// The shortest read that goes through the ring. Reads of 4 KiB, 32 at a time, were 5 to 21 %
/// slower through it than by threads; reads of 64 KiB were not.
const RING_MIN: usize = 64 << 10;

/// Keeps a file open while the kernel reads it.
pub(crate) type Keeper = Arc<dyn Any + Send + Sync>;

/// How reads that wait for a device are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum DiskBackend {
    /// There were never so many reads at a time that a completion queue was tried.
    #[default]
    Untried,
    /// By threads.
    Threads,
    /// A few by threads, and the others by the kernel's completion queue.
    IoUring,
}

impl std::fmt::Display for DiskBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            DiskBackend::Untried => "untried",
            DiskBackend::Threads => "threads",
            DiskBackend::IoUring => "io_uring",
        })
    }
}

/// How reads are done in this runtime, and why not otherwise.
#[derive(Debug)]
pub(crate) struct Backend {
    allowed: bool,
    thread_name: String,
    found: Mutex<(DiskBackend, String)>,
}

impl Backend {
    pub(crate) fn new(config: &Config) -> Self {
        let off = "`Builder::disk_ring` was set to false".to_owned();
        let elsewhere = "only Linux has io_uring".to_owned();
        let (allowed, found) = if !cfg!(target_os = "linux") {
            (false, (DiskBackend::Threads, elsewhere))
        } else if config.disk_ring {
            (true, (DiskBackend::Untried, String::new()))
        } else {
            (false, (DiskBackend::Threads, off))
        };
        Self {
            allowed,
            thread_name: format!("{}-disk-r", config.thread_name),
            found: Mutex::new(found),
        }
    }

    pub(crate) fn read(&self) -> (DiskBackend, String) {
        self.found.lock().clone()
    }
}

#[derive(Debug)]
pub(crate) struct Misses {
    backend: Arc<Backend>,
    reading: AtomicUsize,
    /// Whether the cache is not asked: the file system cannot, or there is no ring.
    unasked: AtomicBool,
    closed: AtomicBool,
    #[cfg(target_os = "linux")]
    ring: OnceLock<Option<CompletionQueue<Keeper>>>,
}

pub(crate) enum Outcome {
    Done(Vec<u8>),
    /// The ring has the read now.
    #[cfg(target_os = "linux")]
    Asked(Arc<Reply>),
}

impl Misses {
    pub(crate) fn new(backend: Arc<Backend>) -> Self {
        Self {
            unasked: AtomicBool::new(!backend.allowed),
            backend,
            reading: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            #[cfg(target_os = "linux")]
            ring: OnceLock::new(),
        }
    }

    /// Reads at an offset: once, or until the buffer is full if `exact`.
    pub(crate) fn read(
        &self,
        file: &File,
        keeper: Keeper,
        buffer: Vec<u8>,
        offset: u64,
        exact: bool,
    ) -> io::Result<Outcome> {
        // Relaxed: see the module.
        let before = self.reading.fetch_add(1, Ordering::Relaxed);
        let _leave = Leaving(&self.reading);
        let by_thread = before < THREADS || buffer.len() < RING_MIN;
        if by_thread || self.unasked.load(Ordering::Relaxed) {
            return read_by_thread(file, buffer, (offset, 0), exact).map(Outcome::Done);
        }
        self.read_beside(file, keeper, buffer, offset, exact)
    }

    #[cfg(not(target_os = "linux"))]
    fn read_beside(
        &self,
        file: &File,
        _keeper: Keeper,
        buffer: Vec<u8>,
        offset: u64,
        exact: bool,
    ) -> io::Result<Outcome> {
        read_by_thread(file, buffer, (offset, 0), exact).map(Outcome::Done)
    }

    #[cfg(target_os = "linux")]
    fn read_beside(
        &self,
        file: &File,
        keeper: Keeper,
        mut buffer: Vec<u8>,
        offset: u64,
        exact: bool,
    ) -> io::Result<Outcome> {
        let filled = match read_cached(file, &mut buffer, offset, exact)? {
            Cached::All(filled) => {
                buffer.truncate(filled);
                return Ok(Outcome::Done(buffer));
            }
            Cached::Some(filled) => filled,
            Cached::Unknown => {
                // Relaxed: see the module.
                self.unasked.store(true, Ordering::Relaxed);
                0
            }
        };
        let Some(ring) = self.ring() else {
            return read_by_thread(file, buffer, (offset, filled), exact).map(Outcome::Done);
        };
        let read = Read::new((keeper, file.as_raw_fd()), buffer, (offset, filled), exact);
        let reply = read.reply();
        match ring.submit(read) {
            Ok(()) => Ok(Outcome::Asked(reply)),
            Err(read) => {
                let (buffer, filled) = read.into_parts();
                read_by_thread(file, buffer, (offset, filled), exact).map(Outcome::Done)
            }
        }
    }

    /// The ring, made at its first use.
    #[cfg(target_os = "linux")]
    fn ring(&self) -> Option<&CompletionQueue<Keeper>> {
        let make = || {
            let made = CompletionQueue::start(self.backend.thread_name.clone());
            let found = match &made {
                Ok(_) => (DiskBackend::IoUring, String::new()),
                Err(error) => (
                    DiskBackend::Threads,
                    format!("the kernel gives no completion queue: {error}"),
                ),
            };
            *self.backend.found.lock() = found;
            if made.is_err() {
                // Relaxed: see the module.
                self.unasked.store(true, Ordering::Relaxed);
            }
            made.ok()
        };
        // Relaxed: see the module.
        if self.closed.load(Ordering::Relaxed) {
            return None;
        }
        self.ring.get_or_init(make).as_ref()
    }

    /// Closes the ring, which ends once its reads have ended.
    pub(crate) fn close(&self) {
        // Relaxed: see the module.
        self.closed.store(true, Ordering::Relaxed);
        #[cfg(target_os = "linux")]
        if let Some(Some(ring)) = self.ring.get() {
            ring.close();
        }
    }

    /// Waits for the ring to end. Returns false if it has not by the deadline.
    pub(crate) fn wait(&self, deadline: Instant) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(Some(ring)) = self.ring.get() {
            ring.close();
            return ring.wait(deadline);
        }
        let _ = deadline;
        true
    }

    pub(crate) fn done(&self) -> u64 {
        #[cfg(target_os = "linux")]
        if let Some(Some(ring)) = self.ring.get() {
            return ring.done();
        }
        0
    }
}

struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        // Relaxed: see the module.
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "more reads ended than began");
    }
}

fn read_by_thread(
    file: &File,
    mut buffer: Vec<u8>,
    (offset, mut filled): (u64, usize),
    exact: bool,
) -> io::Result<Vec<u8>> {
    if exact {
        file.read_exact_at(&mut buffer[filled..], offset + filled as u64)?;
        return Ok(buffer);
    }
    // A single read returns no more than the bytes that were in the cache.
    while filled == 0 && !buffer.is_empty() {
        match file.read_at(&mut buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
            Ok(count) => filled = count,
        }
        break;
    }
    buffer.truncate(filled);
    Ok(buffer)
}

/// How much of a read was in the cache.
#[cfg(target_os = "linux")]
enum Cached {
    /// All of it, or up to the end of the file: this many bytes.
    All(usize),
    /// This many bytes, and not the next.
    Some(usize),
    /// The file system cannot tell.
    Unknown,
}

#[cfg(target_os = "linux")]
fn read_cached(file: &File, buffer: &mut [u8], offset: u64, exact: bool) -> io::Result<Cached> {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    let mut filled = 0;
    while filled < buffer.len() {
        let mut rest = [IoSliceMut::new(&mut buffer[filled..])];
        let at = offset + filled as u64;
        match preadv2(file, &mut rest, at, ReadWriteFlags::NOWAIT) {
            Ok(0) if exact => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::AGAIN) => return Ok(Cached::Some(filled)),
            Err(Errno::INTR) => {}
            Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => return Ok(Cached::Unknown),
            Err(error) => return Err(error.into()),
        }
        if !exact {
            break;
        }
    }
    Ok(Cached::All(filled))
}
