//! A worker's I/O driver: its readiness queue, and the descriptors registered with it.
//!
//! Descriptors are registered edge-triggered, and not re-armed after an event; a direction may be
//! added ([`watched`](super::watched)). The worker that owns the queue checks it; any other thread,
//! a *visitor*, may do so when the owner cannot.
//!
//! The owner's wake-up is an event like others, and the kernel reports it once. A visitor that gets
//! it stores it for the owner, under the lock of the queue, which the owner holds while it sleeps.
//! So the owner finds it before its next sleep, and no visitor gets it during one.
//!
//! Beside the queue stands its *sweep*: the deadlines of the readers that are held back
//! ([`pace`](super::pace)).
//!
//! The first event of a descriptor that another thread registers comes at the owner's next check or
//! sleep, which follow soon, whether or not the owner knows already that it has a descriptor.

use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::time::Duration;

use mio::unix::SourceFd;

use crate::clock::Clock;
use crate::io::interest::{Interest, Ready};
use crate::io::pressure::Pressure;
use crate::io::readiness::{Ground, Readiness, WakeList};
use crate::io::registrations::Registrations;
use crate::io::slots::Token;
use crate::sync::{Arc, Mutex};
use crate::sys::watermark;
use crate::timer::timers::{Key, Timers};

/// The token of a worker's wake-up; no descriptor has it, see `slots`.
const WAKE: mio::Token = mio::Token(usize::MAX);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checked {
    /// Events that reached a registered descriptor.
    pub(crate) events: usize,
    pub(crate) deliveries: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Swept {
    pub(crate) looks: usize,
    pub(crate) deliveries: usize,
}

#[derive(Debug)]
pub(crate) struct Driver {
    queue: Mutex<Queue>,
    /// Where descriptors are registered.
    kernel: mio::Registry,
    waker: mio::Waker,
    registrations: Registrations,
    /// The descriptors whose readers are held back, by the tick at which they are due.
    sweep: Timers<Arc<Readiness>>,
    /// Kept so that sweeps allocate nothing.
    due: Mutex<Vec<Arc<Readiness>>>,
    /// How old the owner's queues of woken tasks are.
    pub(crate) pressure: Pressure,
    clock: Clock,
}

#[derive(Debug)]
struct Queue {
    poll: mio::Poll,
    events: mio::Events,
    /// Set by a visitor that got the owner's wake-up. Cleared by the owner's next check, which does
    /// not sleep.
    wake_up: bool,
}

impl Driver {
    /// Makes a queue that takes at most `events_max` events in one check, which bounds how long a
    /// check takes. The rest wait in the kernel for the next.
    ///
    /// # Errors
    ///
    /// The system has no readiness queues or descriptors left.
    pub(crate) fn new(events_max: usize, clock: Clock) -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let kernel = poll.registry().try_clone()?;
        let waker = mio::Waker::new(&kernel, WAKE)?;
        Ok(Self {
            queue: Mutex::new(Queue {
                poll,
                events: mio::Events::with_capacity(events_max),
                wake_up: false,
            }),
            kernel,
            waker,
            registrations: Registrations::new(),
            sweep: Timers::new(),
            due: Mutex::new(Vec::new()),
            pressure: Pressure::new(|duration| clock.cycles_of(duration)),
            clock,
        })
    }

    /// Whether a check could find anything but a wake-up.
    #[inline]
    pub(crate) fn has_descriptors(&self) -> bool {
        !self.registrations.is_empty()
    }

    pub(crate) fn descriptors(&self) -> usize {
        self.registrations.len()
    }

    /// Registers a descriptor for the directions of `interest`. Its first event comes at once if it
    /// is ready.
    ///
    /// # Errors
    ///
    /// The kernel cannot watch such a descriptor, its limit is reached, or the runtime has
    /// shut down.
    pub(crate) fn register(
        &self,
        fd: RawFd,
        readiness: &Arc<Readiness>,
        interest: Interest,
    ) -> io::Result<Token> {
        let token = self.registrations.enter(readiness).ok_or_else(ended)?;
        let mut source = SourceFd(&fd);
        let token_of_kernel = mio::Token(token.0);
        if let Err(error) = self
            .kernel
            .register(&mut source, token_of_kernel, asked(interest))
        {
            self.registrations.leave(token);
            return Err(error);
        }
        Ok(token)
    }

    /// Changes the directions of a registered descriptor. An event comes at once if it is ready
    /// for one of these.
    ///
    /// # Errors
    ///
    /// The kernel does not know the descriptor.
    pub(crate) fn watch(&self, fd: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        crate::sync::point();
        let token = mio::Token(token.0);
        self.kernel
            .reregister(&mut SourceFd(&fd), token, asked(interest))
    }

    /// Undoes `register`, of a descriptor that stays open. Events that are on their way are
    /// recognized by their token and dropped.
    ///
    /// # Errors
    ///
    /// The kernel no longer knows the descriptor. The slot is freed all the same.
    pub(crate) fn deregister(&self, fd: RawFd, token: Token) -> io::Result<()> {
        self.registrations.leave(token);
        self.kernel.deregister(&mut SourceFd(&fd))
    }

    /// As [`deregister`](Self::deregister), for a descriptor without duplicates that is closed
    /// right afterwards: the kernel then forgets it, without a system call of its own.
    pub(crate) fn forget(&self, token: Token) {
        self.registrations.leave(token);
    }

    /// Announces that the owner goes to sleep in [`check`](Self::check). Returns the tick of the
    /// next entry of the sweep, if any; see [`Timers::before_park`].
    pub(crate) fn before_park(&self) -> Option<u64> {
        self.sweep.before_park()
    }

    /// An I/O check by the owner. Sleeps at most `timeout`, or without a limit for `None`.
    pub(crate) fn check(&self, timeout: Option<Duration>, wakers: &mut WakeList) -> Checked {
        self.check_locked(&mut self.queue.lock(), timeout, true, wakers)
    }

    /// The tick at which [`sweep`](Self::sweep) is worth a call; see [`Timers::next_due`].
    #[inline]
    pub(crate) fn sweep_due(&self) -> u64 {
        self.sweep.next_due()
    }

    /// Wakes the readers whose deadline has come. As with timers, their number is bounded; the rest
    /// stay due.
    pub(crate) fn sweep(&self, now_tick: u64, wakers: &mut WakeList) -> Swept {
        let mut due = mem::take(&mut *self.due.lock());
        self.sweep.fire(now_tick, &mut due);
        let mut swept = Swept::default();
        for readiness in due.drain(..) {
            swept.looks += 1;
            swept.deliveries += readiness.due(&self.ground(&readiness), wakers);
        }
        *self.due.lock() = due;
        swept
    }

    /// What holding back a descriptor of this queue needs.
    pub(crate) fn ground<'a>(&'a self, readiness: &'a Arc<Readiness>) -> impl Ground + 'a {
        Post {
            driver: self,
            readiness,
        }
    }

    /// An I/O check by a visitor. `None` if another thread is checking the queue.
    pub(crate) fn visit(&self, wakers: &mut WakeList) -> Option<Checked> {
        let mut queue = self.queue.try_lock()?;
        Some(self.check_locked(&mut queue, Some(Duration::ZERO), false, wakers))
    }

    fn check_locked(
        &self,
        queue: &mut Queue,
        timeout: Option<Duration>,
        by_owner: bool,
        wakers: &mut WakeList,
    ) -> Checked {
        debug_assert!(by_owner || timeout.is_some_and(|timeout| timeout.is_zero()));
        let Queue {
            poll,
            events,
            wake_up,
        } = queue;
        let mut checked = Checked::default();
        let timeout = if by_owner && mem::take(wake_up) {
            Some(Duration::ZERO)
        } else {
            timeout
        };
        crate::sync::point();
        let polled = poll.poll(events, timeout);
        crate::sync::point();
        if by_owner {
            // Before any event is held back, so that nobody wakes a worker that is awake.
            self.sweep.after_park();
        }
        if let Err(error) = polled {
            // A signal has ended the sleep. No other error is possible with these arguments. If
            // there were one, the next check would return it again.
            debug_assert_eq!(error.kind(), io::ErrorKind::Interrupted, "{error}");
            return checked;
        }
        if events.is_empty() {
            return checked;
        }
        // An owner that gets its wake-up is awake already.
        *wake_up |= !by_owner && events.iter().any(|event| event.token() == WAKE);
        let of = |event: &mio::event::Event| (Token(event.token().0), ready_of(event));
        (checked.events, checked.deliveries) = self
            .registrations
            .deliver(events.iter().map(of), |readiness, ready| {
                readiness.arrive(ready, &self.ground(readiness), wakers)
            });
        checked
    }

    /// Ends the owner's sleep in `check`, or its next one.
    pub(crate) fn wake(&self) {
        crate::sync::point();
        if let Err(error) = self.waker.wake() {
            // The event descriptor lives as long as the driver and is never full for long. So this
            // is a defect, and it must not go unnoticed: the worker would sleep on.
            panic!("a worker could not be woken through its readiness queue: {error}");
        }
    }

    /// Wakes all waiters and refuses new ones: no more events will come.
    pub(crate) fn shut_down(&self, wakers: &mut WakeList) {
        self.registrations.close(wakers);
        // All readers that were held back have been woken. The entries may hold the last references
        // to wakers, whose drop may run any code, so they are dropped without a lock.
        let mut held = Vec::new();
        self.sweep.close(&mut held);
    }
}

fn asked(interest: Interest) -> mio::Interest {
    match (interest.is_readable(), interest.is_writable()) {
        (true, false) => mio::Interest::READABLE,
        (false, true) => mio::Interest::WRITABLE,
        _ => mio::Interest::READABLE | mio::Interest::WRITABLE,
    }
}

struct Post<'a> {
    driver: &'a Driver,
    readiness: &'a Arc<Readiness>,
}

impl Ground for Post<'_> {
    fn now(&self) -> u64 {
        self.driver.clock.nanos()
    }

    fn pressure(&self) -> u64 {
        self.driver.pressure.now(self.driver.clock.cycles())
    }

    fn set_watermark(&self, fd: RawFd, bytes: usize) -> bool {
        watermark::set(fd, bytes)
    }

    fn arm(&self, tick: u64) -> Key {
        let (key, call) = self.driver.sweep.insert(tick, Arc::clone(self.readiness));
        if call {
            self.driver.wake();
        }
        key
    }

    fn disarm(&self, key: Key) {
        self.driver.sweep.cancel(key);
    }
}

/// The error of waiting for a descriptor whose runtime has shut down.
pub(crate) fn ended() -> io::Error {
    io::Error::other(
        "the runtime that watches this descriptor has shut down; \
         move the descriptor to a live runtime with `into_std` and `from_std`",
    )
}

fn ready_of(event: &mio::event::Event) -> Ready {
    let flags = [
        (event.is_readable(), Ready::READABLE),
        (event.is_writable(), Ready::WRITABLE),
        (event.is_read_closed(), Ready::READ_CLOSED),
        (event.is_write_closed(), Ready::WRITE_CLOSED),
        (event.is_error(), Ready::ERROR),
    ];
    let mut ready = Ready::EMPTY;
    for (is_set, flag) in flags {
        if is_set {
            ready |= flag;
        }
    }
    ready
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::sync::thread;

    /// The owner checks without a limit; if the test fails, its thread is left behind.
    #[test]
    fn a_visitor_leaves_the_owner_its_wake_up() {
        let driver = Arc::new(Driver::new(16, Clock::start()).unwrap());
        let (done, ended) = mpsc::channel();
        let owner = Arc::clone(&driver);
        driver.wake();
        // The second finds nothing, and leaves the wake-up alone.
        for _ in 0..2 {
            assert!(driver.visit(&mut WakeList::new()).is_some());
        }
        thread::spawn(move || {
            owner.check(None, &mut WakeList::new());
            done.send(())
        });
        let checked = ended.recv_timeout(Duration::from_secs(60));
        checked.expect("the owner sleeps through its wake-up");
        assert!(!driver.queue.lock().wake_up, "its next sleep is to last");
    }
}
