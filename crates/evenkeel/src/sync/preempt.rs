//! Pauses at random wherever a thread touches what others share, so that rare interleavings of a
//! whole runtime become common ones; `cargo xtask preempt` runs the tests so.
//!
//! Compiled under `--cfg evenkeel_preempt` alone. A pause comes before each access to an atomic and
//! around each lock, and where [`point`] is called; it is a yield or a sleep. How often and how
//! long is drawn from a generator of each thread's, which begins with [`SEED`] and the thread's
//! number. The seed also picks one use in [`HOT_SITES`] of those in the source at which pauses are
//! frequent: a race has a window at one place, and needs it wide open while all else goes on.

use std::cell::Cell;
use std::io::Write as _;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

pub(crate) use std::sync::OnceLock;

/// The variable with the seed; where it is not set, the clock's.
const SEED: &str = "EVENKEEL_PREEMPT_SEED";
/// The variable that says one in how many uses of an ordinary site pauses.
const ONE_IN: &str = "EVENKEEL_PREEMPT_ONE_IN";
/// The variable with the longest pause, in microseconds.
const PAUSE_US: &str = "EVENKEEL_PREEMPT_PAUSE_US";

/// Rare enough that the tests take about twice as long as else.
const ONE_IN_DEFAULT: u64 = 1_000;
/// Longer than what an I/O check may be late by, after which others look after a worker's queue;
/// half of what makes a poll a hog, which would have most tests run in the heavy pool.
const PAUSE_US_DEFAULT: u64 = 500;

/// One site in so many is hot.
const HOT_SITES: u64 = 32;
/// At a hot site pauses are so much more frequent.
const HOT_FACTOR: u64 = 100;
/// Pauses are halved so many times at most: short ones are more frequent than long ones.
const HALVINGS: u64 = 6;
/// What is shorter is a yield, since no sleep is.
const SLEEP_MIN: Duration = Duration::from_micros(20);

/// What the environment asked for.
struct Plan {
    seed: u64,
    one_in: u64,
    longest: Duration,
}

impl Plan {
    fn of_environment() -> Self {
        let number = |name| -> Option<u64> {
            let text = std::env::var(name).ok()?;
            Some(text.parse().unwrap_or_else(|_| {
                panic!("{name} is `{text}`, which is no number");
            }))
        };
        let clock = || {
            let since = SystemTime::UNIX_EPOCH.elapsed();
            since.map_or(0, |since| since.as_nanos() as u64)
        };
        let seed = number(SEED).unwrap_or_else(|| {
            let seed = clock();
            // Not by a macro, whose output tests keep to themselves. If it fails, so be it.
            let _ = writeln!(std::io::stderr(), "pauses are drawn with {SEED}={seed}");
            seed
        });
        Self {
            seed,
            one_in: number(ONE_IN).unwrap_or(ONE_IN_DEFAULT).max(1),
            longest: Duration::from_micros(number(PAUSE_US).unwrap_or(PAUSE_US_DEFAULT)),
        }
    }
}

/// Pauses, or not.
#[track_caller]
pub(crate) fn point() {
    Site::here().pause();
}

/// A use of something shared, in the source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site(&'static Location<'static>);

impl Site {
    #[track_caller]
    pub(crate) fn here() -> Self {
        Self(Location::caller())
    }

    fn pause(self) {
        static PLAN: OnceLock<Plan> = OnceLock::new();
        let plan = PLAN.get_or_init(Plan::of_environment);
        let factor = if self.is_hot(plan.seed) {
            HOT_FACTOR
        } else {
            1
        };
        if random(plan.seed) % plan.one_in >= factor {
            return;
        }
        let pause = plan.longest / (1 << (random(plan.seed) % HALVINGS));
        if pause < SLEEP_MIN {
            std::thread::yield_now();
        } else {
            std::thread::sleep(pause);
        }
    }

    fn is_hot(self, seed: u64) -> bool {
        // A reading of the statistics is thousands of loads at one site, and would take a minute.
        if self.0.file().contains("/counters/") {
            return false;
        }
        let place = u64::from(self.0.line()) << 32 | u64::from(self.0.column());
        // The length tells files apart well enough.
        mixed(seed ^ mixed(place) ^ self.0.file().len() as u64).is_multiple_of(HOT_SITES)
    }
}

/// The next number of this thread's generator.
fn random(seed: u64) -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        // Without a destructor, so that it is there as long as the thread is.
        static STATE: Cell<u64> = const { Cell::new(0) };
    }
    STATE.with(|state| {
        let mut next = state.get();
        if next == 0 {
            // Relaxed: only numbers.
            next = mixed(seed ^ mixed(THREADS.fetch_add(1, Ordering::Relaxed))) | 1;
        }
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        state.set(next);
        mixed(next)
    })
}

/// Every bit of the result depends on all of `word`'s (the finish of SplitMix64).
fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The pauses around a lock.
#[derive(Debug, Default)]
pub(super) struct Edge;

impl Edge {
    pub(super) const fn new() -> Self {
        Self
    }

    pub(super) fn before(&self, site: Site) {
        site.pause();
    }

    pub(super) fn acquire(&self, site: Site) {
        site.pause();
    }

    pub(super) fn release(&self, _: Site) {}

    pub(super) fn after(&self, site: Site) {
        site.pause();
    }
}

/// The standard library's atomics, with a pause before each access.
pub(crate) mod atomic {
    use std::ops::{Deref, DerefMut};
    use std::sync::atomic as std_atomic;

    pub(crate) use std::sync::atomic::{Ordering, compiler_fence};

    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub(crate) struct Paused<A>(A);

    impl<A> Deref for Paused<A> {
        type Target = A;

        #[track_caller]
        fn deref(&self) -> &A {
            super::point();
            &self.0
        }
    }

    impl<A> DerefMut for Paused<A> {
        fn deref_mut(&mut self) -> &mut A {
            &mut self.0
        }
    }

    macro_rules! paused {
        ($($name:ident $(<$generic:ident>)? of $value:ty,)*) => {$(
            pub(crate) type $name $(<$generic>)? = Paused<std_atomic::$name $(<$generic>)?>;

            impl $(<$generic>)? Paused<std_atomic::$name $(<$generic>)?> {
                pub(crate) const fn new(value: $value) -> Self {
                    Self(std_atomic::$name::new(value))
                }

                pub(crate) fn into_inner(self) -> $value {
                    self.0.into_inner()
                }
            }
        )*};
    }

    paused! {
        AtomicBool of bool,
        AtomicI64 of i64,
        AtomicIsize of isize,
        AtomicPtr<T> of *mut T,
        AtomicU8 of u8,
        AtomicU16 of u16,
        AtomicU32 of u32,
        AtomicU64 of u64,
        AtomicUsize of usize,
    }

    #[track_caller]
    pub(crate) fn fence(order: Ordering) {
        super::point();
        std_atomic::fence(order);
    }
}
