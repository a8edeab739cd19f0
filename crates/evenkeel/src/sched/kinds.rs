//! What is known of kinds of tasks: which of them hog.
//!
//! A task that hogs is known from its first long poll on. But a task that lives for one request and
//! computes for 20 ms in its only poll is known only when it is over. So what it taught is kept for
//! its *kind* ([`Kind`]): a table has the part of a kind's tasks that hogged lately.
//!
//! A server may have one spawn site, and one type of future, for requests of all sorts. So a kind
//! says little about a task unless nearly all tasks of the kind hog. There are three steps:
//!
//! | the part that hogged | a fresh task of this kind |
//! |---|---|
//! | less than [`FEW`] | is a task like any other |
//! | between | is polled where it is, but *on guard*: noticed sooner if it does not come back |
//! | more than [`NEARLY_ALL`] | starts in the heavy pool, if it is not urgent |
//!
//! The part is the mean of the first [`MEMORY`] tasks, and then a moving average over so many. At
//! least four tasks have to be known before any is sent to the pool; two or three in a row that
//! behave take a kind out of it again.
//!
//! The table has room for [`KINDS_MAX`] kinds. When it is full, further kinds are not learned, and
//! their hogs are handed off one by one.
//!
//! What a kind taught is for its fresh tasks. Those that were there before are suspected as well
//! while many of them begin to block ([`surge`]).

use crate::class::{CLASSES_MAX, Class};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::task::kind::Kind;
use surge::Surge;

pub(super) mod surge;

pub(crate) const KINDS_MAX: usize = 256;
/// How many entries a look-up examines; a kind that finds none of them free is not learned.
const PROBES: usize = 16;
/// All of a kind's tasks.
const ALL: u32 = 1 << 16;
/// Below this part, hogs are too rare to put the others on guard. It is reached when some twenty
/// tasks have behaved after a hog.
const FEW: u32 = ALL / 64;
/// Above this part, a kind's tasks start in the heavy pool. The one in eight that does not hog
/// waits there for a thread of low priority, but not behind the hand-offs of the seven others.
const NEARLY_ALL: u32 = ALL / 8 * 7;
/// How many tasks have to be known before fresh ones are sent to the pool.
const SEEN_MIN: u32 = 4;
/// How many tasks a kind is judged by.
const MEMORY: u32 = 16;

/// See the module's documentation. The atomics are Relaxed throughout: statistics and moving
/// averages, in which a lost update does not matter, and keys that are only compared.
#[derive(Debug)]
pub(crate) struct Kinds {
    table: Box<[Entry]>,
    len: AtomicUsize,
    /// Polls that were too long, by class.
    hogs: [AtomicU64; CLASSES_MAX],
    /// The reports, by the kind's index in the table.
    rows: Mutex<Vec<Option<HogRow>>>,
    /// When the last surge of any kind ends, in cycles; 0 if there was none.
    surge_until: AtomicU64,
}

#[derive(Debug, Default)]
struct Entry {
    /// [`Kind::key`]; 0 if the entry is free.
    key: AtomicU64,
    /// The part of its tasks that hogged, as a fraction of `ALL`.
    hogging: AtomicU32,
    /// The part of its hogs that blocked and did not compute, likewise.
    blocking: AtomicU32,
    /// Of how many tasks, and of how many hogs, up to `MEMORY`.
    seen: AtomicU32,
    hogs_seen: AtomicU32,
    /// When its last surge ends, in cycles, and the number of that surge. Both 0 before the first.
    surge_until: AtomicU64,
    surge: AtomicU8,
}

/// The hogs of one kind.
#[derive(Clone, Debug)]
pub(crate) struct HogRow {
    pub(crate) kind: Kind,
    /// Polls that were too long.
    pub(crate) count: u64,
    /// How many of those that are over were blocked.
    pub(crate) blocked: u64,
    /// In cycles.
    pub(crate) longest: u64,
    pub(crate) total: u64,
    /// When the last report was made, in cycles, and how many hogs went unreported since.
    pub(crate) reported_at: Option<u64>,
    pub(crate) suppressed: u64,
    surge: Surge,
}

/// What a kind is known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Nothing,
    /// Few of its tasks hog.
    Few,
    /// Some do.
    Some,
    /// Nearly all do; if `blocks`, most of them by blocking.
    NearlyAll {
        blocks: bool,
    },
}

/// How a task turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Behaved,
    Computed,
    Blocked,
}

impl Kinds {
    pub(crate) fn new() -> Self {
        Self {
            table: (0..KINDS_MAX).map(|_| Entry::default()).collect(),
            len: AtomicUsize::new(0),
            hogs: std::array::from_fn(|_| AtomicU64::new(0)),
            rows: Mutex::new(vec![None; KINDS_MAX]),
            surge_until: AtomicU64::new(0),
        }
    }

    pub(crate) fn look_up(&self, kind: &Kind) -> Known {
        self.find(kind)
            .map_or(Known::Nothing, |index| self.table[index].known())
    }

    /// Whether any kind is known. In a program without hogs none is.
    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        // Relaxed: see `Kinds`.
        self.len.load(Ordering::Relaxed) > 0
    }

    fn probes(key: u64) -> impl Iterator<Item = usize> {
        let start = (key >> 32) as usize;
        (0..PROBES).map(move |step| (start + step) % KINDS_MAX)
    }

    fn find(&self, kind: &Kind) -> Option<usize> {
        let key = kind.key();
        // Relaxed: see `Kinds`.
        Self::probes(key).find(|&index| self.table[index].key.load(Ordering::Relaxed) == key)
    }

    fn enter(&self, kind: &Kind) -> Option<usize> {
        let key = kind.key();
        Self::probes(key).find(|&index| {
            let entry = &self.table[index].key;
            // Relaxed, all: see `Kinds`.
            match entry.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let before = self.len.fetch_add(1, Ordering::Relaxed);
                    debug_assert!(before < KINDS_MAX, "each entry is taken once");
                    true
                }
                Err(other) => other == key,
            }
        })
    }

    /// A task of this kind has a poll that is too long. Returns what to report, if a report is due:
    /// at most one in `quiet` cycles.
    pub(crate) fn hogged(&self, kind: &Kind, now: u64, quiet: u64) -> Option<HogRow> {
        // Relaxed: see `Kinds`.
        self.hogs[kind.class.index()].fetch_add(1, Ordering::Relaxed);
        let index = self.enter(kind)?;
        let mut rows = self.rows.lock();
        let row = rows[index].get_or_insert(HogRow {
            kind: *kind,
            count: 0,
            blocked: 0,
            longest: 0,
            total: 0,
            reported_at: None,
            suppressed: 0,
            surge: Surge::default(),
        });
        row.count += 1;
        let is_due = |before| now.saturating_sub(before) >= quiet;
        if !row.reported_at.is_none_or(is_due) {
            row.suppressed += 1;
            return None;
        }
        let report = row.clone();
        row.reported_at = Some(now);
        row.suppressed = 0;
        Some(report)
    }

    /// The number of polls of a class that were too long.
    pub(crate) fn hogs(&self, class: Class) -> u64 {
        // Relaxed: see `Kinds`.
        self.hogs[class.index()].load(Ordering::Relaxed)
    }

    /// A long poll of a task of this kind is over, after `length` cycles.
    pub(crate) fn ended(&self, kind: &Kind, length: u64, blocked: bool) {
        let Some(index) = self.find(kind) else {
            return;
        };
        if let Some(row) = &mut self.rows.lock()[index] {
            row.longest = row.longest.max(length);
            row.total = row.total.saturating_add(length);
            row.blocked += u64::from(blocked);
        }
    }

    /// A task of this kind has turned out like this.
    pub(crate) fn judge(&self, kind: &Kind, verdict: Verdict) {
        if let Some(index) = self.find(kind) {
            self.table[index].learn(verdict);
        }
    }

    /// A task of this kind blocked on a worker, which has lost its seat. `within` is the time in
    /// which a surge becomes one, in cycles.
    pub(crate) fn lost_seat(&self, kind: &Kind, now: u64, within: u64) {
        let Some(index) = self.find(kind) else {
            return;
        };
        let mut rows = self.rows.lock();
        let surge = rows[index].as_mut().map(|row| &mut row.surge);
        if let Some((number, until)) = surge.and_then(|surge| surge.lost_seat(now, within)) {
            let entry = &self.table[index];
            // Relaxed, all: see `Kinds`. Written under the lock.
            entry.surge.store(number, Ordering::Relaxed);
            entry.surge_until.store(until, Ordering::Relaxed);
            self.surge_until.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// Whether there is a surge of any kind.
    #[inline]
    pub(crate) fn surges(&self, now: u64) -> bool {
        // Relaxed: see `Kinds`.
        now < self.surge_until.load(Ordering::Relaxed)
    }

    /// The number of the surge of this kind, if there is one.
    pub(crate) fn surge_of(&self, kind: &Kind, now: u64) -> Option<u8> {
        let entry = &self.table[self.find(kind)?];
        // Relaxed, both: see `Kinds`.
        let surges = now < entry.surge_until.load(Ordering::Relaxed);
        surges.then(|| entry.surge.load(Ordering::Relaxed))
    }

    /// All rows, and what each kind is known for.
    pub(crate) fn rows(&self) -> Vec<(HogRow, Known)> {
        let rows = self.rows.lock().clone();
        let known = rows.into_iter().enumerate();
        known
            .filter_map(|(index, row)| Some((row?, self.table[index].known())))
            .collect()
    }
}

impl Entry {
    fn known(&self) -> Known {
        // Relaxed, all: see `Kinds`.
        let hogging = self.hogging.load(Ordering::Relaxed);
        if hogging < FEW {
            Known::Few
        } else if hogging > NEARLY_ALL && self.seen.load(Ordering::Relaxed) >= SEEN_MIN {
            let blocks = self.blocking.load(Ordering::Relaxed) > NEARLY_ALL;
            Known::NearlyAll { blocks }
        } else {
            Known::Some
        }
    }

    fn learn(&self, verdict: Verdict) {
        lean(&self.hogging, &self.seen, verdict != Verdict::Behaved);
        if verdict != Verdict::Behaved {
            let blocked = verdict == Verdict::Blocked;
            lean(&self.blocking, &self.hogs_seen, blocked);
        }
    }
}

/// Takes one more task into a part.
fn lean(part: &AtomicU32, seen: &AtomicU32, is_part: bool) {
    // Relaxed, all: see `Kinds`.
    let count = (seen.load(Ordering::Relaxed) + 1).min(MEMORY);
    seen.store(count, Ordering::Relaxed);
    let before = part.load(Ordering::Relaxed);
    let goal = if is_part { ALL } else { 0 };
    let after = (before * (count - 1) + goal) / count;
    debug_assert!(after <= ALL, "a mean of parts is a part");
    part.store(after, Ordering::Relaxed);
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use std::panic::Location;

    use super::*;
    use crate::sched::task::kind::FutureType;

    static FUTURE: FutureType = FutureType::of::<()>();

    fn kind(name: &'static str) -> Kind {
        Kind {
            spawned_at: Location::caller(),
            future: &FUTURE,
            name: Some(name),
            class: Class::NORMAL,
        }
    }

    fn known(kinds: &Kinds, kind: Kind) -> Known {
        kinds.look_up(&kind)
    }

    fn hog(kinds: &Kinds, kind: Kind, now: u64) -> Option<HogRow> {
        let report = kinds.hogged(&kind, now, 100);
        kinds.judge(&kind, Verdict::Computed);
        report
    }

    #[test]
    fn a_kind_starts_in_the_pool_while_nearly_all_of_it_hogs() {
        let (kinds, kind) = (Kinds::new(), kind("hogs"));
        assert_eq!(known(&kinds, kind), Known::Nothing);
        for now in 0..3 {
            hog(&kinds, kind, now);
            assert_eq!(known(&kinds, kind), Known::Some, "after {now} more");
        }
        for now in 0..100 {
            hog(&kinds, kind, now);
            assert_eq!(known(&kinds, kind), Known::NearlyAll { blocks: false });
        }
        kinds.judge(&kind, Verdict::Behaved);
        assert_eq!(known(&kinds, kind), Known::NearlyAll { blocks: false });
        (0..2).for_each(|_| kinds.judge(&kind, Verdict::Behaved));
        assert_eq!(known(&kinds, kind), Known::Some);
        (0..100).for_each(|_| kinds.judge(&kind, Verdict::Behaved));
        assert_eq!(known(&kinds, kind), Known::Few);
    }

    #[test]
    fn a_mix_is_never_sent_to_the_pool_as_a_whole() {
        let (kinds, kind) = (Kinds::new(), kind("mix"));
        hog(&kinds, kind, 0);
        // Three in four hog, in any order of the four.
        for at in 0..4_000_u64 {
            if (at / 4 + at) % 4 == 0 {
                kinds.judge(&kind, Verdict::Behaved);
            } else {
                hog(&kinds, kind, at);
            }
            if at > 16 {
                assert_eq!(known(&kinds, kind), Known::Some, "at {at}");
            }
        }
    }

    #[test]
    fn hogs_that_block_are_told_from_hogs_that_compute() {
        let (kinds, kind) = (Kinds::new(), kind("waits"));
        for now in 0..10 {
            let _ = kinds.hogged(&kind, now, 100);
            kinds.judge(&kind, Verdict::Blocked);
        }
        assert_eq!(known(&kinds, kind), Known::NearlyAll { blocks: true });
        for now in 0..10 {
            hog(&kinds, kind, now);
        }
        assert_eq!(known(&kinds, kind), Known::NearlyAll { blocks: false });
    }

    #[test]
    fn a_surge_is_of_one_kind_and_has_an_end() {
        let (kinds, one, other) = (Kinds::new(), kind("one"), kind("other"));
        for now in 0..4 {
            hog(&kinds, one, now);
            hog(&kinds, other, now);
            assert!(!kinds.surges(now));
            kinds.lost_seat(&one, now, 100);
        }
        assert!(kinds.surges(4));
        assert_eq!(kinds.surge_of(&one, 4), Some(1));
        assert_eq!(kinds.surge_of(&other, 4), None);
        assert_eq!(kinds.surge_of(&kind("unknown"), 4), None);
        assert!(!kinds.surges(1_000_000));
        assert_eq!(kinds.surge_of(&one, 1_000_000), None);
    }

    #[test]
    fn names_and_places_and_types_are_learned_apart() {
        let (kinds, one) = (Kinds::new(), kind("one"));
        for now in 0..10 {
            hog(&kinds, one, now);
        }
        let other = Kind {
            name: Some("other"),
            ..one
        };
        assert_eq!(known(&kinds, other), Known::Nothing);
        hog(&kinds, other, 0);
        let rows = kinds.rows();
        assert_eq!(rows.len(), 2);
        let count = |name| {
            let row = rows.iter().find(|(row, _)| row.kind.name == Some(name));
            row.map(|(row, _)| row.count)
        };
        assert_eq!((count("one"), count("other")), (Some(10), Some(1)));
    }

    #[test]
    fn reports_of_one_kind_are_rate_limited_and_count_what_they_leave_out() {
        let (kinds, kind) = (Kinds::new(), kind("often"));
        assert!(hog(&kinds, kind, 1_000).is_some());
        for now in 1_001..1_011 {
            assert!(hog(&kinds, kind, now).is_none());
        }
        let report = hog(&kinds, kind, 1_100).expect("the quiet time is over");
        assert_eq!((report.count, report.suppressed), (12, 10));
    }

    #[test]
    fn more_kinds_than_there_is_room_for_are_not_learned() {
        let kinds = Kinds::new();
        let many: Vec<Kind> = (0..4 * KINDS_MAX)
            .map(|number| kind(number.to_string().leak()))
            .collect();
        for &kind in &many {
            hog(&kinds, kind, 0);
        }
        assert!(kinds.rows().len() <= KINDS_MAX);
        let learned = many
            .iter()
            .filter(|&&kind| known(&kinds, kind) != Known::Nothing);
        assert!(learned.count() <= KINDS_MAX);
    }
}
