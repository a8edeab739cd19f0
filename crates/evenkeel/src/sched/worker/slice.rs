//! The running task's slice: when its leaf futures have to give way, and which go on all the same.
//! `coop` says why.

use std::cell::Cell;

use crate::sched::task::cell::Header;
use crate::sync::atomic::Ordering;

use super::Worker;

/// How many futures are cut short within one poll before the next may go on all the same. A join
/// need not be that large: another crate's `block_on` inside a task polls one future over and over,
/// and its poll does not end before that future makes progress. Cutting short takes some 0.1 us, so
/// this many cuts take about as long as a slice. A poll that blocks wastes half its time at worst,
/// and the poll of a larger join lasts about twice as long.
const CUTS_MAX: u64 = 1_000;

/// No future is spared.
const NOBODY: u64 = u64::MAX;

/// See the module's documentation.
pub(super) struct Slice {
    /// Until when the running task may go on, in cycles.
    end: Cell<u64>,
    /// The slice began anew in this poll.
    extended: Cell<bool>,
    /// The task has given way.
    yielded: Cell<bool>,
    /// How many of its futures were cut short because the slice was used up.
    cuts: Cell<u64>,
    /// Which of them may go on all the same, counted from the first; [`NOBODY`] for no future.
    spared: Cell<u64>,
    /// The task was cut short last time and has made no progress since. It may go on until it does.
    /// Otherwise a future that computes for longer than a slice before its first leaf would be cut
    /// short there in every poll. The same goes for a task that was cut short [`CUTS_MAX`] times in
    /// this poll.
    exempt: Cell<bool>,
}

impl Slice {
    pub(super) fn new() -> Self {
        Self {
            end: Cell::new(0),
            extended: Cell::new(false),
            yielded: Cell::new(false),
            cuts: Cell::new(0),
            spared: Cell::new(NOBODY),
            exempt: Cell::new(false),
        }
    }

    /// A poll begins, and may go on until `end`; in the poll before, `cuts` futures were cut short.
    #[inline]
    pub(super) fn begin(&self, end: u64, cuts: u8, random: impl FnOnce() -> u32) {
        self.end.set(end);
        self.extended.set(false);
        self.yielded.set(false);
        self.cuts.set(0);
        self.exempt.set(cuts > 0);
        self.spared.set(if cuts > 1 {
            u64::from(random() % u32::from(cuts))
        } else {
            NOBODY
        });
    }

    pub(super) fn has_yielded(&self) -> bool {
        self.yielded.get()
    }

    /// Stores in the task how often it was cut short in this poll, or in the one before if it has
    /// made no progress since. The next poll needs that, on whatever thread. For the task's runner,
    /// before others may run it.
    #[inline]
    pub(super) fn note_cuts(&self, task: &Header) {
        let cuts = self.cuts.get().min(u64::from(u8::MAX)) as u8;
        let now = cuts.max(u8::from(self.exempt.get()));
        // Relaxed: the runner alone touches the number. Mostly it is zero and stays zero.
        if task.cut_short.load(Ordering::Relaxed) != now {
            task.cut_short.store(now, Ordering::Relaxed);
        }
    }

    /// Whether the future that is about to be cut short is spared. If several were cut short in one
    /// poll, the first always goes on in the next, and if it computes, all others are cut short
    /// again. So one of the others, chosen at random, goes on as well.
    #[cold]
    fn spares(&self) -> bool {
        let spares = self.spared.get() == self.cuts.get();
        if spares {
            self.spared.set(NOBODY);
        }
        spares
    }

    fn cut(&self) {
        let cuts = self.cuts.get() + 1;
        self.cuts.set(cuts);
        if cuts.is_multiple_of(CUTS_MAX) {
            self.exempt.set(true);
        }
    }
}

impl Worker {
    /// Whether a future of the running task has to give way, as the task's slice is used up.
    #[inline]
    pub(crate) fn cuts_short(&self) -> bool {
        self.running.class().is_some()
            && !self.slice.exempt.get()
            && self.clock().cycles() >= self.slice.end.get()
            && !self.extends_slice()
            && !self.slice.spares()
    }

    /// Whether the slice begins anew. On a thread without a seat it does so once in each poll, as
    /// no I/O waits behind that poll. So a hog can write its answer at once, and does not have to
    /// queue again for that.
    #[cold]
    fn extends_slice(&self) -> bool {
        let is_seatless = self.lost.get() || self.desk.tenure().has_lost();
        let extends = is_seatless && !self.slice.extended.replace(true);
        if extends {
            self.renew_slice();
        }
        extends
    }

    fn renew_slice(&self) {
        let now = self.clock().cycles();
        self.slice.end.set(now + self.bounds.slice);
    }

    /// The running task wakes itself, so that others have their turn before it goes on; `cut_short`
    /// if it was made to.
    pub(crate) fn give_way(&self, cut_short: bool) {
        self.slice.yielded.set(true);
        if cut_short {
            self.slice.cut();
        }
    }

    /// A leaf future of the running task has made progress.
    #[inline]
    pub(crate) fn got_on(&self) {
        if self.slice.exempt.replace(false) {
            self.renew_slice();
        }
    }
}
