//! A user's descriptor on the runtime's readiness queues.
//!
//! The [`Source`] keeps the number that the descriptor had when it was registered, not the user's
//! value: that may answer with another number later, which would then be deregistered in its place.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::task::{Context, Poll, ready};

use super::guard::{AsyncFdReadyGuard, AsyncFdReadyMutGuard, Reported};
use crate::io::interest::{Interest, Ready};
use crate::net::source::{Direction, Source};
use crate::runtime::Handle;
use crate::sched::coop;

/// A descriptor of any kind, whose readiness tasks can wait for.
///
/// It is for what the runtime has no type of its own for: timers, events and watches of the kernel
/// (`timerfd`, `eventfd`, `inotify`), devices, sockets of other families, and descriptors that a
/// library owns. The user reads and writes with system calls of their own; the runtime says when.
///
/// # How to use it
///
/// Wait with [`readable`](Self::readable) or [`writable`](Self::writable), and make the system call
/// inside [`try_io`](AsyncFdReadyGuard::try_io) of the guard. Readiness is remembered until an
/// attempt finds that it would block; `try_io` notes that. [`async_io`](Self::async_io) does both
/// in a loop.
///
/// # What the descriptor has to be
///
/// - **Non-blocking** (`O_NONBLOCK`); this is not set here. With a blocking one, a task that was
///   told too much would stop its thread in the system call.
/// - **Watchable.** Regular files and directories are always ready, and the kernel refuses them:
///   use [`fs`](crate::fs).
/// - **Open for as long as this value lives.** `T` usually owns it, and is dropped after the
///   descriptor has been deregistered. If it is closed earlier, no more events come, and a waiter
///   waits until its runtime ends. Worse, the kernel may give its number to another descriptor,
///   which would be deregistered in its place.
/// - **Watched once.** A second `AsyncFd` of the same descriptor may be refused, and may also
///   disturb the first. Share one in an `Arc`, or duplicate the descriptor
///   ([`try_clone_to_owned`](BorrowedFd::try_clone_to_owned)): each duplicate has readiness of its
///   own, though all read from the same place.
///
/// A descriptor that is readable for ever does not hold up other tasks: a task that waits for it in
/// a loop yields as any other does.
///
/// Only readiness for reading and writing can be waited for; the kernel's urgent data and
/// exceptional conditions (`EPOLLPRI`) cannot.
///
/// # Examples
///
/// ```
/// # #[evenkeel::main]
/// # async fn main() -> std::io::Result<()> {
/// use std::io::{ErrorKind, Read, Write};
/// use std::os::unix::net::UnixStream;
///
/// use evenkeel::io::unix::AsyncFd;
///
/// let (stream, mut peer) = UnixStream::pair()?;
/// stream.set_nonblocking(true)?;
/// let stream = AsyncFd::new(stream)?;
/// peer.write_all(b"hello")?;
///
/// let mut buffer = [0; 16];
/// let length = loop {
///     let mut guard = stream.readable().await?;
///     match guard.try_io(|stream| stream.get_ref().read(&mut buffer)) {
///         Ok(result) => break result?,
///         Err(_would_block) => continue,
///     }
/// };
/// assert_eq!(&buffer[..length], b"hello");
/// # Ok(())
/// # }
/// ```
pub struct AsyncFd<T: AsRawFd> {
    // Dropped before `inner`, so that the descriptor is deregistered while it is open.
    source: Source<RawFd>,
    inner: T,
}

impl<T: AsRawFd> AsyncFd<T> {
    /// Watches a descriptor for reading and writing.
    ///
    /// `inner` must go on to answer with the same descriptor.
    ///
    /// # Errors
    ///
    /// - `PermissionDenied`: the descriptor is a regular file or a directory, which cannot be
    ///   watched.
    /// - `AlreadyExists`: the descriptor is watched already. Whether that is noticed depends on the
    ///   worker.
    /// - There is no current runtime, it has shut down, the descriptor is not open, or the system's
    ///   limit of watches is reached.
    ///
    /// `inner` is dropped; [`try_new`](Self::try_new) gives it back.
    pub fn new(inner: T) -> io::Result<Self> {
        Self::with_interest(inner, Interest::READABLE | Interest::WRITABLE)
    }

    /// Watches a descriptor for `interest` only, which saves the events of the other direction.
    ///
    /// To wait for another direction is an error.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_interest(inner: T, interest: Interest) -> io::Result<Self> {
        Ok(Self::try_with_interest(inner, interest)?)
    }

    /// As [`new`](Self::new), with an error that holds `inner`.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn try_new(inner: T) -> Result<Self, AsyncFdTryNewError<T>> {
        Self::try_with_interest(inner, Interest::READABLE | Interest::WRITABLE)
    }

    /// As [`with_interest`](Self::with_interest), with an error that holds `inner`.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn try_with_interest(inner: T, interest: Interest) -> Result<Self, AsyncFdTryNewError<T>> {
        let fd = inner.as_raw_fd();
        match watch(fd, interest) {
            Ok(source) => Ok(Self { source, inner }),
            Err(cause) => Err(AsyncFdTryNewError { inner, cause }),
        }
    }

    /// The value that was given to [`new`](Self::new).
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// The value that was given to [`new`](Self::new). It must go on to answer with the same
    /// descriptor.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Stops watching the descriptor, and gives it back. It is still open and non-blocking.
    pub fn into_inner(self) -> T {
        drop(self.source);
        self.inner
    }

    /// Waits until the descriptor is ready for any part of `interest`. The guard says for which.
    ///
    /// # Errors
    ///
    /// The runtime is shutting down, or the descriptor is not watched for this (`InvalidInput`).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: readiness is not consumed by waiting for it. Any number of tasks may wait at
    /// once.
    pub async fn ready(&self, interest: Interest) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        let reported = self.reported(interest).await?;
        Ok(AsyncFdReadyGuard::new(self, reported))
    }

    /// As [`ready`](Self::ready), with a guard that gives `&mut T`.
    ///
    /// # Errors
    ///
    /// As [`ready`](Self::ready).
    ///
    /// # Cancel safety
    ///
    /// As [`ready`](Self::ready).
    pub async fn ready_mut(
        &mut self,
        interest: Interest,
    ) -> io::Result<AsyncFdReadyMutGuard<'_, T>> {
        let reported = self.reported(interest).await?;
        Ok(AsyncFdReadyMutGuard::new(self, reported))
    }

    /// Waits until there is something to read, or the reading side is closed.
    ///
    /// # Errors
    ///
    /// As [`ready`](Self::ready).
    ///
    /// # Cancel safety
    ///
    /// As [`ready`](Self::ready).
    pub async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        self.ready(Interest::READABLE).await
    }

    /// As [`readable`](Self::readable), with a guard that gives `&mut T`.
    ///
    /// # Errors
    ///
    /// As [`ready`](Self::ready).
    ///
    /// # Cancel safety
    ///
    /// As [`ready`](Self::ready).
    pub async fn readable_mut(&mut self) -> io::Result<AsyncFdReadyMutGuard<'_, T>> {
        self.ready_mut(Interest::READABLE).await
    }

    /// Waits until there is room to write, or the writing side is closed.
    ///
    /// # Errors
    ///
    /// As [`ready`](Self::ready).
    ///
    /// # Cancel safety
    ///
    /// As [`ready`](Self::ready).
    pub async fn writable(&self) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        self.ready(Interest::WRITABLE).await
    }

    /// As [`writable`](Self::writable), with a guard that gives `&mut T`.
    ///
    /// # Errors
    ///
    /// As [`ready`](Self::ready).
    ///
    /// # Cancel safety
    ///
    /// As [`ready`](Self::ready).
    pub async fn writable_mut(&mut self) -> io::Result<AsyncFdReadyMutGuard<'_, T>> {
        self.ready_mut(Interest::WRITABLE).await
    }

    /// As [`readable`](Self::readable), for one waiter at a time: the waker of the latest call
    /// replaces the one before.
    ///
    /// # Errors
    ///
    /// As [`ready`](Self::ready).
    pub fn poll_read_ready(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'_, T>>> {
        let reported = self.poll_reported(cx, Direction::Read);
        reported.map_ok(|reported| AsyncFdReadyGuard::new(self, reported))
    }

    /// As [`poll_read_ready`](Self::poll_read_ready), with a guard that gives `&mut T`.
    ///
    /// # Errors
    ///
    /// As [`ready`](Self::ready).
    pub fn poll_read_ready_mut(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'_, T>>> {
        let reported = self.poll_reported(cx, Direction::Read);
        reported.map_ok(|reported| AsyncFdReadyMutGuard::new(self, reported))
    }

    /// As [`writable`](Self::writable), for one waiter at a time: the waker of the latest call
    /// replaces the one before.
    ///
    /// # Errors
    ///
    /// As [`ready`](Self::ready).
    pub fn poll_write_ready(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'_, T>>> {
        let reported = self.poll_reported(cx, Direction::Write);
        reported.map_ok(|reported| AsyncFdReadyGuard::new(self, reported))
    }

    /// As [`poll_write_ready`](Self::poll_write_ready), with a guard that gives `&mut T`.
    ///
    /// # Errors
    ///
    /// As [`ready`](Self::ready).
    pub fn poll_write_ready_mut(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'_, T>>> {
        let reported = self.poll_reported(cx, Direction::Write);
        reported.map_ok(|reported| AsyncFdReadyMutGuard::new(self, reported))
    }

    /// Waits until the descriptor is ready for `interest` and tries `operation`, and repeats this
    /// while it returns `WouldBlock`.
    ///
    /// `operation` has to return `WouldBlock` if the descriptor was not ready after all, and only
    /// then, because the next wait relies on it. So both directions are for an operation that needs
    /// both: one that only writes would take back that there is something to read.
    ///
    /// # Errors
    ///
    /// What `operation` returns, or as [`ready`](Self::ready).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe if an `operation` that returns `WouldBlock` has done nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[evenkeel::main]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::os::unix::net::UnixDatagram;
    ///
    /// use evenkeel::io::{Interest, unix::AsyncFd};
    ///
    /// let (one, other) = UnixDatagram::pair()?;
    /// one.set_nonblocking(true)?;
    /// let one = AsyncFd::with_interest(one, Interest::READABLE)?;
    /// other.send(b"hello")?;
    /// let mut buffer = [0; 16];
    /// let length = one.async_io(Interest::READABLE, |one| one.recv(&mut buffer)).await?;
    /// assert_eq!(&buffer[..length], b"hello");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn async_io<R>(
        &self,
        interest: Interest,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let mut guard = self.ready(interest).await?;
            if let Ok(result) = guard.try_io(|this| operation(&this.inner)) {
                return result;
            }
        }
    }

    /// As [`async_io`](Self::async_io), with `&mut T`.
    ///
    /// # Errors
    ///
    /// As [`async_io`](Self::async_io).
    ///
    /// # Cancel safety
    ///
    /// As [`async_io`](Self::async_io).
    pub async fn async_io_mut<R>(
        &mut self,
        interest: Interest,
        mut operation: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let mut guard = self.ready_mut(interest).await?;
            if let Ok(result) = guard.try_io(|this| operation(&mut this.inner)) {
                return result;
            }
        }
    }

    /// Tries `operation` if the descriptor is known to be ready for any part of `interest`, without
    /// waiting. The rules for `operation` are those of [`async_io`](Self::async_io).
    ///
    /// A descriptor that has just been made is not known to be ready before the next I/O check.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the descriptor is not ready, else what `operation` returns.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let reported = Reported::new(self.source.readiness().look(), interest);
        if reported.ready().is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut guard = AsyncFdReadyGuard::new(self, reported);
        let result = guard.try_io(|this| operation(&this.inner));
        result.unwrap_or_else(|_| Err(io::ErrorKind::WouldBlock.into()))
    }

    /// As [`try_io`](Self::try_io), with `&mut T`.
    ///
    /// # Errors
    ///
    /// As [`try_io`](Self::try_io).
    pub fn try_io_mut<R>(
        &mut self,
        interest: Interest,
        operation: impl FnOnce(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let reported = Reported::new(self.source.readiness().look(), interest);
        if reported.ready().is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut guard = AsyncFdReadyMutGuard::new(self, reported);
        let result = guard.try_io(|this| operation(&mut this.inner));
        result.unwrap_or_else(|_| Err(io::ErrorKind::WouldBlock.into()))
    }

    pub(super) fn clear(&self, reported: &mut Reported, ready: Ready) {
        reported.clear(self.source.readiness(), ready);
    }

    async fn reported(&self, interest: Interest) -> io::Result<Reported> {
        self.source.check(interest)?;
        let seen = self.source.reported(interest).await?;
        coop::got_on();
        Ok(Reported::new(seen, interest))
    }

    fn poll_reported(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<Reported>> {
        self.source.check(direction.into())?;
        let seen = ready!(self.source.poll_seen(cx, direction))?;
        coop::got_on();
        Poll::Ready(Ok(Reported::new(seen, direction.into())))
    }
}

fn watch(fd: RawFd, interest: Interest) -> io::Result<Source<RawFd>> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let source = Source::with_interest(runtime, fd, Ready::EMPTY, interest);
    match source.register_all() {
        Ok(()) => Ok(source),
        Err(error) => Err(explained(error)),
    }
}

/// Says what the kernel means.
fn explained(error: io::Error) -> io::Error {
    let message = match error.raw_os_error() {
        Some(libc::EPERM) => {
            "the system cannot watch this descriptor: regular files and directories are always \
             ready; use `evenkeel::fs`, or `spawn_blocking`"
        }
        Some(libc::EEXIST) => {
            "this descriptor is watched already; share one `AsyncFd` in an `Arc`, or duplicate the \
             descriptor"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), message)
}

impl<T: AsRawFd> AsRawFd for AsyncFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

impl<T: AsRawFd + AsFd> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl<T: AsRawFd + fmt::Debug> fmt::Debug for AsyncFd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncFd")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

/// A descriptor that cannot be watched, with the reason.
#[derive(Debug)]
pub struct AsyncFdTryNewError<T> {
    inner: T,
    cause: io::Error,
}

impl<T> AsyncFdTryNewError<T> {
    /// The descriptor, unchanged, and the reason.
    pub fn into_parts(self) -> (T, io::Error) {
        (self.inner, self.cause)
    }
}

impl<T> fmt::Display for AsyncFdTryNewError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.cause, f)
    }
}

impl<T: fmt::Debug> Error for AsyncFdTryNewError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

impl<T> From<AsyncFdTryNewError<T>> for io::Error {
    fn from(error: AsyncFdTryNewError<T>) -> Self {
        error.cause
    }
}
