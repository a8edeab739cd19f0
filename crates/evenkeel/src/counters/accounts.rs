//! Where a worker's time went: written by the worker alone, read by any thread.
//!
//! Every moment of a worker's life is charged to exactly one state, so that the states add up to
//! wall time. Charging takes a few plain stores, as each number has one writer. Polls of one class
//! in a row are charged together, when something else follows: until then, a reader charges them.
//!
//! The times are a sequence lock: a version number, odd during a change, shows a reader whether it
//! has seen all numbers of one moment. The fences are those of H.-J. Boehm, "Can Seqlocks Get Along
//! With Programming Language Memory Models?", 2012. The Release fence after the odd version pairs
//! with the Acquire fence before the second load of the version: a reader that sees a number of a
//! change also sees the odd version. The Release store of the even version pairs with the Acquire
//! of the first load. All other accesses are `Relaxed`.

use crate::class::{CLASSES_MAX, Class};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{hint, nap};

use super::KEPT;
use super::histogram::Histogram;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Run(Class),
    /// Checks a readiness queue, hands out its events, and fires timers.
    Check,
    Spin,
    Park,
    /// Looks for tasks to steal from other workers.
    Steal,
    /// Leaves its processor to threads of the heavy pool, whose class is owed it.
    Lend,
}

/// How many states there are: one for each class, and five others.
const STATES: usize = CLASSES_MAX + 5;

/// How often a reader looks at once whether a writer is done, which takes some nanoseconds.
const TURNS_MAX: u32 = 128;

impl State {
    fn index(self) -> usize {
        match self {
            State::Run(class) => class.index(),
            State::Check => CLASSES_MAX,
            State::Spin => CLASSES_MAX + 1,
            State::Park => CLASSES_MAX + 2,
            State::Steal => CLASSES_MAX + 3,
            State::Lend => CLASSES_MAX + 4,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckOrigin {
    /// The bound on the time between checks had passed.
    Due,
    /// There was nothing else to do.
    Idle,
    Spin,
    /// A visit: by another worker, as the owner could not. The statistics call it `monitor`.
    Visit,
}

pub(crate) const ORIGINS: usize = 4;
/// Buckets of histograms: bucket `b` counts from `2^(b-1)` to below `2^b`, cycles for
/// instance.
#[cfg(not(evenkeel_loom))]
pub(crate) const BUCKETS: usize = 48;
#[cfg(evenkeel_loom)]
pub(crate) const BUCKETS: usize = 2;

/// A number with one writer.
#[derive(Debug)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Counts for the statistics.
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        if KEPT {
            self.put(self.load().wrapping_add(amount));
        }
    }

    #[inline]
    pub(crate) fn load(&self) -> u64 {
        // Relaxed: see the module.
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn put(&self, value: u64) {
        // Relaxed: see the module.
        self.0.store(value, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct Accounts {
    version: AtomicU64,
    /// Until when time has been charged, and the state since then.
    charged_until: Count,
    doing: Count,
    spent: [Count; STATES],
    began: Count,
    classes: Box<[ClassAccounts]>,
    /// The classes that had work here at the last look, and when that was: those without it are
    /// served at that time, without a note for each.
    waiting: Count,
    looked_at: Count,
    /// By origin, and by whether events were found.
    pub(crate) checks: [[Count; 2]; ORIGINS],
    pub(crate) deliveries: Count,
    pub(crate) events: Count,
    /// Entries of sweeps that were due.
    pub(crate) swept: Count,
    pub(crate) steals: Count,
    pub(crate) parks: Count,
    pub(crate) helps: Count,
    pub(crate) hits: Count,
    pub(crate) misses: Count,
}

/// What a worker did for one class.
#[derive(Debug)]
pub(crate) struct ClassAccounts {
    /// How long the last polled task had waited; 0 before the first.
    last_wait: Count,
    /// About when a task was last polled, or a first one began to wait.
    last_served: Count,
    /// How long tasks were ready before they were polled: one for each poll.
    pub(crate) waits: Histogram,
    /// How long the polls took that are over.
    pub(crate) poll_lengths: Histogram,
}

impl ClassAccounts {
    fn new() -> Self {
        Self {
            last_wait: Count::new(),
            last_served: Count::new(),
            waits: Histogram::new(),
            poll_lengths: Histogram::new(),
        }
    }

    /// Counts a poll that begins, of a task that was ready for so long.
    #[inline]
    pub(crate) fn count_poll(&self, wait: u64) {
        if KEPT {
            self.last_wait.put(wait);
            self.waits.add(wait);
        }
    }

    #[inline]
    pub(crate) fn count_length(&self, length: u64) {
        self.poll_lengths.add(length);
    }
}

/// A worker's times at one moment, in cycles.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    pub(crate) run: [u64; CLASSES_MAX],
    pub(crate) check: u64,
    pub(crate) spin: u64,
    pub(crate) park: u64,
    pub(crate) steal: u64,
    pub(crate) lend: u64,
    pub(crate) wall: u64,
}

/// The bucket of a duration in cycles: each is twice as long as the one before. Zero counts as one
/// cycle, which saves a special case at each poll.
#[inline]
pub(crate) fn bucket_of(cycles: u64) -> usize {
    let bucket = (u64::BITS - (cycles | 1).leading_zeros()) as usize;
    bucket.min(BUCKETS - 1)
}

fn counts<const N: usize>() -> [Count; N] {
    std::array::from_fn(|_| Count::new())
}

impl Accounts {
    pub(crate) fn new(classes: usize) -> Self {
        Self {
            version: AtomicU64::new(0),
            charged_until: Count::new(),
            doing: Count::new(),
            spent: counts(),
            began: Count::new(),
            classes: (0..classes).map(|_| ClassAccounts::new()).collect(),
            waiting: Count::new(),
            looked_at: Count::new(),
            checks: std::array::from_fn(|_| counts()),
            deliveries: Count::new(),
            events: Count::new(),
            swept: Count::new(),
            steals: Count::new(),
            parks: Count::new(),
            helps: Count::new(),
            hits: Count::new(),
            misses: Count::new(),
        }
    }

    pub(crate) fn begin(&self, now: u64) {
        self.note_waiting(0, 0, now);
        self.write(|| {
            self.began.put(now);
            self.charged_until.put(now);
            self.doing.put(State::Steal.index() as u64);
        });
    }

    pub(crate) fn of(&self, class: Class) -> &ClassAccounts {
        &self.classes[class.index()]
    }

    /// How many polls have begun.
    #[cfg(feature = "drop-in")]
    pub(crate) fn polls(&self) -> u64 {
        self.classes.iter().map(|of| of.waits.count()).sum()
    }

    /// Another thread takes over the seat of a worker that was at a poll, and is the writer from
    /// now on. Returns the poll's class.
    pub(crate) fn take_over(&self, now: u64) -> Option<Class> {
        let class = self.doing_class();
        self.write(|| {
            self.charge_doing(now);
            self.doing.put(State::Steal.index() as u64);
        });
        class
    }

    #[inline]
    fn charge_doing(&self, until: u64) {
        let doing = (self.doing.load() as usize).min(STATES - 1);
        self.spent[doing].add(until.saturating_sub(self.charged_until.load()));
        self.charged_until.put(until);
    }

    /// The class whose task is being polled, if any; exact only while that poll goes on.
    pub(crate) fn doing_class(&self) -> Option<Class> {
        let doing = self.doing.load() as usize;
        (doing < CLASSES_MAX).then(|| Class::at(doing))
    }

    /// Whether the worker sleeps, just now.
    #[cfg(feature = "drop-in")]
    pub(crate) fn is_parked(&self) -> bool {
        self.doing.load() == State::Park.index() as u64
    }

    /// Charges the time from `since` until `now` to `done`, the time before it to the state that
    /// was begun, and begins the state `next`.
    #[inline]
    pub(crate) fn charge(&self, since: u64, now: u64, done: State, next: State) {
        self.change(|| {
            self.charge_doing(since);
            self.spent[done.index()].add(now.saturating_sub(since));
            self.charged_until.put(now);
            self.doing.put(next.index() as u64);
        });
    }

    /// A poll of the class begins `now`. What is not charged yet belongs to the state before, if it
    /// is another one. So a reader sees during a long poll that it is one.
    #[inline]
    pub(crate) fn begin_poll(&self, now: u64, class: Class) {
        let next = State::Run(class).index() as u64;
        if self.doing.load() != next {
            self.change(|| {
                self.charge_doing(now);
                self.doing.put(next);
            });
        }
    }

    #[inline]
    fn change(&self, change: impl FnOnce()) {
        if KEPT { self.write(change) } else { change() }
    }

    #[inline]
    fn write(&self, change: impl FnOnce()) {
        // Relaxed: one writer. The Release fence pairs with the Acquire fence in `times`.
        let version = self.version.load(Ordering::Relaxed);
        debug_assert!(
            version.is_multiple_of(2),
            "two threads write the accounts of one worker"
        );
        self.version
            .store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        change();
        // Release pairs with the Acquire of an even version in `times`.
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
    }

    pub(crate) fn count_check(&self, origin: CheckOrigin, events: usize, deliveries: usize) {
        self.checks[origin as usize][usize::from(events == 0)].add(1);
        self.events.add(events as u64);
        self.deliveries.add(deliveries as u64);
    }

    /// Counts a sweep: its due entries, and the readers it woke.
    pub(crate) fn count_sweep(&self, looks: usize, deliveries: usize) {
        self.swept.add(looks as u64);
        self.deliveries.add(deliveries as u64);
    }

    /// Only these classes have work here, and of those that were `served`, no task has been waiting
    /// since before `now`. Takes a walk over those that were served or are new.
    pub(crate) fn note_waiting(&self, waiting: u64, served: u64, now: u64) {
        if !KEPT {
            return;
        }
        let before = self.looked_at.load();
        for class in Class::of_bits(waiting & !self.waiting.load()) {
            self.of(class).last_served.put(before);
        }
        Class::of_bits(served).for_each(|class| self.of(class).last_served.put(now));
        self.waiting.put(waiting);
        self.looked_at.put(now);
    }

    /// About how long the task of a class has waited that waits for longest, if any does. Of a
    /// class that never ran here, that is since when some wait.
    pub(crate) fn wait_until(&self, class: Class, now: u64) -> u64 {
        if !KEPT {
            return 0;
        }
        let of = self.of(class);
        let served = match self.waiting.load() & class.bit() {
            0 => self.looked_at.load(),
            _ => of.last_served.load(),
        };
        of.last_wait.load().max(now.saturating_sub(served))
    }

    /// Counts a sleep. The monitor goes by this number, so it is kept in every build.
    pub(crate) fn count_park(&self) {
        self.parks.put(self.parks.load().wrapping_add(1));
    }

    /// All times at one moment, with the current state charged until `now`.
    pub(crate) fn times(&self, now: impl Fn() -> u64) -> Times {
        let mut turns = 0_u32;
        loop {
            // Acquire pairs with the Release of an even version in `write`.
            let version = self.version.load(Ordering::Acquire);
            let mut spent: [u64; STATES] = std::array::from_fn(|state| self.spent[state].load());
            let (began, until) = (self.began.load(), self.charged_until.load());
            let doing = self.doing.load() as usize;
            // The Acquire fence pairs with the Release fence in `write`.
            fence(Ordering::Acquire);
            if version % 2 == 1 || self.version.load(Ordering::Relaxed) != version {
                turns += 1;
                match turns % TURNS_MAX {
                    // This thread may have taken the writer's processor, by a higher priority.
                    0 => nap(),
                    _ => hint::spin_loop(),
                }
                continue;
            }
            let now = now().max(until);
            if until > 0 {
                spent[doing.min(STATES - 1)] += now - until;
            }
            return Times {
                run: std::array::from_fn(|class| spent[class]),
                check: spent[State::Check.index()],
                spin: spent[State::Spin.index()],
                park: spent[State::Park.index()],
                steal: spent[State::Steal.index()],
                lend: spent[State::Lend.index()],
                wall: if began == 0 { 0 } else { now - began },
            };
        }
    }
}

#[cfg(all(test, evenkeel_loom))]
mod models;
