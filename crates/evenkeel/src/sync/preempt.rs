//! Random pauses wherever a thread accesses shared memory, so that rare interleavings of a whole
//! runtime become common. `cargo xtask preempt` runs the tests with them.
//!
//! Compiled only under `--cfg evenkeel_preempt`. A pause, which is a yield or a sleep, may come
//! before each access of an atomic, around each lock, and where [`point`] is called. Each thread
//! draws pauses from a generator of its own, seeded with [`SEED`] and the thread's number. The seed
//! also picks one in [`HOT_SITES`] of the places in the source, at which pauses are frequent: a
//! race has its window at one place, which has to be wide open while all else goes on.

use std::cell::Cell;
use std::io::Write as _;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

pub(crate) use std::sync::OnceLock;

/// The variable with the seed. By default it is taken from the clock.
const SEED: &str = "EVENKEEL_PREEMPT_SEED";
/// The variable with N, where one in N uses of an ordinary site pauses.
const ONE_IN: &str = "EVENKEEL_PREEMPT_ONE_IN";
/// The variable with the longest pause, in microseconds.
const PAUSE_US: &str = "EVENKEEL_PREEMPT_PAUSE_US";

/// Rare enough that the tests take only about twice as long.
const ONE_IN_DEFAULT: u64 = 1_000;
/// Longer than an I/O check may be late, so that other threads check a worker's queue; half of what
/// makes a poll a hog, as otherwise most tests would run in the heavy pool.
const PAUSE_US_DEFAULT: u64 = 500;

/// One site in this many is hot.
const HOT_SITES: u64 = 32;
/// How much more frequent pauses are at a hot site.
const HOT_FACTOR: u64 = 100;
/// Pauses are halved up to this many times less one, so short ones are more frequent.
const HALVINGS: u64 = 6;
/// A shorter pause is a yield, since no sleep is that short.
const SLEEP_MIN: Duration = Duration::from_micros(20);

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
                panic!("{name} is `{text}`, which is not a number");
            }))
        };
        let clock = || {
            let since = SystemTime::UNIX_EPOCH.elapsed();
            since.map_or(0, |since| since.as_nanos() as u64)
        };
        let seed = number(SEED).unwrap_or_else(|| {
            let seed = clock();
            // Not by a macro, whose output tests capture. A failure is ignored.
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

#[track_caller]
pub(crate) fn point() {
    Site::here().pause();
}

/// A place in the source that accesses shared memory.
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
        // Reading the statistics takes thousands of loads at one site, and would take a minute.
        if self.0.file().contains("/counters/") {
            return false;
        }
        let place = u64::from(self.0.line()) << 32 | u64::from(self.0.column());
        // The length tells files apart well enough.
        mixed(seed ^ mixed(place) ^ self.0.file().len() as u64).is_multiple_of(HOT_SITES)
    }
}

fn random(seed: u64) -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        // Without a destructor, so that it lasts as long as the thread.
        static STATE: Cell<u64> = const { Cell::new(0) };
    }
    STATE.with(|state| {
        let mut next = state.get();
        if next == 0 {
            // Relaxed: the numbers only have to differ.
            next = mixed(seed ^ mixed(THREADS.fetch_add(1, Ordering::Relaxed))) | 1;
        }
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        state.set(next);
        mixed(next)
    })
}

/// Every bit of the result depends on all bits of `word` (the finalizer of SplitMix64).
fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

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
