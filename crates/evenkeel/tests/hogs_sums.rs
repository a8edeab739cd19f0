//! The times of functions in which hogs were found, and those of the hogs by kind, are the same.
#![cfg(all(
    feature = "hog-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(evenkeel_preempt, evenkeel_tsan))
))]

use std::hint::black_box;
use std::time::{Duration, Instant};

use evenkeel::Class;
use evenkeel::runtime::{Builder, Runtime};
use evenkeel::stats::Stats;

/// How long the sums may take to agree.
const LIMIT: Duration = Duration::from_secs(60);

#[inline(never)]
fn computes(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        black_box((0..1_000).fold(0_u64, |sum, next| black_box(sum ^ next)));
    }
}

#[inline(never)]
fn blocks(length: Duration) {
    std::thread::sleep(length);
}

/// Polls, and their time, by kind and by function. By kind a poll counts while it goes on.
#[derive(Clone, Copy, Debug)]
struct Sums {
    polls: [u64; 2],
    times: [Duration; 2],
}

impl Sums {
    fn of(stats: &Stats) -> Self {
        let (kinds, functions) = (&stats.hogs, &stats.hog_functions);
        Self {
            polls: [
                kinds.iter().map(|row| row.count).sum(),
                functions.iter().map(|row| row.ended).sum(),
            ],
            times: [
                kinds.iter().map(|row| row.total).sum(),
                functions.iter().map(|row| row.total).sum(),
            ],
        }
    }

    /// The times of each row are rounded.
    fn agree(&self) -> bool {
        let rounding = Duration::from_micros(1 + self.polls[0]);
        let [kinds, functions] = self.times;
        self.polls[0] == self.polls[1] && kinds.abs_diff(functions) <= rounding
    }
}

#[track_caller]
fn assert_agree(runtime: &Runtime) -> Stats {
    let began = Instant::now();
    loop {
        let stats = runtime.stats();
        let sums = Sums::of(&stats);
        if sums.agree() {
            return stats;
        }
        let rows = &stats.hog_functions;
        assert!(
            began.elapsed() < LIMIT,
            "{sums:?}: {rows:#?}, {:#?}",
            stats.hogs
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Hogs of all sorts at once: more than stacks are taken of, more than there are processors, short
/// and long ones, some that block, some that end as they are found out.
#[test]
fn functions_have_all_the_time_that_hogs_took() {
    let runtime = Builder::new().workers(2).build().unwrap();
    let mut tasks = Vec::new();
    for number in 0..24_u64 {
        let class = [Class::NORMAL, Class::BULK][number as usize % 2];
        tasks.push(runtime.spawn_in(class, async move {
            for round in 0..12 {
                let millis = match (number + round) % 4 {
                    0 => 1,
                    1 => 3,
                    2 => 12,
                    _ => 40,
                };
                let length = Duration::from_millis(millis);
                match number % 6 {
                    0 | 1 => blocks(length),
                    2 => evenkeel::block_in_place(|| blocks(length)),
                    _ => computes(length / 2),
                }
                evenkeel::task::yield_now().await;
            }
        }));
    }
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    let stats = assert_agree(&runtime);
    assert!(Sums::of(&stats).polls[0] > 100, "{:#?}", stats.hogs);
    let stacks = stats.hog_stacks;
    assert!(stacks.taken > 0 && stacks.skipped > 0, "{stacks:?}");
    let is_unknown = |row: &&evenkeel::stats::HogFunction| row.function == "(unknown)";
    let unknown = stats.hog_functions.iter().filter(is_unknown);
    assert!(unknown.map(|row| row.count).sum::<u64>() > 0, "{stacks:?}");
    runtime.shutdown(LIMIT).unwrap();
}
