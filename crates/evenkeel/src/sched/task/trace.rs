//! Where a task waits: what a poll shows that is made to find out.
//!
//! A task that returns pending has given a clone of its waker to whatever will wake it. So a poll
//! with a waker that notes the stack at each clone shows the future that the task waits for, and
//! the async functions around it. That holds for futures of any crate: a waker with a table of
//! functions of its own is not the one that they have stored, so they clone it. The clones are
//! ordinary wakers, and the next poll finds them to be the task's own.
//!
//! The runtime's own futures say besides what they wait for ([`note`]).
//!
//! # Who touches what
//!
//! - [`Mark`]: set by the thread that makes a dump, which then wakes the task; changed by the
//!   runner when the poll begins, and cleared by it when it has handed over what the poll showed.
//!   The first thread takes it back when it has no more time.
//! - The trace of the poll that is under way: a local of the runner's thread.
#![allow(
    unsafe_code,
    reason = "stacks are walked without the lock that other systems need"
)]

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::time::Instant;

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU8, Ordering};

use super::Id;

/// So many places are kept of one poll: more than a `select!` usually has branches.
pub(crate) const PLACES_MAX: usize = 4;
/// So many frames of a stack.
#[cfg(all(feature = "hog-stacks", not(evenkeel_loom)))]
const FRAMES_MAX: usize = 128;

/// Whether the task's next poll is to be traced, or the poll that is under way is. Relaxed: whoever
/// asks for it wakes the task, and the runner's `start` acquires that.
#[derive(Debug)]
pub(crate) struct Mark(AtomicU8);

const ASKED: u8 = 1;
const BEGUN: u8 = 2;

impl Mark {
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// No model traces, and a look would double the work of many.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        // Relaxed: see above.
        cfg!(not(evenkeel_loom)) && self.0.load(Ordering::Relaxed) != 0
    }

    /// The next poll is to be traced.
    pub(crate) fn ask(&self) {
        // Relaxed: see above.
        self.0.store(ASKED, Ordering::Relaxed);
    }

    /// For the thread that has asked.
    pub(crate) fn take_back(&self) {
        // Relaxed: see above.
        self.0.store(0, Ordering::Relaxed);
    }

    /// A traced poll begins. For the task's runner.
    pub(super) fn begin(&self) {
        // Relaxed: see above. It may have been taken back.
        let _ = (self.0).compare_exchange(ASKED, BEGUN, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether a traced poll is under way, and nobody has asked for another. For the task's runner.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        // Relaxed: see above.
        self.0.load(Ordering::Relaxed) == BEGUN
    }

    /// A traced poll is over. For the task's runner.
    pub(crate) fn end(&self) {
        // Relaxed: see above. Somebody may have asked again.
        let _ = (self.0).compare_exchange(BEGUN, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// What one of the runtime's own futures waits for.
#[derive(Clone, Debug)]
pub(crate) enum Noted {
    /// A descriptor, and the names of its ends as far as it has some.
    Descriptor {
        fd: i32,
        local: Option<String>,
        peer: Option<String>,
        readable: bool,
        writable: bool,
    },
    Timer(Instant),
    /// The end of a task.
    Task(Id, &'static Location<'static>),
    /// The end of work in the lane of this name.
    Lane(Arc<str>),
}

/// A place where a task waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// Addresses of code, the innermost first, from where the waker was cloned to the poll of the
    /// task; none if no stacks are taken.
    pub(crate) stack: Vec<usize>,
    pub(crate) noted: Option<Noted>,
}

/// What a poll has shown.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) places: Vec<Place>,
    /// The task was woken in the poll: it has yielded, for example.
    pub(crate) is_woken: bool,
    /// The spans that were entered at the first place that was within some.
    pub(crate) within: Option<String>,
    /// The address of a local of the function that polled the task: frames above are the runner's.
    bottom: usize,
}

impl Trace {
    /// For the thread that makes the poll, where it has found out something. The waker may have
    /// been cloned outside of all spans, by what goes around the future, so notes look as well.
    fn look_around(&mut self) {
        #[cfg(not(evenkeel_loom))]
        if self.within.is_none() {
            self.within = WITHIN.get().and_then(|here| here());
        }
    }
}

/// What says which spans are entered on this thread.
#[cfg(not(evenkeel_loom))]
static WITHIN: crate::sync::OnceLock<fn() -> Option<String>> = crate::sync::OnceLock::new();

/// From now on, traces have what this function says of the thread that makes the poll.
#[cfg(not(evenkeel_loom))]
pub(crate) fn note_within(here: fn() -> Option<String>) {
    let _ = WITHIN.set(here);
}

/// How many futures of a traced poll are not cut short at first, and after each stack that was
/// taken.
const SPARED: u32 = 16;

thread_local! {
    /// How many futures are still to be spared.
    static SPARES: Cell<u32> = const { Cell::new(0) };
    /// A traced poll is under way on this thread.
    static IS_TRACING: Cell<bool> = const { Cell::new(false) };
    static TRACE: RefCell<Trace> = const {
        RefCell::new(Trace { places: Vec::new(), is_woken: false, within: None, bottom: 0 })
    };
}

/// Makes a traced poll, which does not unwind; true if the task has completed.
#[inline(never)]
pub(super) fn during(poll: impl FnOnce() -> bool) -> bool {
    let local = 0_u8;
    let bottom = std::hint::black_box(&raw const local).addr();
    TRACE.set(Trace {
        bottom,
        ..Trace::default()
    });
    SPARES.set(SPARED);
    IS_TRACING.set(true);
    let finished = poll();
    IS_TRACING.set(false);
    if finished {
        drop(take());
    }
    finished
}

/// What the traced poll has shown that this thread made last.
pub(crate) fn take() -> Trace {
    TRACE.with(RefCell::take)
}

/// Whether a traced poll is under way on this thread. For futures that are about to return pending.
#[inline]
fn is_tracing() -> bool {
    // A thread whose locals are gone traces nothing.
    IS_TRACING.try_with(Cell::get).unwrap_or(false)
}

/// Whether a future goes on that was about to be cut short, as the task's slice is used up: by the
/// stacks that were taken, perhaps, or because the thread was not scheduled. Otherwise what the
/// task waits for would not be seen. There are a few such futures for each stack, so that a poll
/// that has much to do still ends.
#[cold]
pub(crate) fn spares() -> bool {
    if !is_tracing() {
        return false;
    }
    let left = SPARES.get().checked_sub(1);
    SPARES.set(left.unwrap_or(0));
    left.is_some()
}

/// One of the runtime's own futures returns pending, and says what it waits for. It has just cloned
/// the waker.
#[inline]
pub(crate) fn note(noted: impl FnOnce() -> Noted) {
    if is_tracing() {
        add_note(noted());
    }
}

#[cold]
fn add_note(noted: Noted) {
    TRACE.with_borrow_mut(|trace| {
        let last = trace.places.last_mut();
        if let Some(place) = last.filter(|place| place.noted.is_none()) {
            place.noted = Some(noted);
        } else if trace.places.len() < PLACES_MAX {
            let (stack, noted) = (Vec::new(), Some(noted));
            trace.places.push(Place { stack, noted });
        }
        trace.look_around();
    });
}

/// The waker of a traced poll is cloned.
#[inline(never)]
pub(super) fn note_clone() {
    if !is_tracing() {
        return;
    }
    TRACE.with_borrow_mut(|trace| {
        if trace.places.len() < PLACES_MAX {
            SPARES.set(SPARED);
            let stack = stack(trace.bottom);
            trace.places.push(Place { stack, noted: None });
            trace.look_around();
        }
    });
}

/// The calling thread's stack up to the frame that has a local at `bottom`.
#[cfg(all(feature = "hog-stacks", not(evenkeel_loom)))]
fn stack(bottom: usize) -> Vec<usize> {
    let mut stack = Vec::new();
    let note = |frame: &backtrace::Frame| {
        stack.push(frame.ip().addr());
        // Where the system does not say how far a frame reaches, the stack is kept whole.
        frame.sp().addr() <= bottom && stack.len() < FRAMES_MAX
    };
    // SAFETY: the lock that this leaves out is needed on Windows only, for which the crate does not
    // compile. On Unix the unwinder is that of panics, which any number of threads run at once.
    unsafe { backtrace::trace_unsynchronized(note) };
    stack
}

#[cfg(not(all(feature = "hog-stacks", not(evenkeel_loom))))]
fn stack(_bottom: usize) -> Vec<usize> {
    Vec::new()
}
