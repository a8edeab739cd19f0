//! Where hogs come from: what is learned of the places that spawn them.
//!
//! A task that hogs is known by itself from its first long poll on. A task that lives for one
//! request and computes for 20 ms in its only poll is known when it is over, so what it taught is
//! kept by the *place* that spawned it: a table of places with the part of their tasks that lately
//! hogged. A fresh task from a place whose tasks mostly do starts in the heavy lane. If it then
//! behaves, that counts too, so a place that changed its ways is found out.
//!
//! The part is a moving average: each task counts for a quarter. From rest, three hogs in a row
//! take a place over the threshold; four that behave take it back below.
//!
//! The table has room for [`PLACES_MAX`] places. When it is full, further places are not learned,
//! and their hogs are handed off one by one, as if there were no memory.

use std::panic::Location;
use std::ptr;

use crate::class::{CLASSES_MAX, Class};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// How many places are remembered.
pub(crate) const PLACES_MAX: usize = 256;
/// How many entries a look examines; a place that finds none of them free is not remembered.
const PROBES: usize = 16;
/// All of a place's tasks hog.
const ALL: u32 = 1 << 16;
/// Above, a place's tasks start in the heavy lane.
const HEAVY: u32 = ALL / 2;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Places {
    table: Box<[Place]>,
    len: AtomicUsize,
    /// Polls that were too long, by class.
    hogs: [AtomicU64; CLASSES_MAX],
    /// What is reported, by the place's index in the table.
    rows: Mutex<Vec<Option<HogRow>>>,
}

#[derive(Debug)]
struct Place {
    key: AtomicPtr<Location<'static>>,
    /// The part of its tasks that hogged, as a fraction of `ALL`.
    hogging: AtomicU32,
}

/// What is known of the hogs of one place.
#[derive(Clone, Debug)]
pub(crate) struct HogRow {
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) name: Option<&'static str>,
    pub(crate) class: Class,
    /// Polls that were too long.
    pub(crate) count: u64,
    /// In cycles.
    pub(crate) longest: u64,
    pub(crate) total: u64,
    /// When the last report was made, in cycles, and how many hogs were seen since without one.
    pub(crate) reported_at: Option<u64>,
    pub(crate) suppressed: u64,
}

/// What a place is known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing.
    Nothing,
    /// Some of its tasks hogged.
    Tracked,
    /// Most of its tasks hog.
    Heavy,
}

impl Places {
    pub(crate) fn new() -> Self {
        let place = |_| Place {
            key: AtomicPtr::new(ptr::null_mut()),
            hogging: AtomicU32::new(0),
        };
        Self {
            table: (0..PLACES_MAX).map(place).collect(),
            len: AtomicUsize::new(0),
            hogs: std::array::from_fn(|_| AtomicU64::new(0)),
            rows: Mutex::new(vec![None; PLACES_MAX]),
        }
    }

    /// What a place is known for.
    #[inline]
    pub(crate) fn look_up(&self, place: &'static Location<'static>) -> Known {
        // Relaxed: a place that is being entered is known a moment later.
        if self.len.load(Ordering::Relaxed) == 0 {
            return Known::Nothing;
        }
        match self.find(place) {
            None => Known::Nothing,
            // Relaxed: a moving average.
            Some(index) if self.table[index].hogging.load(Ordering::Relaxed) > HEAVY => {
                Known::Heavy
            }
            Some(_) => Known::Tracked,
        }
    }

    fn probes(place: &'static Location<'static>) -> impl Iterator<Item = usize> {
        // Fibonacci hashing of the address; locations are a few words long.
        let hash = (ptr::from_ref(place).addr() as u64 >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let start = (hash >> 32) as usize;
        (0..PROBES).map(move |step| (start + step) % PLACES_MAX)
    }

    fn find(&self, place: &'static Location<'static>) -> Option<usize> {
        let key = ptr::from_ref(place).cast_mut();
        // Relaxed: keys are compared and never followed.
        Self::probes(place).find(|&index| self.table[index].key.load(Ordering::Relaxed) == key)
    }

    fn enter(&self, place: &'static Location<'static>) -> Option<usize> {
        let key = ptr::from_ref(place).cast_mut();
        Self::probes(place).find(|&index| {
            let entry = &self.table[index].key;
            // Relaxed, both: as in `find`.
            match entry.compare_exchange(ptr::null_mut(), key, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => {
                    self.len.fetch_add(1, Ordering::Relaxed);
                    true
                }
                Err(other) => other == key,
            }
        })
    }

    /// A task from here hogged, for the first time in its life if `fresh`.
    ///
    /// Returns what to report, if it is time to: at most one report for each place in `quiet`.
    pub(crate) fn hogged(
        &self,
        place: &'static Location<'static>,
        class: Class,
        name: Option<&'static str>,
        now: u64,
        quiet: u64,
    ) -> Option<HogRow> {
        // Relaxed: a statistic.
        self.hogs[class.index()].fetch_add(1, Ordering::Relaxed);
        let index = self.enter(place)?;
        let mut rows = self.rows.lock();
        let row = rows[index].get_or_insert(HogRow {
            spawned_at: place,
            name: None,
            class,
            count: 0,
            longest: 0,
            total: 0,
            reported_at: None,
            suppressed: 0,
        });
        row.count += 1;
        row.class = class;
        row.name = name.or(row.name);
        let due = row
            .reported_at
            .is_none_or(|before| now.saturating_sub(before) >= quiet);
        if !due {
            row.suppressed += 1;
            return None;
        }
        let report = row.clone();
        row.reported_at = Some(now);
        row.suppressed = 0;
        Some(report)
    }

    /// Polls of a class that were too long.
    pub(crate) fn hogs(&self, class: Class) -> u64 {
        // Relaxed: a statistic.
        self.hogs[class.index()].load(Ordering::Relaxed)
    }

    /// A long poll of a task from here is over, after `length` cycles.
    pub(crate) fn ended(&self, place: &'static Location<'static>, length: u64) {
        let Some(index) = self.find(place) else {
            return;
        };
        if let Some(row) = &mut self.rows.lock()[index] {
            row.longest = row.longest.max(length);
            row.total = row.total.saturating_add(length);
        }
    }

    /// A task from here has shown what it is like.
    pub(crate) fn judge(&self, place: &'static Location<'static>, hogs: bool) {
        let Some(index) = self.find(place) else {
            return;
        };
        let hogging = &self.table[index].hogging;
        // Relaxed, both: a moving average, in which a lost update is of no consequence.
        let before = hogging.load(Ordering::Relaxed);
        let goal = if hogs { ALL } else { 0 };
        hogging.store(before - before / 4 + goal / 4, Ordering::Relaxed);
    }

    /// What is known, for reports; and whether a place's tasks start in the heavy lane.
    pub(crate) fn rows(&self) -> Vec<(HogRow, bool)> {
        let rows = self.rows.lock().clone();
        rows.into_iter()
            .flatten()
            .map(|row| {
                let heavy = self.look_up(row.spawned_at) == Known::Heavy;
                (row, heavy)
            })
            .collect()
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    fn here() -> &'static Location<'static> {
        Location::caller()
    }

    fn hog(places: &Places, place: &'static Location<'static>, now: u64) -> Option<HogRow> {
        let report = places.hogged(place, Class::NORMAL, None, now, 100);
        places.judge(place, true);
        report
    }

    #[test]
    fn a_place_is_heavy_while_most_of_its_tasks_hog() {
        let (places, place) = (Places::new(), here());
        assert_eq!(places.look_up(place), Known::Nothing);
        hog(&places, place, 0);
        assert_eq!(places.look_up(place), Known::Tracked);
        for now in 0..2 {
            hog(&places, place, now);
        }
        assert_eq!(places.look_up(place), Known::Heavy);
        for now in 0..20 {
            hog(&places, place, now);
        }
        assert_eq!(places.look_up(place), Known::Heavy);
        (0..4).for_each(|_| places.judge(place, false));
        assert_eq!(places.look_up(place), Known::Tracked);
    }

    #[test]
    fn reports_of_one_place_are_rate_limited_and_count_what_they_leave_out() {
        let (places, place) = (Places::new(), here());
        assert!(hog(&places, place, 1_000).is_some());
        for now in 1_001..1_011 {
            assert!(hog(&places, place, now).is_none());
        }
        let report = hog(&places, place, 1_100).expect("the quiet time is over");
        assert_eq!((report.count, report.suppressed), (12, 10));
    }

    #[test]
    fn more_places_than_there_is_room_for_are_not_learned() {
        let places = Places::new();
        let many: Vec<&'static Location<'static>> = (0..4 * PLACES_MAX)
            .map(|_| &*Box::leak(Box::new(*Location::caller())))
            .collect();
        for place in &many {
            hog(&places, place, 0);
        }
        assert!(places.rows().len() <= PLACES_MAX);
        let known = many
            .iter()
            .filter(|&&place| places.look_up(place) != Known::Nothing);
        assert!(known.count() <= PLACES_MAX);
    }
}
