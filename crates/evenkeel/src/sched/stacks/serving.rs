//! Who takes the events and makes names of them: one thread at a time.
//!
//! That thread has the lowest priority, and on a busy machine it may not get on for minutes. One
//! that is in a hurry can [take over](Stacks::take_over), and has the event again that the other
//! has in hand. Each has a number. One that is no longer the server gets no more events, and what
//! it has made of its last one does not count.

use crate::sync::Arc;
use crate::sync::atomic::Ordering;

use super::{Event, Stacks, State};

/// Which thread takes the events, of all that ever did; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerId(u64);

/// What comes of an attempt to take over.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum TakeOver {
    /// The caller is the one from now on.
    Done(ServerId),
    /// All has its name that can have one now.
    NothingToDo,
    /// One that took over is at it, or something is under way. Worth another look.
    Busy,
}

impl Stacks {
    /// The next event, for the thread that takes them; `None` if there is none, and the thread no
    /// longer counts as the one that does if it `ends` then.
    pub(crate) fn next(&self, server: ServerId, ends: bool) -> Option<Event> {
        let mut state = self.state.lock();
        if state.server != server {
            return None;
        }
        let event = state.events.pop_front();
        if event.is_none() {
            state.waiting = 0;
        }
        state.in_hand = match &event {
            Some(Event::Caught(caught)) => Some(Event::Caught(Arc::clone(caught))),
            Some(Event::Ended { end, rest }) => Some(Event::Ended {
                end: *end,
                rest: *rest,
            }),
            // Nobody waits for those.
            Some(Event::Report(..)) | None => None,
        };
        state.served &= event.is_some() || !ends;
        event
    }

    /// Whether this thread still is the one that takes events.
    pub(crate) fn is_server(&self, server: ServerId) -> bool {
        self.state.lock().server == server
    }

    /// Counts the event in hand, unless another thread does it again: then this returns false.
    /// Nobody takes over meanwhile, or finds that there is nothing to do.
    pub(crate) fn put_down(&self, server: ServerId, count: impl FnOnce()) -> bool {
        let mut state = self.state.lock();
        if state.server != server {
            return false;
        }
        state.in_hand = None;
        state.counts = true;
        // Others need the lock, and this thread may not get on.
        drop(state);
        count();
        self.state.lock().counts = false;
        true
    }

    /// For who waits for names, and will not wait for a thread of the lowest priority.
    #[cfg_attr(
        not(feature = "drop-in"),
        allow(dead_code, reason = "only reports of the drop-in wait")
    )]
    pub(crate) fn take_over(&self) -> TakeOver {
        if !self.on || self.is_closed() {
            return TakeOver::NothingToDo;
        }
        let Some(mut state) = self.state.try_lock() else {
            return TakeOver::Busy;
        };
        if state.counts || state.hurries && state.served {
            return TakeOver::Busy;
        }
        if let Some(begun) = state.in_hand.take() {
            state.events.push_front(begun);
        }
        if !state.events.is_empty() {
            let server = state.begin_serving();
            state.hurries = true;
            return TakeOver::Done(server);
        }
        // Relaxed: the monitor, which takes in what was missed, goes by the flag; here it only says
        // that something is to come.
        if self.missed.load(Ordering::Relaxed) {
            return TakeOver::Busy;
        }
        TakeOver::NothingToDo
    }
}

impl State {
    /// Another thread is the server from now on.
    pub(super) fn begin_serving(&mut self) -> ServerId {
        self.served = true;
        self.hurries = false;
        self.server.0 += 1;
        self.server
    }
}
