//! A descriptor with its readiness: watched by Evenkeel's workers in one of its runtimes, and by
//! Tokio's driver in one of Tokio's.

use super::upstream_registration as upstream;
use super::{Direction, ReadyEvent};
use crate::evenkeel::{is_own_task, leave, LeftToTokio, Source};
use crate::io::interest::Interest;
use crate::io::ready::Ready;
use crate::runtime::scheduler;
use evenkeel::drop_in::{Io, Seen};
use evenkeel::io as native;
use std::io;
use std::task::{ready, Context, Poll};

#[derive(Debug)]
pub(crate) enum Registration {
    Evenkeel(Io, evenkeel::runtime::Handle),
    Upstream(upstream::Registration),
}

use Registration::{Evenkeel, Upstream};

impl Registration {
    #[track_caller]
    pub(crate) fn new_with_interest_and_handle<S: Source>(
        io: &mut S,
        interest: Interest,
        handle: scheduler::Handle,
    ) -> io::Result<Registration> {
        let has_driver = handle.driver().io();
        _ = has_driver;
        match handle.evenkeel() {
            Some(on) if evenkeel::drop_in::is_stopping(on) && !is_own_task(on) => Err(gone()),
            // A worker's queue reports no out-of-band data.
            Some(on) if !interest.is_priority() => {
                let watched = Io::new(on, io.raw_fd());
                if S::FOREIGN {
                    watched.look(native_interest(interest))?;
                }
                Ok(Evenkeel(watched, on.clone()))
            }
            on => {
                if on.is_some() {
                    leave(LeftToTokio::Priority);
                }
                upstream::Registration::new_with_interest_and_handle(io, interest, handle)
                    .map(Upstream)
            }
        }
    }

    pub(crate) fn deregister(&mut self, io: &mut impl Source) -> io::Result<()> {
        match self {
            Evenkeel(watched, _) => watched.close(),
            Upstream(registration) => registration.deregister(io),
        }
    }

    pub(crate) fn clear_readiness(&self, event: ReadyEvent) {
        match self {
            Evenkeel(watched, _) => {
                // Before Tokio 1.54, an event keeps only the low bits of the tick.
                let now = watched.tick();
                if is_same(event.tick, now as _) {
                    watched.clear(now, to_native(event.ready));
                }
            }
            Upstream(registration) => registration.clear_readiness(event),
        }
    }

    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<ReadyEvent>> {
        self.poll_ready(cx, Direction::Read)
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<ReadyEvent>> {
        self.poll_ready(cx, Direction::Write)
    }

    #[allow(dead_code)]
    pub(crate) fn poll_read_io<R>(
        &self,
        cx: &mut Context<'_>,
        f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io(cx, Direction::Read, f)
    }

    #[allow(dead_code)]
    pub(crate) fn poll_write_io<R>(
        &self,
        cx: &mut Context<'_>,
        f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io(cx, Direction::Write, f)
    }

    fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<ReadyEvent>> {
        match self {
            Evenkeel(watched, on) => {
                let budget = ready!(crate::task::coop::poll_proceed(cx));
                let seen = ready!(watched.poll_ready(cx, direction == Direction::Write))?;
                if seen.is_shutdown && is_own_task(on) {
                    // The runtime drops the task now.
                    return Poll::Pending;
                }
                let event = event(seen)?;
                budget.made_progress();
                Poll::Ready(Ok(event))
            }
            Upstream(registration) => match direction {
                Direction::Read => registration.poll_read_ready(cx),
                Direction::Write => registration.poll_write_ready(cx),
            },
        }
    }

    fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            let event = ready!(self.poll_ready(cx, direction))?;
            match f() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.clear_readiness(event)
                }
                result => return Poll::Ready(result),
            }
        }
    }

    pub(crate) fn try_io<R>(
        &self,
        interest: Interest,
        f: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        let watched = match self {
            Evenkeel(watched, _) => watched,
            Upstream(registration) => return registration.try_io(interest, f),
        };
        let seen = watched.look(native_interest(interest))?;
        if seen.ready.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let result = f();
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            watched.clear(seen.tick, seen.ready);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        result
    }

    pub(crate) async fn readiness(&self, interest: Interest) -> io::Result<ReadyEvent> {
        match self {
            Evenkeel(watched, on) => {
                let seen = watched.ready(native_interest(interest)).await?;
                if seen.is_shutdown && is_own_task(on) {
                    // As in `poll_ready`.
                    std::future::pending::<()>().await;
                }
                event(seen)
            }
            Upstream(registration) => registration.readiness(interest).await,
        }
    }

    pub(crate) async fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let event = self.readiness(interest).await?;
            let budget = std::future::poll_fn(crate::task::coop::poll_proceed).await;
            match f() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.clear_readiness(event)
                }
                result => {
                    budget.made_progress();
                    return result;
                }
            }
        }
    }
}

fn is_same<T: PartialEq>(tick: T, now: T) -> bool {
    tick == now
}

fn gone() -> io::Error {
    io::Error::other(crate::util::error::RUNTIME_SHUTTING_DOWN_ERROR)
}

fn event(seen: Seen) -> io::Result<ReadyEvent> {
    if seen.is_shutdown {
        return Err(gone());
    }
    Ok(ReadyEvent {
        tick: seen.tick as _,
        ready: from_native(seen.ready),
        is_shutdown: false,
    })
}

fn native_interest(interest: Interest) -> native::Interest {
    match (interest.is_readable(), interest.is_writable()) {
        (true, true) => native::Interest::READABLE | native::Interest::WRITABLE,
        (_, true) => native::Interest::WRITABLE,
        (true, _) => native::Interest::READABLE,
        // Errors belong to every interest.
        _ => native::Interest::ERRORS,
    }
}

/// Flags that both have, by their own names.
const FLAGS: [(Ready, native::Ready); 5] = [
    (Ready::READABLE, native::Ready::READABLE),
    (Ready::WRITABLE, native::Ready::WRITABLE),
    (Ready::READ_CLOSED, native::Ready::READ_CLOSED),
    (Ready::WRITE_CLOSED, native::Ready::WRITE_CLOSED),
    (Ready::ERROR, native::Ready::ERROR),
];

fn from_native(ready: native::Ready) -> Ready {
    let has = |flag| ready.contains(flag);
    (FLAGS.iter().filter(|(_, flag)| has(*flag))).fold(Ready::EMPTY, |all, (flag, _)| all | *flag)
}

fn to_native(ready: Ready) -> native::Ready {
    let has = |flag: Ready| ready & flag == flag;
    (FLAGS.iter().filter(|(flag, _)| has(*flag)))
        .fold(native::Ready::EMPTY, |all, (_, flag)| all | *flag)
}
