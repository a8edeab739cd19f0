//! Pipes through which the kernel moves bytes from one socket to another, and their pool.
//!
//! A pipe is two descriptors and up to 64 pages of the kernel's memory, which is limited for all
//! processes of a user together (`pipe-user-pages-soft`, 64 MiB). So a pipe is lent only while
//! bytes are in it or about to be, and at most [`PIPES_MAX`] are open. Where there is none to be
//! had, the caller copies instead: that is slower, and goes on.
//!
//! A pipe in the pool is empty. One that is dropped with bytes in it is closed.
//!
//! The counters are Relaxed: they are statistics.

use std::fmt;

use crate::clock::Clock;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};

#[cfg(target_os = "linux")]
pub(crate) use linux::{Pipe, drain, fill};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{Pipe, drain, fill};

/// The most pipes of a runtime. With their sizes they have two thirds of the pages that a user may
/// have.
const PIPES_MAX: usize = 512;

/// So many pipes are large, which makes for fewer system calls; the others have the system's 64
/// KiB. The pages of a network card's packets take a place in the pipe each, however little is in
/// them.
const LARGE_MAX: usize = 64;

/// The most empty pipes that are kept.
const IDLE_MAX: usize = 64;

/// How long after a refusal no pipe is asked for. Trying costs a system call; nobody misses a pipe
/// that is there a little earlier.
const REFUSED_FOR_NS: u64 = 100_000_000;

/// The pipes of one runtime.
pub(crate) struct Pipes(Arc<Pool>);

struct Pool {
    clock: Clock,
    stock: Mutex<Stock>,
    refused: AtomicU64,
}

#[derive(Default)]
struct Stock {
    idle: Vec<Pipe>,
    open: usize,
    /// Until when none is asked for, in nanoseconds.
    refused_until: u64,
}

/// How many pipes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) open: usize,
    pub(crate) idle: usize,
    /// How often there was none.
    pub(crate) refused: u64,
}

/// A pipe, lent by the pool until it is dropped.
pub(crate) struct Lent {
    /// `Some` until it is dropped.
    pipe: Option<Pipe>,
    /// How many bytes are in it.
    len: usize,
    pool: Arc<Pool>,
}

impl Pipes {
    pub(crate) fn new(clock: Clock) -> Self {
        Self(Arc::new(Pool {
            clock,
            stock: Mutex::new(Stock::default()),
            refused: AtomicU64::new(0),
        }))
    }

    /// Lends an empty pipe. `None` if the system or the limit allows no more.
    pub(crate) fn lend(&self) -> Option<Lent> {
        let pipe = self.0.take();
        if pipe.is_none() {
            // Relaxed: see the module.
            self.0.refused.fetch_add(1, Ordering::Relaxed);
        }
        Some(Lent {
            pipe: Some(pipe?),
            len: 0,
            pool: Arc::clone(&self.0),
        })
    }

    pub(crate) fn census(&self) -> Census {
        let stock = self.0.stock.lock();
        Census {
            open: stock.open,
            idle: stock.idle.len(),
            // Relaxed: see the module.
            refused: self.0.refused.load(Ordering::Relaxed),
        }
    }
}

impl Pool {
    fn take(&self) -> Option<Pipe> {
        let now = self.clock.nanos();
        let mut stock = self.stock.lock();
        if let Some(pipe) = stock.idle.pop() {
            return Some(pipe);
        }
        if stock.open >= PIPES_MAX || now < stock.refused_until {
            return None;
        }
        let before = stock.open;
        stock.open += 1;
        // Others need not wait for the system.
        drop(stock);
        let made = Pipe::new(before);
        if made.is_none() {
            let mut stock = self.stock.lock();
            stock.open -= 1;
            stock.refused_until = now + REFUSED_FOR_NS;
        }
        made
    }

    /// Takes back a pipe, and keeps it if it may be kept.
    fn take_back(&self, pipe: Pipe, is_empty: bool) {
        let mut stock = self.stock.lock();
        if is_empty && stock.idle.len() < IDLE_MAX {
            stock.idle.push(pipe);
            return;
        }
        stock.open -= 1;
        drop(stock);
        drop(pipe);
    }
}

impl Lent {
    pub(crate) fn pipe(&self) -> &Pipe {
        match &self.pipe {
            Some(pipe) => pipe,
            None => unreachable!("only the drop empties it"),
        }
    }

    /// How many bytes are in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn note_filled(&mut self, count: usize) {
        self.len += count;
    }

    pub(crate) fn note_drained(&mut self, count: usize) {
        debug_assert!(count <= self.len, "{count} of {} bytes", self.len);
        self.len -= count.min(self.len);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            self.pool.take_back(pipe, self.len == 0);
        }
    }
}

impl fmt::Debug for Pipes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.census().fmt(f)
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("len", &self.len).finish()
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::pipe::{
        PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
    };
    use rustix::process::{Resource, getrlimit};

    use super::LARGE_MAX;
    use crate::sys::signal::broken_pipe_kills;

    /// The size of a large pipe, in bytes: 64 pages.
    const LARGE: usize = 256 * 1024;

    /// The size that a pipe has to have. The system gives smaller ones to a user who has too many
    /// pages in pipes, and such a pipe is worth less than a copy.
    const SIZE_MIN: usize = 64 * 1024;

    /// Pipes may take up to one in so many of the descriptors that the process may have: an accept
    /// that fails for want of one is worse than a copy.
    const OF_DESCRIPTORS: usize = 8;

    /// An empty pipe, or one that is lent.
    pub(crate) struct Pipe {
        read: OwnedFd,
        write: OwnedFd,
    }

    impl Pipe {
        /// Makes one beside those that are open. `None` if the system allows no more, or if the
        /// process would be killed by writing to a peer that has gone, which other writes prevent
        /// by a flag that `splice` does not have.
        pub(super) fn new(open: usize) -> Option<Self> {
            if broken_pipe_kills() || 2 * (open + 1) * OF_DESCRIPTORS > descriptors_max() {
                return None;
            }
            let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
            if open < LARGE_MAX {
                // Refused to a user who has too many pages: the size that it has will do.
                let _ = fcntl_setpipe_size(&write, LARGE);
            }
            let size = fcntl_getpipe_size(&write).ok()?;
            (size >= SIZE_MIN).then_some(Self { read, write })
        }
    }

    fn descriptors_max() -> usize {
        let limit = getrlimit(Resource::Nofile).current;
        limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        })
    }

    /// Moves at most `len` bytes from a socket into an empty pipe, without waiting. Returns 0 at
    /// the end of the stream.
    ///
    /// It moves less than there is if the pipe has no more places for pages: a short transfer does
    /// not show that the socket is empty.
    pub(crate) fn fill(socket: &impl AsFd, pipe: &Pipe, len: usize) -> io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        Ok(splice(socket, None, &pipe.write, None, len, flags)?)
    }

    /// Moves at most `len` bytes from a pipe to a socket, without waiting.
    ///
    /// It moves less than there is if the socket has no more room, and if the thread gets a signal:
    /// Linux looks for one after each 16 pages.
    pub(crate) fn drain(pipe: &Pipe, socket: &impl AsFd, len: usize) -> io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        Ok(splice(&pipe.read, None, socket, None, len, flags)?)
    }
}

/// Other systems cannot do this: everything is copied.
#[cfg(not(target_os = "linux"))]
mod portable {
    use std::io;
    use std::os::fd::AsFd;

    pub(crate) enum Pipe {}

    impl Pipe {
        pub(super) fn new(_open: usize) -> Option<Self> {
            None
        }
    }

    pub(crate) fn fill(_socket: &impl AsFd, pipe: &Pipe, _len: usize) -> io::Result<usize> {
        match *pipe {}
    }

    pub(crate) fn drain(pipe: &Pipe, _socket: &impl AsFd, _len: usize) -> io::Result<usize> {
        match *pipe {}
    }
}

#[cfg(all(test, target_os = "linux", not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn pipes_are_lent_up_to_the_limit_and_kept_empty() {
        let pipes = Pipes::new(Clock::start());
        let count = |open, idle, refused| Census {
            open,
            idle,
            refused,
        };
        let first = pipes.lend().unwrap();
        assert_eq!(pipes.census(), count(1, 0, 0));
        drop(first);
        assert_eq!(pipes.census(), count(1, 1, 0));
        let mut dirty = pipes.lend().unwrap();
        dirty.note_filled(1);
        drop(dirty);
        assert_eq!(pipes.census(), count(0, 0, 0), "bytes would reach another");

        let mut lent: Vec<_> = std::iter::from_fn(|| pipes.lend()).collect();
        let most = lent.len();
        assert!((1..=PIPES_MAX).contains(&most), "{most}");
        assert_eq!(pipes.census(), count(most, 0, 1));
        lent.pop();
        // One that came back is there at once, whatever was refused.
        lent.push(pipes.lend().unwrap());
        drop(lent);
        let kept = most.min(IDLE_MAX);
        assert_eq!(pipes.census(), count(kept, kept, 1));
    }
}
