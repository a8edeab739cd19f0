//! The accounts of a worker agree with what the kernel says of its thread.
//!
//! No machine is fast enough for this or too slow, but two clocks are compared: the accounts go by
//! the wall's, the kernel counts the processor time of the thread. They differ by right where the
//! thread had to wait for a processor. The kernel says so (`schedstat`, and the host's steal time),
//! and such a time is not compared. On a machine without a quiet moment nothing is checked.
#![cfg(target_os = "linux")]

#[path = "support/hang.rs"]
mod hang;

use std::time::{Duration, Instant};

use evenkeel::BusyWait;
use evenkeel::runtime::{Builder, Handle};
use evenkeel::stats::Stats;
use hang::watched;
use nix::time::{ClockId, clock_gettime};

/// How far apart the two may be, beside what is known (see [`since`](Reading::since)): one part in
/// so many.
const PART: u32 = 50;
/// How often the task sleeps in a try, and for how long.
const SLEEPS: u32 = 10;
const SLEEP: Duration = Duration::from_millis(5);
/// How often a quiet time is looked for. Each try takes a tenth of a second.
const TRIES: usize = 60;
/// As many quiet times have to disagree before the accounts are to blame: a host may have taken the
/// processor away for less than it counts.
const ENOUGH: usize = 5;
/// Longer waits for a processor in a try make it no quiet one.
const WAIT_MAX: Duration = Duration::from_micros(200);

/// What the kernel and the accounts say of the calling worker, of one moment.
struct Reading {
    /// Before and after the accounts were read, which takes a while.
    cpu: [Duration; 2],
    /// How long the thread was ready and had no processor.
    waited: Option<Duration>,
    /// The machine's steal time, in the kernel's ticks.
    stolen: Option<u64>,
    stats: Stats,
}

/// What the two say of the time between two readings.
#[derive(Debug)]
struct Awake {
    /// By the accounts.
    accounts: Duration,
    /// By the kernel, at least and at most.
    kernel: [Duration; 2],
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .unwrap()
        .into()
}

fn waited() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().nth(1)?;
    nanos.parse().ok().map(Duration::from_nanos)
}

fn stolen() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    // After the line's name: user, nice, system, idle, iowait, irq, softirq, steal.
    text.lines().next()?.split_whitespace().nth(8)?.parse().ok()
}

/// The accounts and the processor time around them.
fn accounts() -> (Stats, [Duration; 2]) {
    let before = cpu_time();
    let stats = Handle::current().stats();
    (stats, [before, cpu_time()])
}

/// The processor time that a thread here uses while it falls asleep and wakes up as often as the
/// task does. It is the thread's by the kernel and sleep by the accounts, and machines differ much.
fn asleep() -> Duration {
    let before = cpu_time();
    for _ in 0..SLEEPS {
        std::thread::sleep(SLEEP);
    }
    cpu_time() - before
}

impl Reading {
    fn first() -> Self {
        let (waited, stolen) = (waited(), stolen());
        let (stats, cpu) = accounts();
        Self {
            cpu,
            waited,
            stolen,
            stats,
        }
    }

    /// In the other order, so that the wait in between is one of those that are known.
    fn last() -> Self {
        let (stats, cpu) = accounts();
        let (waited, stolen) = (waited(), stolen());
        Self {
            cpu,
            waited,
            stolen,
            stats,
        }
    }

    /// The time awake, if the time since `first` was quiet.
    fn since(&self, first: &Reading) -> Option<Awake> {
        let since = self.stats.since(&first.stats);
        let waited = self.waited?.checked_sub(first.waited?)?;
        let worker = &since.workers[0];
        let awake = Awake {
            accounts: worker.run() + worker.check + worker.spin + worker.steal,
            kernel: [self.cpu[0] - first.cpu[1], self.cpu[1] - first.cpu[0]],
        };
        (waited <= WAIT_MAX && self.stolen == first.stolen).then_some(awake)
    }
}

impl Awake {
    /// Whether the two agree where the kernel's part of the sleeps is `asleep`.
    fn agrees(&self, asleep: Duration) -> bool {
        let [least, most] = self.kernel;
        let apart = most / PART;
        self.accounts + asleep + apart >= least && self.accounts <= most + apart
    }
}

/// Computes in short polls, sleeps, and computes again, for a tenth of a second or more.
async fn work() {
    for _ in 0..SLEEPS {
        for _ in 0..50 {
            let began = Instant::now();
            while began.elapsed() < Duration::from_micros(100) {
                std::hint::spin_loop();
            }
            evenkeel::task::yield_now().await;
        }
        evenkeel::time::sleep(SLEEP).await;
    }
}

/// Tries until the two agree once. Fails if they never do although times were quiet.
async fn agrees_once(level: BusyWait) {
    let mut apart = Vec::new();
    for _ in 0..TRIES {
        let first = Reading::first();
        work().await;
        let Some(awake) = Reading::last().since(&first) else {
            continue;
        };
        let asleep = asleep();
        if awake.agrees(asleep) {
            return;
        }
        apart.push((awake, asleep));
        assert!(
            apart.len() < ENOUGH,
            "{level}: the accounts, the kernel, and its part of the sleeps: {apart:?}"
        );
    }
    println!("NOT CHECKED: {level}: the kernel kept the thread waiting in most of {TRIES} tries");
}

#[test]
fn a_worker_is_awake_for_as_long_as_the_kernel_says() {
    // The pauses of that build are sleeps wherever threads meet.
    if cfg!(evenkeel_preempt) {
        return;
    }
    watched("kernel", || {
        for level in [BusyWait::None, BusyWait::VeryLong] {
            // Without hand-off the task stays on one thread.
            let mut builder = Builder::new();
            builder.workers(1).busy_wait(level).hand_off_after(None);
            let runtime = builder.build().unwrap();
            runtime.block_on(runtime.spawn(agrees_once(level))).unwrap();
        }
    });
}
