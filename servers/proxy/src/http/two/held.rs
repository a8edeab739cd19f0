//! How many bytes of bodies are held for those who do not take them.
//!
//! h2 takes what it is given to send, also while the socket takes nothing, and keeps what has come
//! of a body until it is asked for. Both have limits for each stream alone, and a client may have
//! many streams and many connections. So there is an account of each connection, and one of all.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use evenkeel::time::Instant;
use tokio::sync::Notify;

use super::super::patience::worth;
use crate::access_log::Cause;

/// What all connections together hold.
///
/// All accesses are `Relaxed`: the number says how many bytes there are, and guards none of them.
#[derive(Debug)]
pub struct All {
    max: usize,
    held: AtomicUsize,
}

impl All {
    /// Nothing yet, of so many bytes.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            held: AtomicUsize::new(0),
        }
    }

    /// How many bytes are held.
    pub fn held(&self) -> usize {
        // Relaxed: see the type.
        self.held.load(Ordering::Relaxed)
    }

    /// So many bytes may be held until this is dropped; `None` if that were too many.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Option<Taken> {
        self.add(bytes);
        let taken = Taken {
            all: Arc::clone(self),
            bytes,
        };
        (self.held() <= self.max).then_some(taken)
    }

    fn add(&self, bytes: usize) {
        // Relaxed: see the type.
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    fn sub(&self, bytes: usize) {
        // Relaxed: see the type.
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that may be held.
#[derive(Debug)]
pub(super) struct Taken {
    all: Arc<All>,
    bytes: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.all.sub(self.bytes);
    }
}

/// What one connection holds of what it is to send, and how that goes.
#[derive(Debug)]
pub(super) struct Line {
    all: Arc<All>,
    max: usize,
    state: Mutex<State>,
    /// There is room again.
    room: Notify,
    /// Its server's settings hold.
    settled: Notify,
    /// Its peer sends too many frames of no use.
    pub(super) flooded: Notify,
    /// Why it has ended with requests under way, if its client is to blame.
    pub(super) broken: OnceLock<Cause>,
}

/// What a look at a socket's send buffer finds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) is_empty: bool,
    /// What the peer has taken since the last look.
    pub(super) taken: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Given to be sent, and not written.
    given: usize,
    /// Since when the socket has taken nothing, less what its peer's bytes are worth.
    blocked: Option<Instant>,
    /// What the socket's send buffer held when it was looked at.
    queued: usize,
    /// What the peer was seen to take of that, in all.
    taken: u64,
    /// How many streams wait to send more.
    waiting: u64,
    /// Bytes that were read of it, in all.
    read: u64,
    /// Its server's settings have come; h2 takes them before it rests.
    is_greeted: bool,
    /// They hold, or none will come.
    is_settled: bool,
}

impl Line {
    pub(super) fn new(all: &Arc<All>, max: usize) -> Self {
        Self {
            all: Arc::clone(all),
            max,
            state: Mutex::default(),
            room: Notify::new(),
            settled: Notify::new(),
            flooded: Notify::new(),
            broken: OnceLock::new(),
        }
    }

    /// Notes that so much was given to be sent.
    pub(super) fn given(&self, bytes: usize) {
        self.state().given += bytes;
        self.all.add(bytes);
    }

    /// How much was given to be sent, and is not written.
    pub(super) fn to_come(&self) -> usize {
        self.state().given
    }

    /// Notes that so much was written, some of which may have been given.
    pub(super) fn written(&self, bytes: usize) {
        let mut state = self.state();
        state.blocked = None;
        let gone = state.given.min(bytes);
        state.given -= gone;
        let has_room = state.given < self.max;
        drop(state);
        self.all.sub(gone);
        if gone > 0 && has_room {
            self.room.notify_waiters();
        }
    }

    /// Notes that h2 has nothing to do. Unless it waits for the socket, all is written then, or was
    /// dropped with its stream.
    pub(super) fn rests(&self) {
        let state = self.state();
        let (is_blocked, is_greeted) = (state.blocked.is_some(), state.is_greeted);
        drop(state);
        if !is_blocked {
            self.written(usize::MAX);
            if is_greeted {
                self.settle();
            }
        }
    }

    /// Notes that the settings of its server have been read.
    pub(super) fn greeted(&self) {
        self.state().is_greeted = true;
    }

    /// Notes that nothing is to be waited for: the server's settings hold, or the connection ends.
    pub(super) fn settle(&self) {
        let was_settled = std::mem::replace(&mut self.state().is_settled, true);
        if !was_settled {
            self.settled.notify_waiters();
        }
    }

    /// Waits until the server's settings hold.
    pub(super) async fn settled(&self) {
        loop {
            // Waits from here on, so that no notice is missed.
            let notified = self.settled.notified();
            if self.state().is_settled {
                return;
            }
            notified.await;
        }
    }

    /// Notes that the socket takes nothing.
    pub(super) fn blocked(&self) {
        self.state().blocked.get_or_insert_with(Instant::now);
    }

    /// Whether something waits for the socket to take it.
    pub(super) fn is_blocked(&self) -> bool {
        self.state().blocked.is_some()
    }

    /// For how long the socket has taken nothing.
    pub(super) fn stood(&self) -> Duration {
        let blocked = self.state().blocked;
        blocked.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Notes what the socket's send buffer holds. What its peer has taken of it gives back time at
    /// this rate, or all of it where there is none.
    pub(super) fn holds(&self, queued: usize, rate: Option<NonZeroU64>) -> Queue {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.queued, queued);
        let taken = before.saturating_sub(queued) as u64;
        if taken > 0
            && let Some(since) = &mut state.blocked
        {
            let now = Instant::now();
            *since = rate.map_or(now, |rate| now.min(*since + worth(taken, rate)));
            // Where there is room in the socket, streams wait for windows of their own.
            state.taken += taken;
        }
        Queue {
            is_empty: queued == 0,
            taken,
        }
    }

    /// Tells at each call the part of one stream in what the peer has taken since the last one, and
    /// first 0: those that wait at the same time share it.
    pub(super) fn taken(&self) -> impl FnMut() -> u64 + Send + '_ {
        let mut waits = None;
        move || waits.get_or_insert_with(|| Waits::begin(self)).taken()
    }

    /// Notes that so much has come.
    pub(super) fn came(&self, bytes: usize) {
        self.state().read += bytes as u64;
    }

    /// How much has come in all.
    pub(super) fn read(&self) -> u64 {
        self.state().read
    }

    /// Waits until more may be given.
    pub(super) async fn room(&self) {
        loop {
            // Waits from here on, so that no notice is missed.
            let notified = self.room.notified();
            if self.state().given < self.max {
                return;
            }
            notified.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Numbers, which no panic can leave half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let given = self.state().given;
        self.all.sub(given);
    }
}

/// A stream that waits to send more.
struct Waits<'l> {
    line: &'l Line,
    seen: u64,
}

impl<'l> Waits<'l> {
    fn begin(line: &'l Line) -> Self {
        let mut state = line.state();
        state.waiting += 1;
        let seen = state.taken;
        Self { line, seen }
    }

    fn taken(&mut self) -> u64 {
        let state = self.line.state();
        let since = state.taken - std::mem::replace(&mut self.seen, state.taken);
        since / state.waiting
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.line.state().waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let all = Arc::new(All::new(100));
        let first = all.take(60).unwrap();
        assert!(all.take(50).is_none());
        assert_eq!(all.held(), 60, "what was refused is not held");
        drop(first);
        let line = Line::new(&all, 50);
        line.given(70);
        assert!(all.take(50).is_none(), "all count");
        line.written(30);
        assert_eq!(all.held(), 40);
        drop(line);
        assert_eq!(all.held(), 0);
    }

    #[test]
    fn settings_hold_when_h2_has_taken_what_was_read() {
        let line = Line::new(&Arc::new(All::new(100)), 50);
        let mut context = Context::from_waker(Waker::noop());
        let mut settled = pin!(line.settled());
        line.rests();
        assert_eq!(settled.as_mut().poll(&mut context), Poll::Pending);
        line.greeted();
        assert_eq!(settled.as_mut().poll(&mut context), Poll::Pending);
        // They hold when they are acknowledged, which waits for the socket.
        line.blocked();
        line.rests();
        assert_eq!(settled.as_mut().poll(&mut context), Poll::Pending);
        line.written(1);
        line.rests();
        assert_eq!(settled.as_mut().poll(&mut context), Poll::Ready(()));
    }

    #[test]
    fn whoever_waits_for_room_goes_on_when_enough_is_written() {
        let all = Arc::new(All::new(100));
        let line = Line::new(&all, 50);
        let mut context = Context::from_waker(Waker::noop());
        line.given(70);
        let mut room = pin!(line.room());
        assert_eq!(room.as_mut().poll(&mut context), Poll::Pending);
        line.written(10);
        assert_eq!(room.as_mut().poll(&mut context), Poll::Pending);
        line.written(11);
        assert_eq!(room.as_mut().poll(&mut context), Poll::Ready(()));
        // What was dropped with its stream is not written.
        line.given(1_000);
        line.blocked();
        line.rests();
        assert_eq!(all.held(), 1_049);
        line.written(1);
        line.rests();
        assert_eq!(all.held(), 0);
    }

    #[test]
    fn streams_that_wait_share_what_is_taken() {
        let line = Line::new(&Arc::new(All::new(100)), 50);
        line.holds(20_000, None);
        let (mut nobody, mut one_more) = (line.taken(), line.taken());
        assert_eq!((nobody(), one_more()), (0, 0));
        assert_eq!(line.holds(10_000, None).taken, 10_000);
        assert_eq!(nobody(), 0, "there is room in the socket");
        drop((nobody, one_more));
        line.blocked();
        let (mut one, mut other) = (line.taken(), line.taken());
        assert_eq!((one(), other()), (0, 0));
        line.holds(4_000, None);
        // More was written than was taken.
        line.holds(9_000, None);
        line.holds(8_000, None);
        assert_eq!((one(), other()), (3_500, 3_500));
        drop(other);
        line.holds(0, None);
        assert_eq!((one(), one()), (8_000, 0));
    }

    #[test]
    fn who_takes_something_does_not_stand_still() {
        let rate = NonZeroU64::new(1_000);
        let line = Line::new(&Arc::new(All::new(100)), 50);
        line.holds(10_000, rate);
        line.blocked();
        let hour = Duration::from_secs(3_600);
        let began = Instant::now().checked_sub(hour).unwrap();
        line.state().blocked = Some(began);
        line.holds(9_000, rate);
        let second = Duration::from_secs(1);
        assert!(
            (hour - second..hour).contains(&line.stood()),
            "a second's worth"
        );
        line.holds(9_500, rate);
        line.holds(9_500, rate);
        assert!(
            (hour - second..hour).contains(&line.stood()),
            "nothing is taken"
        );
        line.holds(9_499, None);
        assert!(line.stood() < second, "any byte does without a rate");
    }
}
