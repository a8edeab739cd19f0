//! A hierarchical timer wheel as a plain data structure: no clock, no thread, no `unsafe`.
//!
//! Time is a `u64` count of ticks; the caller decides how long a tick lasts and when it started.
//! Insertion and cancellation take constant time. Advancing takes time in proportion to the entries
//! it moves, not to the ticks it skips, and moves at most a given number of entries. (G. Varghese,
//! T. Lauck, "Hashed and Hierarchical Timing Wheels", 1987.)
//!
//! # How it works
//!
//! A tick is read as a number in base 64, most significant digit first, and each *level* is one
//! digit of it:
//!
//! ```text
//!   level   10      9    …     2       1      0
//!   digit [ d10 ] [ d9 ] … [ d2  ] [ d1  ] [ d0 ]        tick = Σ d(l) · 64^l
//!   slot      16     64        64      64     64         per level, with one bitmap each
//! ```
//!
//! An entry waits at the level of the *highest digit in which its deadline differs from the
//! present*, in the slot of its own digit there. Everything else rests on two facts:
//!
//! 1. Within its level, a waiting entry's digit is greater than the present's, as its deadline is
//!    later
//!    its bitmap is its earliest slot.
//! 2. An entry of a lower level shares more digits with the present, and so comes before every
//!    entry of a higher level. The earliest slot of all is the first slot of the lowest occupied
//!    level.
//!
//! [`Wheel::advance`] goes from one earliest slot to the next. When the present reaches a slot's
//! first tick, its entries are placed anew by the same rule: they are due now or belong to a lower
//! level. Moving the present in the gap before the earliest slot changes no entry's highest
//! differing digit, so no entry has to be visited.
//!
//! # Advancing by parts
//!
//! Any number of entries may be due at once, and the worker that fires them has other work. So
//! `advance` takes a limit, and stops when it is reached, be it within a tick or a slot. The
//! present stays where it stopped, and the next call goes on from there.
//!
//! A slot whose entries are being placed anew is *open*: the present has reached it, and its list
//! is emptied front to back. An entry that is inserted meanwhile and belongs to a lower level joins
//! the end of that list instead, behind entries of its own tick. So the order is the same as if the
//! slot had been emptied at once.
//!
//! # Order
//!
//! Entries fire in the order of their ticks, and within a tick in the order of their insertion,
//! since entries of one deadline are always in one list, and lists are moved front to back. An
//! entry inserted at or after its deadline counts as due at the wheel's present, which may be
//! behind the time passed to an unfinished `advance`.
//!
//! # Known failures of other wheels
//!
//! Each of these was found in production elsewhere. Their common roots are a horizon beyond which
//! the arithmetic of levels no longer holds, and a second copy of some state, which goes stale.
//!
//! - *Top level wraps.* Tokio's six levels reach 2^36 ms, and entries beyond are folded into the
//!   last level, whose slots then mean two times at once. After 12 days of uptime, when the last
//!   level's digit first became nonzero, short sleeps could be taken for wrapped ones, panic, or
//!   never fire. Here the levels cover all 64 bits of a tick, so nothing is folded or wraps, and
//!   there is no overflow list.
//! - *Panic after 2^36 ms.* Tokio's `DelayQueue` and its ancestor indexed a seventh level of six
//!   once the process was 795 days old. Here no such index exists; the tests run every operation
//!   from starts on each side of every power of 64, and at the end of `u64`.
//! - *Far deadlines refused.* `DelayQueue` panics for delays of more than two years. Every `u64` is
//!   a valid deadline here.
//! - *Timers that do not fire.* When Tokio split one wheel into several, the time of the next
//!   wake-up was computed outside the locks of the wheels, and could overwrite an earlier one. Here
//!   a wheel has one lock, under which its next deadline is computed (see `timers`).
//! - *Cancelled entries stay.* An alternative wheel in Tokio kept entries that were cancelled
//!   before their worker had taken them in, until their deadline, up to two years later. Here there
//!   is no queue in front of the wheel: insertion is complete when it returns, and cancellation
//!   frees the entry at once.
//! - *A reset to an earlier time ignored.* `DelayQueue` compared a new deadline with the start of a
//!   slot instead of the deadline until which it slept. Here [`Wheel::next_deadline`] is derived
//!   from the entries at each call and stored nowhere else.
//! - *Removal at the very tick of the deadline.* `DelayQueue` kept expired entries in a separate
//!   list but looked for them in the wheel, and panicked when deadline and present were equal. Here
//!   an entry stores the list that it is in, and the due list is a list like all others.

use std::num::NonZeroU64;

use slab::Slab;

/// The digit width of a wheel, in bits: 64 slots fill a bitmap of one word exactly.
///
/// Models initialize each slot many thousand times, so they use 4 slots.
const SLOT_BITS: u32 = if cfg!(evenkeel_loom) { 2 } else { 6 };

/// The index that stands for "no entry", and "no list".
const NIL: u32 = u32::MAX;

/// How many steps it takes to fire an entry, where placing it anew takes one.
const FIRING: usize = 4;

/// How many vacant entries an empty wheel may keep. After a burst beyond it, the memory is freed.
const VACANT_ENTRIES_MAX: usize = 1024;

/// Identifies an entry of a [`Wheel`]. Serial numbers are never reused, so a stale key finds
/// nothing, whatever entry is at its index now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    index: u32,
    serial: NonZeroU64,
}

impl Key {
    /// A key that no entry of any wheel has.
    pub(crate) const STALE: Self = Self {
        index: NIL,
        serial: NonZeroU64::MAX,
    };
}

#[cfg_attr(test, derive(Clone))]
pub(crate) struct Wheel<T, const BITS: u32 = SLOT_BITS> {
    /// The present: the latest tick passed to `advance`, or the one at which that stopped.
    /// Invariant between calls: each entry is in the list of `place_when_closed` for its deadline,
    /// or in that of the open slot.
    elapsed: u64,
    /// The list of the open slot, or `NIL`. It is not empty, and has no bit in `occupied_slots`.
    open: u32,
    entries: Slab<Entry<T>>,
    /// The serial number of the next entry. It would take centuries to use them up.
    next_serial: NonZeroU64,
    /// One bit for each level with a bit set in `occupied_slots`.
    occupied_levels: u64,
    /// For each level, one bit for each slot whose list is not empty, but for the open one.
    occupied_slots: Box<[u64]>,
    /// The lists of all slots, level by level, and the list of due entries last.
    lists: Box<[List]>,
}

#[cfg_attr(test, derive(Clone))]
struct Entry<T> {
    deadline: u64,
    serial: NonZeroU64,
    prev: u32,
    next: u32,
    /// The index of the list that the entry is in.
    list: u32,
    value: T,
}

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    /// A lower bound of the deadlines in the list. Cancelling the earliest entry does not change
    /// it; it is reset when the list becomes empty.
    earliest: u64,
}

impl List {
    const EMPTY: Self = Self {
        head: NIL,
        tail: NIL,
        earliest: u64::MAX,
    };
}

impl<T> Wheel<T> {
    pub(crate) fn new() -> Self {
        Self::starting_at(0)
    }
}

impl<T, const BITS: u32> Wheel<T, BITS> {
    const SLOTS: usize = 1 << BITS;
    const LEVELS: usize = u64::BITS.div_ceil(BITS) as usize;
    /// The index of the due list: entries whose deadline is not after the present.
    const DUE: usize = Self::LEVELS * Self::SLOTS;

    pub(crate) fn starting_at(elapsed: u64) -> Self {
        const {
            assert!(
                BITS >= 1 && BITS <= 6,
                "a level's bitmap is one 64-bit word"
            )
        };
        Self {
            elapsed,
            open: NIL,
            entries: Slab::new(),
            next_serial: NonZeroU64::MIN,
            occupied_levels: 0,
            occupied_slots: vec![0; Self::LEVELS].into_boxed_slice(),
            lists: vec![List::EMPTY; Self::DUE + 1].into_boxed_slice(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds `value`, to be fired by the first `advance` to `deadline` or later. A deadline that is
    /// not after the present fires at the next `advance`, whatever its argument.
    ///
    /// # Panics
    ///
    /// With 2^32 - 1 entries, which would take 200 GB.
    pub(crate) fn insert(&mut self, deadline: u64, value: T) -> Key {
        assert!(
            self.entries.len() < NIL as usize,
            "a timer wheel holds 2^32 - 1 entries at most"
        );
        let serial = self.next_serial;
        self.next_serial = serial.saturating_add(1);
        let entry = Entry {
            deadline,
            serial,
            prev: NIL,
            next: NIL,
            list: 0,
            value,
        };
        let index = self.entries.insert(entry) as u32;
        self.push_back(self.place(deadline), index);
        Key { index, serial }
    }

    /// Removes an entry and returns its value; `None` if it has fired or has been cancelled.
    pub(crate) fn cancel(&mut self, key: Key) -> Option<T> {
        self.get_mut(key)?;
        self.unlink(key.index);
        Some(self.remove(key.index))
    }

    /// The value of an entry; `None` if it has fired or has been cancelled.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.index as usize)?;
        (entry.serial == key.serial).then_some(&mut entry.value)
    }

    /// Whether an [`advance`](Self::advance) to the present has work: entries that are due, or that
    /// the last one left in the open slot.
    pub(crate) fn has_due(&self) -> bool {
        self.open != NIL || self.lists[Self::DUE].head != NIL
    }

    /// The tick of the next [`advance`](Self::advance), or `None` without entries.
    ///
    /// It is never later than the earliest deadline, and normally equal to it. It is the present if
    /// an entry was due when it was inserted, or if the last `advance` stopped at its limit. It may
    /// also be the deadline of an entry that has been cancelled since: then advancing to it fires
    /// nothing, but moves the entries of at least one slot to a lower level. So an entry is
    /// affected by this fewer times than there are levels; on the lowest level the tick is exact.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        if self.has_due() {
            return Some(self.elapsed);
        }
        let (list, start) = self.first_slot()?;
        // No entry is in a slot that starts after its deadline.
        debug_assert!(self.lists[list].earliest >= start);
        Some(self.lists[list].earliest)
    }

    /// Makes `now` the present, and passes each value whose deadline is not after it to `fire`, in
    /// the [order](self#order) of their ticks.
    ///
    /// Takes at most `limit` steps: placing an entry anew takes one, and firing it takes
    /// [`FIRING`], in proportion to their costs. Every call makes progress. Returns whether the
    /// steps were enough; if not, the next call goes on, and until then
    /// [`next_deadline`](Self::next_deadline) is not later than `now`.
    ///
    /// A `now` before the present counts as the present. If `fire` panics, the entries that it was
    /// not given yet are kept and fire at the next call.
    pub(crate) fn advance(&mut self, now: u64, limit: usize, fire: &mut impl FnMut(T)) -> bool {
        let mut left = limit.max(1);
        loop {
            if !self.empty_open(&mut left) || !self.fire_due(&mut left, fire) {
                return false;
            }
            match self.first_slot() {
                Some((list, start)) if start <= now => {
                    debug_assert!(start > self.elapsed);
                    self.elapsed = start;
                    self.mark_vacant(list);
                    self.open = list as u32;
                }
                _ => break,
            }
        }
        debug_assert!(!self.has_due());
        self.elapsed = self.elapsed.max(now);
        true
    }

    /// Removes all entries and returns their values, in no particular order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + use<T, BITS> {
        self.lists.fill(List::EMPTY);
        self.open = NIL;
        self.occupied_slots.fill(0);
        self.occupied_levels = 0;
        let entries = std::mem::take(&mut self.entries);
        entries.into_iter().map(|(_, entry)| entry.value)
    }

    /// The list in which an entry with this deadline belongs: that of the open slot if the deadline
    /// is within that slot or past.
    fn place(&self, deadline: u64) -> usize {
        let list = self.place_when_closed(deadline);
        let open = self.open as usize;
        if self.open != NIL && (list == Self::DUE || list / Self::SLOTS < open / Self::SLOTS) {
            open
        } else {
            list
        }
    }

    /// The list in which an entry belongs by its highest digit that differs from the present.
    fn place_when_closed(&self, deadline: u64) -> usize {
        if deadline <= self.elapsed {
            return Self::DUE;
        }
        let level = (self.elapsed ^ deadline).ilog2() / BITS;
        let digit_of = |tick: u64| (tick >> (level * BITS)) as usize & (Self::SLOTS - 1);
        let digit = digit_of(deadline);
        debug_assert!(digit > digit_of(self.elapsed), "a level wraps");
        level as usize * Self::SLOTS + digit
    }

    /// The list and the first tick of the earliest slot.
    fn first_slot(&self) -> Option<(usize, u64)> {
        if self.occupied_levels == 0 {
            return None;
        }
        let level = self.occupied_levels.trailing_zeros();
        let digit = self.occupied_slots[level as usize].trailing_zeros();
        // The highest level may end above bit 63, where there is no digit left to keep.
        let above = u64::MAX.checked_shl((level + 1) * BITS).unwrap_or(0);
        let start = (self.elapsed & above) | (u64::from(digit) << (level * BITS));
        Some((level as usize * Self::SLOTS + digit as usize, start))
    }

    /// Empties the list of the open slot, if there is one, into the lists where its entries belong
    /// now. Returns false if the steps do not suffice.
    fn empty_open(&mut self, left: &mut usize) -> bool {
        while self.open != NIL {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            let index = self.lists[self.open as usize].head;
            debug_assert_eq!(self.entries[index as usize].list, self.open);
            let deadline = self.entries[index as usize].deadline;
            self.unlink(index);
            self.push_back(self.place_when_closed(deadline), index);
        }
        true
    }

    /// Fires the due list, one entry at a time, so that a panic loses none. Returns false if the
    /// steps do not suffice.
    fn fire_due(&mut self, left: &mut usize, fire: &mut impl FnMut(T)) -> bool {
        loop {
            let index = self.lists[Self::DUE].head;
            if index == NIL {
                return true;
            }
            if *left == 0 {
                return false;
            }
            debug_assert!(
                self.entries[index as usize].deadline <= self.elapsed,
                "a timer is early"
            );
            *left = left.saturating_sub(FIRING);
            self.unlink(index);
            fire(self.remove(index));
        }
    }

    fn push_back(&mut self, list: usize, index: u32) {
        let tail = self.lists[list].tail;
        let entry = &mut self.entries[index as usize];
        entry.list = list as u32;
        entry.prev = tail;
        entry.next = NIL;
        let deadline = entry.deadline;
        if tail == NIL {
            self.lists[list] = List {
                head: index,
                tail: index,
                earliest: deadline,
            };
            self.mark_occupied(list);
        } else {
            self.entries[tail as usize].next = index;
            self.lists[list].tail = index;
            self.lists[list].earliest = self.lists[list].earliest.min(deadline);
        }
    }

    fn unlink(&mut self, index: u32) {
        let entry = &self.entries[index as usize];
        let (prev, next, list) = (entry.prev, entry.next, entry.list as usize);
        match prev {
            NIL => self.lists[list].head = next,
            prev => self.entries[prev as usize].next = next,
        }
        match next {
            NIL => self.lists[list].tail = prev,
            next => self.entries[next as usize].prev = prev,
        }
        debug_assert_eq!(self.lists[list].head == NIL, self.lists[list].tail == NIL);
        if self.lists[list].head == NIL {
            if self.open as usize == list {
                self.open = NIL;
            }
            self.mark_vacant(list);
        }
    }

    /// Frees an entry that is in no list.
    fn remove(&mut self, index: u32) -> T {
        let value = self.entries.remove(index as usize).value;
        if self.entries.is_empty() && self.entries.capacity() > VACANT_ENTRIES_MAX {
            self.entries = Slab::new();
        }
        value
    }

    fn mark_occupied(&mut self, list: usize) {
        if list != Self::DUE {
            let level = list / Self::SLOTS;
            self.occupied_slots[level] |= 1 << (list % Self::SLOTS);
            self.occupied_levels |= 1 << level;
        }
    }

    fn mark_vacant(&mut self, list: usize) {
        if list != Self::DUE {
            let level = list / Self::SLOTS;
            self.occupied_slots[level] &= !(1 << (list % Self::SLOTS));
            if self.occupied_slots[level] == 0 {
                self.occupied_levels &= !(1 << level);
            }
        }
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
