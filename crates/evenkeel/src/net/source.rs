//! A descriptor that tasks wait on.
//!
//! # Life of a descriptor
//!
//! It starts unregistered: operations are simply tried. When one would block for the first time,
//! the descriptor is registered with the readiness queue of the worker on which its task runs, or
//! of another one that has room ([`placement`](crate::sched::placement)): for reading alone, until
//! somebody waits to write ([`watched`](crate::io::watched)). It may move when its task waits. A
//! connection whose data always arrives in time is never registered.
//!
//! At its end the kernel has to be told only if the descriptor may have a duplicate: then closing
//! it would leave it in the readiness queue, which would report its events as long as the duplicate
//! lives. So a source notes that its descriptor was *handed out*: that it came from elsewhere, or
//! that somebody was given its number or a reference to it, by `as_fd` or `as_raw_fd`. Other
//! descriptors are closed without a word (`io/registrations.rs`).
//!
//! # Orderings
//!
//! `watched` is noted with Release, after `home` and `worker`; whoever needs these finds it with
//! Acquire. `worker` changes under the lock of `home`; without it, it is a hint, or that of a
//! descriptor with a mode of delivery, which does not move. Where a direction is not watched, no
//! event can be relied on, and the task tries. `brought` is `Relaxed` because only the reader
//! changes it. `handed_out` is Relaxed, as it is read by the
//! owner of the whole source, who has it by some synchronisation. `ended` is Relaxed: a thread that
//! sees it too late sends the end of the stream a second time, which changes nothing.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::task::{Context, Poll, Waker, ready};

use crate::counters::deliveries::DeliveryCounts;
use crate::io::delivery::Delivery;
use crate::io::driver::{Driver, ended};
pub(crate) use crate::io::interest::Direction;
use crate::io::interest::{Interest, Ready};
use crate::io::readiness::{Readiness, Seen, WakeList, wake_all};
use crate::io::slots::Token;
use crate::io::watched::Watched;
use crate::runtime::handle::Handle;
use crate::sched::context;
use crate::sched::coop;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{Arc, Mutex};

use super::waits::note_descriptor;

/// On which worker a descriptor is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Where its task first waits, or another one with room; and it moves.
    Any,
    /// Where its task first waits; it leaves that worker only if it is overloaded.
    Here,
    /// On this one, for good.
    Worker(usize),
}

#[derive(Clone, Copy, Debug)]
struct Registration {
    worker: usize,
    token: Token,
}

/// The outcome of an operation that receives many datagrams at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) bytes: usize,
    pub(crate) is_last: bool,
}

pub(crate) struct Source<E: AsRawFd> {
    /// `Some` until `into_inner`.
    io: Option<E>,
    readiness: Arc<Readiness>,
    /// The directions whose events are asked for, and which of them are: some once `home` is
    /// filled. To be read without the lock.
    watched: Watched,
    /// The worker of `home`, to be read without the lock.
    worker: AtomicUsize,
    home: Mutex<Option<Registration>>,
    /// Bytes that the current delivery has brought; only the reader changes it.
    brought: AtomicU64,
    place: Place,
    /// Whether the descriptor may have duplicates.
    handed_out: AtomicBool,
    /// Whether the end of the stream was sent.
    ended: AtomicBool,
    /// Whether the end of what comes was read.
    read_end: AtomicBool,
    runtime: Handle,
}

impl<E: AsRawFd> Source<E> {
    /// Takes a non-blocking descriptor on which both directions may be tried at once, and of which
    /// nobody else knows: see [`hand_out`](Self::hand_out).
    pub(crate) fn new(io: E) -> io::Result<Self> {
        Self::with_readiness(io, Ready::READABLE | Ready::WRITABLE)
    }

    /// As [`new`](Source::new), for a descriptor that needs an event first, such as a stream that
    /// is being connected.
    pub(crate) fn new_pending(io: E) -> io::Result<Self> {
        Self::with_readiness(io, Ready::EMPTY)
    }

    /// As [`new_pending`](Source::new_pending), for one on which these directions may be tried.
    pub(crate) fn with_readiness(io: E, ready: Ready) -> io::Result<Self> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let mut source = Self::on(runtime, io, ready);
        *source.handed_out.get_mut() = false;
        Ok(source)
    }

    /// A descriptor of the given runtime, on which the directions of `ready` may be tried at once.
    /// It may have duplicates.
    pub(crate) fn on(runtime: Handle, io: E, ready: Ready) -> Self {
        let both = Interest::READABLE | Interest::WRITABLE;
        Self::with_interest(runtime, io, ready, both)
    }

    /// As [`on`](Source::on), for a descriptor that is not waited for in other directions than
    /// those of `interest`.
    pub(crate) fn with_interest(runtime: Handle, io: E, ready: Ready, interest: Interest) -> Self {
        Self {
            io: Some(io),
            readiness: Arc::new(Readiness::new(ready)),
            watched: Watched::new(interest),
            worker: AtomicUsize::new(0),
            brought: AtomicU64::new(0),
            home: Mutex::new(None),
            place: Place::Any,
            handed_out: AtomicBool::new(true),
            ended: AtomicBool::new(false),
            read_end: AtomicBool::new(false),
            runtime,
        }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Makes it a descriptor of one worker. To be called before it is waited for.
    pub(crate) fn pin(&mut self, worker: usize) {
        debug_assert!(worker < self.runtime.shared().seats.len(), "no such worker");
        self.place = Place::Worker(worker);
    }

    /// The worker that it is pinned to.
    pub(crate) fn pinned(&self) -> Option<usize> {
        match self.place {
            Place::Worker(worker) => Some(worker),
            Place::Any | Place::Here => None,
        }
    }

    /// Keeps it on the worker where its task first waits, unless that is overloaded. To be called
    /// before it is waited for.
    pub(crate) fn keep_here(&mut self) {
        self.place = Place::Here;
    }

    /// Notes that the descriptor may have duplicates, or get some, so that it is deregistered at
    /// the end. To be called before anybody else learns its number.
    #[inline]
    pub(crate) fn hand_out(&self) {
        // Relaxed: see the module.
        self.handed_out.store(true, Ordering::Relaxed);
    }

    /// Whether the descriptor may have duplicates.
    pub(crate) fn is_handed_out(&self) -> bool {
        // Relaxed: see the module.
        self.handed_out.load(Ordering::Relaxed)
    }

    /// The end of the stream was sent.
    pub(crate) fn note_end(&self) {
        // Relaxed: see the module.
        self.ended.store(true, Ordering::Relaxed);
    }

    /// The end of what comes was read.
    pub(crate) fn note_read_end(&self) {
        // Relaxed: see `may_just_close`.
        self.read_end.store(true, Ordering::Relaxed);
    }

    /// Whether closing it tells the peer what shutting it down would: there is no duplicate, and
    /// nothing is unread, for which the kernel resets a connection. For the last owner.
    pub(crate) fn may_just_close(&self) -> bool {
        // Acquire pairs with the Release by which other owners, on their threads, left: what they
        // did before is seen here.
        fence(Ordering::Acquire);
        self.read_end.load(Ordering::Relaxed) && !self.is_handed_out()
    }

    pub(crate) fn has_ended(&self) -> bool {
        // Relaxed: see the module.
        self.ended.load(Ordering::Relaxed)
    }

    pub(crate) fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// Refuses to wait for events that were not asked for, as they would never come.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: a part of `interest` is not watched.
    pub(crate) fn check(&self, interest: Interest) -> io::Result<()> {
        let watched = self.watched.allowed();
        let message = if interest.is_readable() && !watched.is_readable() {
            "this descriptor is watched for writing only; a wait until it is readable would not end"
        } else if interest.is_writable() && !watched.is_writable() {
            "this descriptor is watched for reading only; a wait until it is writable would not end"
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    }

    pub(crate) fn get_ref(&self) -> &E {
        match &self.io {
            Some(io) => io,
            None => unreachable!("only `into_inner`, which consumes the source, empties it"),
        }
    }

    /// Deregisters the descriptor and gives it back.
    ///
    /// # Errors
    ///
    /// The kernel no longer knew the descriptor.
    pub(crate) fn into_inner(mut self) -> io::Result<E> {
        let result = self.deregister();
        match self.io.take() {
            Some(io) => result.map(|()| io),
            None => unreachable!("only `into_inner`, which consumes the source, empties it"),
        }
    }

    /// Tries `op` while the descriptor seems ready, else enlists the task as the direction's one
    /// waiter.
    #[inline]
    pub(crate) fn poll_io<R>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut op: impl FnMut(&E) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            let seen = ready!(self.poll_seen(cx, direction))?;
            if let Some(result) = self.attempt(seen, direction, false, &mut op) {
                coop::got_on();
                return Poll::Ready(result);
            }
        }
    }

    /// As [`poll_io`](Source::poll_io), for a transfer of at most `len` bytes. A shorter one has
    /// emptied (or filled) the socket's buffer, so the next attempt waits for an event instead of
    /// asking the kernel. That is sound with edge-triggered events: data that arrives after `look`
    /// advances the tick, and a closed side stays ready.
    #[inline]
    pub(crate) fn poll_transfer(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        len: usize,
        mut op: impl FnMut(&E) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let seen = ready!(self.poll_seen(cx, direction))?;
            if let Some(result) = self.attempt(seen, direction, true, &mut op) {
                coop::got_on();
                self.note_transfer(seen, direction, len, &result);
                return Poll::Ready(result);
            }
        }
    }

    /// Waits until the direction is ready; one waiter for each direction.
    ///
    /// # Errors
    ///
    /// The descriptor cannot be registered, or the runtime has shut down.
    pub(crate) fn poll_ready(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<()>> {
        self.poll_seen(cx, direction).map_ok(|_| coop::got_on())
    }

    /// Waits for readiness. If there is some but the task's slice is used up, gives way first. A
    /// task that has to wait gives way anyhow, and needs no reading of the clock.
    #[inline]
    pub(crate) fn poll_seen(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<Seen>> {
        loop {
            let seen = self.readiness.look();
            if !seen.ready().for_interest(direction.into()).is_empty() {
                ready!(coop::poll_proceed(cx));
                return Poll::Ready(alive(seen));
            }
            self.register(direction.into())?;
            if self.readiness.enlist(direction, cx.waker()) {
                note_descriptor(self.get_ref().as_raw_fd(), direction.into());
                return Poll::Pending;
            }
        }
    }

    /// Tries `op` until it does not return `WouldBlock`. Any number of tasks may wait at once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: `op` is either not tried again, or its result is returned.
    pub(crate) async fn io<R>(
        &self,
        direction: Direction,
        mut op: impl FnMut(&E) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let seen = self.seen(direction.into()).await?;
            if let Some(result) = self.attempt(seen, direction, false, &mut op) {
                coop::got_on();
                return result;
            }
        }
    }

    /// Waits until the descriptor is ready for a part of the interest.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: readiness is not consumed by waiting for it.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let seen = self.seen(interest).await?;
        coop::got_on();
        Ok(seen.ready().for_interest(interest))
    }

    /// As [`poll_seen`](Self::poll_seen), for any number of waiters.
    pub(crate) async fn seen(&self, interest: Interest) -> io::Result<Seen> {
        self.wait(interest, false).await
    }

    /// As [`seen`](Self::seen), but each event ends the waits of all that it has woken, although
    /// one of them may have taken its report back by now. For descriptors whose users say
    /// themselves what is taken back: they may have left something to do for the others.
    pub(crate) async fn reported(&self, interest: Interest) -> io::Result<Seen> {
        self.wait(interest, true).await
    }

    async fn wait(&self, interest: Interest, ends_by_event: bool) -> io::Result<Seen> {
        let mut enlisted = Enlisted::new(&self.readiness);
        poll_fn(|cx| {
            loop {
                let seen = self.readiness.look();
                if !seen.ready().for_interest(interest).is_empty()
                    || ends_by_event && enlisted.was_woken()
                {
                    ready!(coop::poll_proceed(cx));
                    return Poll::Ready(alive(seen));
                }
                self.register(interest)?;
                if enlisted.enlist(interest, cx.waker()) {
                    note_descriptor(self.get_ref().as_raw_fd(), interest);
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Makes one attempt, unless the descriptor is known not to be ready.
    pub(crate) fn try_io<R>(
        &self,
        direction: Direction,
        op: impl FnOnce(&E) -> io::Result<R>,
    ) -> io::Result<R> {
        self.try_once(self.readiness.look(), direction, false, op)
    }

    /// As [`try_io`](Self::try_io), for moving at most `len` bytes; see
    /// [`poll_transfer`](Self::poll_transfer).
    pub(crate) fn try_transfer(
        &self,
        direction: Direction,
        len: usize,
        op: impl FnOnce(&E) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let seen = self.readiness.look();
        let result = self.try_once(seen, direction, true, op);
        self.note_transfer(seen, direction, len, &result);
        result
    }

    /// Receives a batch of datagrams. Any number of tasks may wait at once.
    ///
    /// # Cancel safety
    ///
    /// As [`io`](Self::io).
    pub(crate) async fn batch(
        &self,
        mut op: impl FnMut(&E) -> io::Result<Batch>,
    ) -> io::Result<()> {
        loop {
            let seen = self.seen(Interest::READABLE).await?;
            if let Some(result) = self.attempt(seen, Direction::Read, true, &mut op) {
                coop::got_on();
                return result.map(|batch| self.note_batch(seen, batch));
            }
        }
    }

    /// As [`batch`](Self::batch), without waiting.
    pub(crate) fn try_batch(&self, op: impl FnOnce(&E) -> io::Result<Batch>) -> io::Result<()> {
        let seen = self.readiness.look();
        let batch = self.try_once(seen, Direction::Read, true, op)?;
        self.note_batch(seen, batch);
        Ok(())
    }

    fn try_once<R>(
        &self,
        seen: Seen,
        direction: Direction,
        moves_bytes: bool,
        op: impl FnOnce(&E) -> io::Result<R>,
    ) -> io::Result<R> {
        // Without events, trying is the only way.
        if seen.ready().for_interest(direction.into()).is_empty()
            && self.watched.covers(direction.into())
        {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let result = op(self.get_ref());
        if result
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        {
            self.note_blocked(seen, direction, moves_bytes);
        }
        result
    }

    /// Runs `op`, again after every interruption by a signal. Returns `None` if it would block. For
    /// `moves_bytes` see [`note_blocked`](Self::note_blocked).
    #[inline]
    fn attempt<R>(
        &self,
        seen: Seen,
        direction: Direction,
        moves_bytes: bool,
        op: &mut impl FnMut(&E) -> io::Result<R>,
    ) -> Option<io::Result<R>> {
        loop {
            match op(self.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.note_blocked(seen, direction, moves_bytes);
                    return None;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Some(result),
            }
        }
    }

    /// Has the kernel report these directions, as far as the descriptor may be waited for in them.
    /// The first time, it is registered with the readiness queue of the worker that this runs on.
    #[inline]
    pub(crate) fn register(&self, interest: Interest) -> io::Result<()> {
        if !self.watched.covers(interest) {
            return self.watch(interest);
        }
        // Relaxed: a hint, which is compared again under the lock.
        let worker = self.worker.load(Ordering::Relaxed);
        let placement = &self.runtime.shared().placement;
        let moves = match self.place {
            Place::Any => placement.moves_from(worker),
            Place::Here => placement.spreads_from(worker),
            Place::Worker(_) => false,
        };
        if moves {
            self.move_from(worker);
        }
        Ok(())
    }

    /// As [`register`](Self::register), for all directions in which it may be waited for.
    pub(crate) fn register_all(&self) -> io::Result<()> {
        self.register(Interest::READABLE | Interest::WRITABLE)
    }

    fn watch(&self, interest: Interest) -> io::Result<()> {
        let mut home = self.home.lock();
        if self.watched.covers(interest) {
            return Ok(());
        }
        let shared = self.runtime.shared();
        let fd = self.get_ref().as_raw_fd();
        let wanted = self.watched.to_cover(interest);
        if let Some(home) = home.as_ref() {
            let driver = shared.driver(home.worker);
            driver.watch(fd, home.token, wanted)?;
        } else {
            let here = context::worker_index(shared);
            let worker = match self.place {
                Place::Any => shared.home_of_descriptor(here),
                Place::Here => here.unwrap_or_else(|| shared.next_home()),
                Place::Worker(worker) => worker,
            };
            let driver = shared.driver(worker);
            let token = driver.register(fd, &self.readiness, wanted)?;
            *home = Some(Registration { worker, token });
            // Relaxed: published by the Release of `note`.
            self.worker.store(worker, Ordering::Relaxed);
            self.readiness.settle(fd);
        }
        self.watched.note(wanted);
        Ok(())
    }

    /// Moves the descriptor to the worker where it is to be, if that is another one. One with a
    /// mode of delivery stays, as its entries in the sweep would.
    ///
    /// No event is lost: the kernel reports to the new queue what is ready when the descriptor
    /// arrives there, and what comes later. What the old queue has reported may be dropped.
    #[cold]
    fn move_from(&self, from: usize) {
        let shared = self.runtime.shared();
        let here = context::worker_index(shared);
        let Some(to) = shared.way_of_descriptor(from, here) else {
            return;
        };
        let mut home = self.home.lock();
        let before = home.filter(|home| home.worker == from && !self.readiness.has_pace());
        let Some(before) = before else { return };
        let fd = self.get_ref().as_raw_fd();
        // It does not change, as the lock is held.
        let Some(watched) = self.watched.now() else {
            return;
        };
        let arrival = shared.driver(to).register(fd, &self.readiness, watched);
        // Where it cannot be registered twice, it stays.
        let Ok(token) = arrival else { return };
        *home = Some(Registration { worker: to, token });
        // Relaxed: written under the lock. Without it, one with a mode of delivery asks, which has
        // not moved since; and whoever asks whether to move, for whom it is a hint.
        self.worker.store(to, Ordering::Relaxed);
        shared.placement.note_moved(from);
        // An error means that the old queue no longer knows the descriptor, which is the aim.
        let _ = shared.driver(from).deregister(fd, before.token);
    }

    /// Takes a descriptor that stays open, or may have duplicates, out of its readiness queue.
    pub(crate) fn deregister(&mut self) -> io::Result<()> {
        self.leave(Driver::deregister)
    }

    /// As [`deregister`](Self::deregister), if it is closed right afterwards and has no duplicates.
    fn forget(&mut self) {
        let forgotten = self.leave(|driver, _, token| {
            driver.forget(token);
            Ok(())
        });
        debug_assert!(forgotten.is_ok(), "the kernel was not asked");
    }

    fn leave(
        &mut self,
        leave: impl FnOnce(&Driver, RawFd, Token) -> io::Result<()>,
    ) -> io::Result<()> {
        match (self.home.get_mut().take(), &self.io) {
            (Some(home), Some(io)) => {
                debug_assert!(self.watched.now().is_some());
                // Relaxed: nobody else has the source any more.
                debug_assert_eq!(self.worker.load(Ordering::Relaxed), home.worker);
                let driver = self.runtime.shared().driver(home.worker);
                self.readiness.unsettle(&driver.ground(&self.readiness));
                leave(driver, io.as_raw_fd(), home.token)
            }
            _ => Ok(()),
        }
    }
}

/// Delivery to the reader.
impl<E: AsRawFd> Source<E> {
    pub(crate) fn delivery(&self) -> Delivery {
        self.readiness.delivery()
    }

    /// Changes the mode of delivery. `has_watermark` says whether the kernel supports a watermark.
    pub(crate) fn set_delivery(&self, mode: Delivery, has_watermark: bool) {
        // Hold the lock, so that a registration comes either before or after this.
        let home = self.home.lock();
        let ground = home
            .as_ref()
            .map(|home| self.driver(home.worker).ground(&self.readiness));
        let mut wakers = WakeList::new();
        let fd = self.get_ref().as_raw_fd();
        let registered = ground.as_ref().map(|ground| (fd, ground));
        self.readiness
            .set_delivery(mode, has_watermark, registered, &mut wakers);
        drop(ground);
        drop(home);
        wake_all(&mut wakers);
    }

    fn driver(&self, worker: usize) -> &Driver {
        self.runtime.shared().driver(worker)
    }

    /// Records the result of a transfer of at most `len` bytes. If `len` is 0, a short one means
    /// nothing.
    #[inline]
    fn note_transfer(
        &self,
        seen: Seen,
        direction: Direction,
        len: usize,
        result: &io::Result<usize>,
    ) {
        let Ok(count @ 1..) = *result else {
            return;
        };
        debug_assert!(len == 0 || count <= len, "{count} bytes moved of {len}");
        match direction {
            Direction::Read => self.note_bytes(count),
            Direction::Write => {
                let shared = self.runtime.shared();
                shared.count_delivery(|counts| counts.count_write(count as u64));
            }
        }
        if count < len {
            self.note_short(seen, direction);
        }
    }

    fn note_batch(&self, seen: Seen, batch: Batch) {
        if batch.bytes > 0 {
            self.note_bytes(batch.bytes);
        }
        if batch.is_last {
            self.note_short(seen, Direction::Read);
        }
    }

    #[inline]
    fn note_bytes(&self, count: usize) {
        // Relaxed: only the reader changes it.
        let before = self.brought.load(Ordering::Relaxed);
        self.brought.store(before + count as u64, Ordering::Relaxed);
        let shared = self.runtime.shared();
        shared.count_delivery(|counts| counts.count_read(count as u64, before == 0));
    }

    /// Records that a transfer has emptied, or filled, the socket's buffer.
    #[inline]
    fn note_short(&self, seen: Seen, direction: Direction) {
        // Otherwise there are no events to rely on.
        if self.watched.covers(direction.into()) {
            self.readiness.clear(seen, direction);
            if direction == Direction::Read {
                self.end_delivery(seen);
            }
        }
    }

    /// Records that an operation would have blocked. `moves_bytes` says whether it is counted.
    #[inline]
    fn note_blocked(&self, seen: Seen, direction: Direction, moves_bytes: bool) {
        self.readiness.clear_blocked(seen, direction);
        if direction == Direction::Read {
            if moves_bytes {
                let shared = self.runtime.shared();
                shared.count_delivery(DeliveryCounts::count_empty);
            }
            self.end_delivery(seen);
        }
    }

    /// Ends a delivery: the reader has found its socket empty.
    #[inline]
    fn end_delivery(&self, seen: Seen) {
        // Relaxed: only the reader changes it.
        let brought = self.brought.load(Ordering::Relaxed);
        if brought > 0 {
            self.brought.store(0, Ordering::Relaxed);
            let shared = self.runtime.shared();
            shared.count_delivery(|counts| counts.count_size(brought));
        }
        if seen.is_paced() {
            self.pace(brought);
        }
    }

    #[cold]
    fn pace(&self, brought: u64) {
        // A reader without a registration is not held back.
        if !self.watched.covers(Interest::READABLE) {
            return;
        }
        let driver = self.driver(self.worker.load(Ordering::Relaxed));
        let ground = driver.ground(&self.readiness);
        if brought == 0 {
            self.readiness.found_nothing(&ground);
            return;
        }
        let held = self.readiness.drained(&ground);
        let shared = self.runtime.shared();
        shared.count_delivery(|counts| counts.count_delay(held));
    }
}

/// Refuses to wait in a runtime that has shut down, since no events come any more.
fn alive(seen: Seen) -> io::Result<Seen> {
    if seen.ready().is_shutdown() {
        return Err(ended());
    }
    Ok(seen)
}

/// One of many waiters, removed when its future is dropped.
pub(crate) struct Enlisted<'a> {
    readiness: &'a Readiness,
    key: Option<usize>,
}

impl<'a> Enlisted<'a> {
    pub(crate) fn new(readiness: &'a Readiness) -> Self {
        Self {
            readiness,
            key: None,
        }
    }

    /// Whether an event has come since, which may have been taken back by now.
    pub(crate) fn was_woken(&self) -> bool {
        self.key.is_some_and(|key| self.readiness.has_woken(key))
    }

    /// Returns false if the descriptor is ready by now.
    pub(crate) fn enlist(&mut self, interest: Interest, waker: &Waker) -> bool {
        self.readiness.enlist_among(&mut self.key, interest, waker)
    }
}

impl Drop for Enlisted<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.readiness.strike_off(key);
        }
    }
}

impl<E: AsRawFd> Drop for Source<E> {
    fn drop(&mut self) {
        if self.is_handed_out() {
            // An error means that the kernel no longer knows the descriptor, which is the aim.
            let _ = self.deregister();
        } else {
            self.forget();
        }
    }
}

impl<E: AsRawFd + fmt::Debug> fmt::Debug for Source<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get_ref().fmt(f)
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
