//! The running task's slice: when its leaf futures have to yield, and which may go on all the same.
//! `coop` has the reasons.

use std::cell::Cell;

use crate::sched::task::cell::Header;

use super::Worker;

/// How many futures are cut short within one poll before the next may go on. A join need not be
/// that large: another crate's `block_on` inside a task polls one future over and over, and does
/// not return before that future makes progress. Cutting short takes some 0.1 us, so this many cuts
/// take about a slice. A poll that blocks wastes half its time at worst, and the poll of a larger
/// join lasts about twice as long.
const CUTS_MAX: u64 = 1_000;

/// No future is spared.
const NOBODY: u64 = u64::MAX;

#[derive(Default)]
pub(super) struct Slice {
    /// The end of the slice, in cycles.
    end: Cell<u64>,
    /// The slice has been renewed in this poll.
    extended: Cell<bool>,
    /// The task has yielded.
    yielded: Cell<bool>,
    /// How many futures were cut short in this poll.
    cuts: Cell<u64>,
    /// Which of them may go on, counted from the first; [`NOBODY`] for none.
    spared: Cell<u64>,
    /// No future is cut short until one makes progress. Set if the task was cut short in the last
    /// poll and has made no progress since: otherwise a future that computes for longer than a
    /// slice before its first leaf would be cut short there in every poll. Also set after
    /// [`CUTS_MAX`] cuts in one poll.
    exempt: Cell<bool>,
}

/// What a slice was before it was suspended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspended {
    end: u64,
    exempt: bool,
}

impl Slice {
    pub(super) fn new() -> Self {
        Self {
            spared: Cell::new(NOBODY),
            ..Self::default()
        }
    }

    /// A poll begins, and may go on until `end`. In the poll before, `cuts` futures were cut short.
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

    /// Stores in the task how often it was cut short in this poll, for the next poll on whatever
    /// thread. If the task has made no progress, the number is at least one. For the task's runner,
    /// before others may run the task.
    #[inline]
    pub(super) fn note_cuts(&self, task: &Header) {
        let cuts = self.cuts.get().min(u64::from(u8::MAX)) as u8;
        let now = cuts.max(u8::from(self.exempt.get()));
        // Mostly it is zero and stays zero.
        if task.cut_short.load() != now {
            task.cut_short.put(now);
        }
    }

    /// Whether the future that is about to be cut short may go on. If several were cut short in one
    /// poll, the first of them always goes on in the next poll; if it computes, all others are cut
    /// short again. So one of the others, chosen at random, goes on as well.
    #[cold]
    fn spares(&self) -> bool {
        let spares = self.spared.get() == self.cuts.get();
        if spares {
            self.spared.set(NOBODY);
        }
        spares
    }

    /// No future is cut short until `resume`. Returns what that needs.
    pub(super) fn suspend(&self) -> Suspended {
        Suspended {
            end: self.end.replace(u64::MAX),
            exempt: self.exempt.replace(false),
        }
    }

    pub(super) fn resume(&self, before: Suspended) {
        self.end.set(before.end);
        self.exempt.set(before.exempt);
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
    /// Whether a future of the running task has to yield because the slice is used up.
    #[inline]
    pub(crate) fn cuts_short(&self) -> bool {
        self.running.class().is_some()
            && !self.slice.exempt.get()
            && self.clock().cycles() >= self.slice.end.get()
            && !self.extends_slice()
            && !self.slice.spares()
    }

    /// Renews the slice once in each poll on a thread without a seat, where no I/O waits behind the
    /// poll. So a hog can write its answer at once, and does not have to queue again for that.
    /// Returns whether it did.
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

    /// The running task has woken itself, to let others run first; `cut_short` if a future made it
    /// do so.
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
