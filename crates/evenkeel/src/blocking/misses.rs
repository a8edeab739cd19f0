//! Reads that wait for the device: by which means, and how many.
//!
//! A read that finds its bytes in the cache costs a thread some microseconds, one that does not
//! holds it for as long as the device takes. Up to [`THREADS`] reads at a time are done by threads
//! without asking which it will be: fewer thread switches are not possible. When so many are under
//! way, the next asks the cache alone, and goes to the completion queue if it does not have the
//! bytes. Reads of less than [`RING_MIN`] are over so soon that the hop costs more than the thread.

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

/// How many reads of a device threads do at a time, where there is a ring for more.
const THREADS: usize = 4;
/// The least that is read through the ring. Reads of 4 KiB, 32 at a time, were 5 to 21 % slower
/// through it than by threads; those of 64 KiB were not.
const RING_MIN: usize = 64 << 10;

/// What keeps a file open while the kernel reads it.
pub(crate) type Keeper = Arc<dyn Any + Send + Sync>;

/// What does reads that wait for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiskBackend {
    /// There were never so many at a time that it was of use to ask for a completion queue.
    Untried,
    /// Threads do.
    Threads,
    /// A few are done by threads, and what comes on top of these by the kernel's completion queue.
    IoUring,
}

/// `untried`, `threads` or `io_uring`.
impl std::fmt::Display for DiskBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            DiskBackend::Untried => "untried",
            DiskBackend::Threads => "threads",
            DiskBackend::IoUring => "io_uring",
        })
    }
}

/// Which way reads are done in this runtime, for the accounts.
#[derive(Debug)]
pub(crate) struct Backend {
    allowed: bool,
    thread_name: String,
    found: Mutex<(DiskBackend, String)>,
}

impl Backend {
    pub(crate) fn new(config: &Config) -> Self {
        let off = "`Builder::disk_ring` was set to false".to_owned();
        let elsewhere = "io_uring is Linux's alone".to_owned();
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

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Misses {
    backend: Arc<Backend>,
    /// How many threads are in a read.
    reading: AtomicUsize,
    /// Its file system does not say whether the cache has something.
    unasked: AtomicBool,
    closed: AtomicBool,
    #[cfg(target_os = "linux")]
    ring: OnceLock<Option<CompletionQueue<Keeper>>>,
}

/// What became of a read on its thread.
pub(crate) enum Outcome {
    Done(Vec<u8>),
    /// It is the ring's now.
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

    /// Reads at an offset: once, or until the buffer is full if it is to be `exact`.
    pub(crate) fn read(
        &self,
        file: &File,
        keeper: Keeper,
        buffer: Vec<u8>,
        offset: u64,
        exact: bool,
    ) -> io::Result<Outcome> {
        // Relaxed, here and below: how many there are exactly does not matter.
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
                // Relaxed: a hint.
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

    /// The ring, which is made when it is first of use.
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
                // Relaxed: a hint.
                self.unasked.store(true, Ordering::Relaxed);
            }
            made.ok()
        };
        // Relaxed: a ring that is made all the same is closed when it is waited for.
        if self.closed.load(Ordering::Relaxed) {
            return None;
        }
        self.ring.get_or_init(make).as_ref()
    }

    /// Ends the ring once what is under way has ended.
    pub(crate) fn close(&self) {
        // Relaxed: the ring that is made at this moment is closed with its device.
        self.closed.store(true, Ordering::Relaxed);
        #[cfg(target_os = "linux")]
        if let Some(Some(ring)) = self.ring.get() {
            ring.close();
        }
    }

    /// Waits for what is under way. Returns false if some has not ended by the deadline.
    pub(crate) fn wait(&self, deadline: Instant) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(Some(ring)) = self.ring.get() {
            ring.close();
            return ring.wait(deadline);
        }
        let _ = deadline;
        true
    }

    /// How many reads the ring has done.
    pub(crate) fn done(&self) -> u64 {
        #[cfg(target_os = "linux")]
        if let Some(Some(ring)) = self.ring.get() {
            return ring.done();
        }
        0
    }
}

/// Counts a thread out.
struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        // Relaxed: as where it is counted in.
        self.0.fetch_sub(1, Ordering::Relaxed);
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
    // What the cache had is all that a single read gives.
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

/// What the cache had.
#[cfg(target_os = "linux")]
enum Cached {
    /// All there is, so many bytes.
    All(usize),
    /// So many bytes, and not the next.
    Some(usize),
    /// The file system does not say.
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
