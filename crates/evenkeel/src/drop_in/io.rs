//! Readiness of descriptors that somebody else owns.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::task::{Context, Poll};

use crate::io::interest::{Direction, Interest, Ready};
use crate::io::readiness;
use crate::net::source::{Enlisted, Source};
use crate::net::waits::note_descriptor;
use crate::runtime::Handle;

/// What a descriptor was ready for when it was looked at.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub tick: u16,
    /// The part that was asked for.
    pub ready: Ready,
    pub is_shutdown: bool,
}

impl Seen {
    fn of(seen: readiness::Seen, interest: Interest) -> Self {
        Self {
            tick: seen.tick() as u16,
            ready: seen.ready().for_interest(interest),
            is_shutdown: seen.ready().is_shutdown(),
        }
    }
}

/// Readiness of a descriptor, which has to stay open for as long as this lives.
#[derive(Debug)]
pub struct Io {
    source: Source<RawFd>,
    handle: Handle,
}

impl Io {
    /// Registers the descriptor when somebody first asks for its readiness.
    pub fn new(handle: &Handle, fd: RawFd) -> Self {
        Self {
            source: Source::on(handle.clone(), fd, Ready::EMPTY),
            handle: handle.clone(),
        }
    }

    /// Waits until the direction is ready; one waiter for each direction.
    ///
    /// # Errors
    ///
    /// The descriptor cannot be registered.
    pub fn poll_ready(&self, cx: &mut Context<'_>, write: bool) -> Poll<io::Result<Seen>> {
        let direction = if write {
            Direction::Write
        } else {
            Direction::Read
        };
        loop {
            let seen = Seen::of(self.source.readiness().look(), direction.into());
            if !seen.ready.is_empty() {
                return Poll::Ready(Ok(seen));
            }
            if let Some(ended) = self.register()? {
                return Poll::Ready(Ok(ended));
            }
            if self.source.readiness().enlist(direction, cx.waker()) {
                note_descriptor(self.source.get_ref().as_raw_fd(), direction.into());
                return Poll::Pending;
            }
        }
    }

    /// Waits until the descriptor is ready for a part of the interest; any number of waiters. An
    /// event ends the waits of all that it has woken, as with Tokio: nothing is ready then if one
    /// of them has taken its report back.
    ///
    /// # Errors
    ///
    /// As [`poll_ready`](Self::poll_ready).
    pub async fn ready(&self, interest: Interest) -> io::Result<Seen> {
        let mut enlisted = Enlisted::new(self.source.readiness());
        poll_fn(|cx| {
            loop {
                let seen = Seen::of(self.source.readiness().look(), interest);
                if !seen.ready.is_empty() {
                    return Poll::Ready(Ok(seen));
                }
                if let Some(ended) = self.register()? {
                    return Poll::Ready(Ok(ended));
                }
                if enlisted.was_woken() {
                    return Poll::Ready(Ok(seen));
                }
                if enlisted.enlist(interest, cx.waker()) {
                    note_descriptor(self.source.get_ref().as_raw_fd(), interest);
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// What the descriptor is ready for now, as far as is known.
    ///
    /// # Errors
    ///
    /// As [`poll_ready`](Self::poll_ready).
    pub fn look(&self, interest: Interest) -> io::Result<Seen> {
        let seen = Seen::of(self.source.readiness().look(), interest);
        // What was known before the runtime ended can still be used.
        if !seen.ready.is_empty() {
            return Ok(seen);
        }
        match self.register()? {
            Some(ended) => Ok(ended),
            None => Ok(Seen::of(self.source.readiness().look(), interest)),
        }
    }

    /// Returns what there is to see if the runtime has ended.
    fn register(&self) -> io::Result<Option<Seen>> {
        let ended = Seen {
            tick: 0,
            ready: Ready::EMPTY,
            is_shutdown: true,
        };
        match self.source.register_all() {
            Ok(()) => Ok(None),
            Err(_) if self.handle.shared().is_stopping() => Ok(Some(ended)),
            Err(error) => Err(error),
        }
    }

    /// The tick of what was last known; it changes with each event.
    pub fn tick(&self) -> u16 {
        self.source.readiness().look().tick() as u16
    }

    /// Sets what the descriptor is known to be ready for, without an event.
    pub fn assume(&self, ready: Ready) {
        wake_all_of(self, ready);
    }

    /// Takes back what is `ready`, but for closed sides, unless an event came since `tick`.
    pub fn clear(&self, tick: u16, ready: Ready) {
        self.source.readiness().clear_since(tick, ready);
    }

    /// Ends the registration.
    ///
    /// # Errors
    ///
    /// The kernel no longer knew the descriptor.
    pub fn close(&mut self) -> io::Result<()> {
        self.source.deregister()
    }
}

fn wake_all_of(io: &Io, ready: Ready) {
    let mut wakers = readiness::WakeList::new();
    io.source.readiness().set(ready, &mut wakers);
    readiness::wake_all(&mut wakers);
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::pin::pin;
    use std::task::Waker;

    use super::*;
    use crate::runtime::Builder;

    /// Tokio's `multiple_waiters`, in a fixed order.
    #[test]
    fn an_event_that_was_taken_back_ends_all_waits_for_it() {
        let runtime = Builder::new().workers(1).build().expect("one worker");
        let (socket, peer) = UnixStream::pair().expect("two sockets");
        let io = Io::new(runtime.handle(), socket.as_raw_fd());
        runtime.block_on(async {
            let mut one = pin!(io.ready(Interest::READABLE));
            let mut other = pin!(io.ready(Interest::READABLE));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(one.as_mut().poll(&mut cx).is_pending());
            assert!(other.as_mut().poll(&mut cx).is_pending());
            (&peer).write_all(b"1").expect("it is sent");
            let seen = one.await.expect("it is watched");
            io.clear(seen.tick, seen.ready);
            match other.as_mut().poll(&mut cx) {
                Poll::Ready(Ok(seen)) => assert!(seen.ready.is_empty()),
                waits => panic!("the event has woken it: {waits:?}"),
            }
        });
    }

    #[test]
    fn what_was_known_before_the_end_can_be_used_after_it() {
        let runtime = Builder::new().workers(1).build().expect("one worker");
        let (socket, _peer) = UnixStream::pair().expect("two sockets");
        let io = Io::new(runtime.handle(), socket.as_raw_fd());
        io.assume(Ready::READABLE);
        drop(runtime);
        let seen = io.look(Interest::READABLE).expect("it is known");
        assert!(!seen.ready.is_empty());
        io.clear(seen.tick, seen.ready);
        assert!(io.look(Interest::READABLE).expect("as before").is_shutdown);
    }
}
