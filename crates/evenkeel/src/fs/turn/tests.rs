//! Tests of the line, of a file's turns, and of files that take turns.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt};

use super::*;
use crate::blocking::turns::PAUSE_MS;
use crate::class::Class;
use crate::clock::Clock;
use crate::fs::{File, OpenOptions};
use crate::runtime::{Builder, Runtime};
use crate::sync::Arc;
use crate::time::{Instant, sleep, timeout};

const MIB: usize = 1 << 20;
/// Longer than anything here takes, but shorter than if each file waited for the one before.
const SOON: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn counting() -> (std::sync::Arc<Counts>, Waker) {
    let counts = std::sync::Arc::new(Counts::default());
    (counts.clone(), Waker::from(counts))
}

/// Turns that hang: they are taken, and never given back.
fn hang(turns: &Turns, count: usize, now_ms: u64) {
    for _ in 0..count {
        let number = turns.join(now_ms);
        assert!(!turns.waits(number, Waker::noop()));
        turns.go_on(number);
    }
}

#[test]
fn turns_are_had_in_the_order_of_coming() {
    let turns = Turns::new(2);
    let numbers: Vec<u64> = (0..5).map(|_| turns.join(0)).collect();
    let wakers: Vec<_> = numbers.iter().map(|_| counting()).collect();
    let waits = |at: usize| turns.waits(numbers[at], &wakers[at].1);
    let waiting = || (0..5).map(waits).collect::<Vec<_>>();
    assert_eq!(waiting(), [false, false, true, true, true]);
    turns.leave(numbers[1], 0);
    assert_eq!(waiting(), [false, false, false, true, true]);
    // The one in the middle leaves.
    turns.leave(numbers[3], 0);
    turns.leave(numbers[0], 0);
    assert_eq!(waiting(), [false, false, false, false, false]);
    let woken = |at: usize| wakers[at].0.0.load(Ordering::SeqCst);
    assert_eq!((0..5).map(woken).collect::<Vec<_>>(), [0, 0, 1, 0, 1]);
    turns.leave(numbers[2], 0);
    turns.leave(numbers[4], 0);
    assert_eq!(turns.taken(), (0, 0));
}

#[test]
fn what_hangs_loses_its_turn_to_whoever_waits() {
    let turns = Turns::new(1);
    hang(&turns, 1, 0);
    let second = turns.join(0);
    let (woken, waker) = counting();
    assert!(turns.waits(second, &waker));
    let third = turns.join(LEASE_MS - 1);
    assert!(turns.waits(second, &waker), "too early");
    turns.leave(third, LEASE_MS);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(!turns.waits(second, &waker));
}

#[test]
fn a_turn_that_is_not_used_passes_on_sooner() {
    let turns = Turns::new(1);
    let first = turns.join(0);
    let second = turns.join(0);
    // The file with the turn does not use it.
    let third = turns.join(PAUSE_MS);
    assert!(!turns.waits(second, Waker::noop()));
    turns.go_on(second);
    let later = 3 * PAUSE_MS;
    turns.leave(first, later);
    assert!(turns.waits(third, Waker::noop()), "the second writes");
    turns.pause(second, later);
    turns.leave(first, later + PAUSE_MS - 1);
    assert!(turns.waits(third, Waker::noop()), "too early");
    turns.leave(first, later + PAUSE_MS);
    assert!(!turns.waits(third, Waker::noop()));
}

#[derive(Clone, Debug)]
enum Step {
    Join,
    Leave(prop::sample::Index),
    Pause(prop::sample::Index),
    GoOn(prop::sample::Index),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let which = any::<prop::sample::Index>;
    let step = prop_oneof![
        3 => Just(Step::Join),
        2 => which().prop_map(Step::Leave),
        1 => which().prop_map(Step::Pause),
        1 => which().prop_map(Step::GoOn),
        1 => (0..2 * LEASE_MS).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..200)
}

proptest! {
    /// At all times: no more files than allowed have turns, no file waits beside a free turn, turns
    /// are first come, first served, each file is woken once for its turn, and nothing is left in
    /// the end.
    #[test]
    fn the_line_keeps_its_promises(count in 1_usize..4, steps in steps()) {
        let turns = Turns::new(count);
        let (mut there, mut now_ms) = (Vec::new(), 0);
        for step in steps {
            let chosen = |index: prop::sample::Index| {
                (!there.is_empty()).then(|| index.index(there.len()))
            };
            match step {
                Step::Join => {
                    let (woken, waker) = counting();
                    let number = turns.join(now_ms);
                    let waits = turns.waits(number, &waker);
                    there.push((number, woken, waits));
                }
                Step::Leave(index) => if let Some(at) = chosen(index) {
                    turns.leave(there.remove(at).0, now_ms);
                },
                Step::Pause(index) => if let Some(at) = chosen(index) {
                    turns.pause(there[at].0, now_ms);
                },
                Step::GoOn(index) => if let Some(at) = chosen(index) {
                    turns.go_on(there[at].0);
                },
                Step::Pass(time_ms) => now_ms += time_ms,
            }
            let (writing, waiting) = turns.taken();
            prop_assert!(writing <= count);
            prop_assert!(waiting == 0 || writing == count);
            let in_line: Vec<bool> = (there.iter())
                .map(|(number, ..)| turns.knows(*number))
                .collect();
            prop_assert!(in_line.is_sorted(), "one overtook another: {in_line:?}");
            for ((_, woken, waited), in_line) in there.iter().zip(in_line) {
                let wakes = usize::from(*waited && !in_line);
                prop_assert_eq!(woken.0.load(Ordering::SeqCst), wakes);
            }
        }
        for (number, ..) in there {
            turns.leave(number, now_ms);
        }
        prop_assert_eq!(turns.taken(), (0, 0));
    }
}

/// Polls once.
fn ask(turn: &mut Turn, turns: &Arc<Turns>, clock: Clock, length: usize) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    turn.poll(&mut cx, turns, clock, length).is_ready()
}

#[test]
fn a_turn_that_is_used_up_goes_to_the_next() {
    Runtime::new().unwrap().block_on(async {
        let (turns, clock) = (Arc::new(Turns::new(1)), Clock::start());
        let (mut first, mut second, mut third) = <(Turn, Turn, Turn)>::default();
        for _ in 0..TURN / MIB {
            assert!(ask(&mut first, &turns, clock, MIB));
            assert!(!ask(&mut second, &turns, clock, MIB));
        }
        assert!(!ask(&mut third, &turns, clock, MIB));
        assert!(!ask(&mut first, &turns, clock, MIB), "used up");
        assert!(ask(&mut second, &turns, clock, MIB));
        // A waiting file has nothing to give back; a writing one has.
        assert!(third.give_back().is_none());
        drop(second.give_back());
        assert!(ask(&mut third, &turns, clock, MIB));
        drop(third);
        assert!(ask(&mut first, &turns, clock, MIB));
        drop((first, second));
        assert_eq!(turns.taken(), (0, 0));
    });
}

/// A task that was about to go on, and does not.
#[test]
fn a_file_that_pauses_passes_its_turn_on_sooner() {
    Runtime::new().unwrap().block_on(async {
        let (turns, clock) = (Arc::new(Turns::new(1)), Clock::start());
        let (mut first, mut second, mut third) = <(Turn, Turn, Turn)>::default();
        assert!(ask(&mut first, &turns, clock, MIB));
        assert!(!ask(&mut second, &turns, clock, MIB));
        first.pause();
        sleep(Duration::from_millis(PAUSE_MS + 5)).await;
        // A file that joins passes on overdue turns.
        assert!(!ask(&mut third, &turns, clock, MIB));
        assert_eq!(turns.taken(), (1, 1), "the second has it");
    });
}

#[test]
fn who_is_dropped_passes_its_turn_on() {
    Runtime::new().unwrap().block_on(async {
        let (turns, clock) = (Arc::new(Turns::new(1)), Clock::start());
        let (mut first, mut second, mut third, mut fourth) = <(Turn, Turn, Turn, Turn)>::default();
        assert!(ask(&mut first, &turns, clock, MIB));
        assert!(!ask(&mut second, &turns, clock, MIB));
        assert!(!ask(&mut third, &turns, clock, MIB));
        let (woken, waker) = counting();
        let mut cx = Context::from_waker(&waker);
        assert!(fourth.poll(&mut cx, &turns, clock, MIB).is_pending());
        drop(second);
        assert_eq!(turns.taken(), (1, 2));
        drop(first);
        // The third has the turn, and was never polled.
        drop(third);
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(fourth.poll(&mut cx, &turns, clock, MIB).is_ready());
        drop(fourth);
        assert_eq!(turns.taken(), (0, 0));
    });
}

/// All of them wait at the same time, and not for each other.
#[test]
fn nobody_waits_longer_than_the_bound() {
    Runtime::new().unwrap().block_on(async {
        let (turns, clock) = (Arc::new(Turns::new(1)), Clock::start());
        hang(&turns, 1, clock.tick());
        let began = Instant::now();
        let writers: Vec<_> = (0..400)
            .map(|_| {
                let turns = Arc::clone(&turns);
                crate::spawn(async move {
                    let mut turn = Turn::default();
                    let poll = |cx: &mut Context<'_>| turn.poll(cx, &turns, clock, MIB);
                    std::future::poll_fn(poll).await;
                    // It hangs as well.
                    turn
                })
            })
            .collect();
        let mut hung = Vec::new();
        for writer in writers {
            hung.push(
                timeout(SOON, writer)
                    .await
                    .expect("it waits still")
                    .unwrap(),
            );
        }
        assert!(began.elapsed() < SOON, "one after the other");
        // They need not wait again at once.
        for turn in &mut hung {
            let without = turn.give_back().is_none();
            assert!(!without || ask(turn, &turns, clock, MIB));
        }
    });
}

#[test]
fn where_there_are_no_timers_nobody_waits() {
    let (turns, clock) = (Arc::new(Turns::new(1)), Clock::start());
    hang(&turns, 1, clock.tick());
    let mut turn = Turn::default();
    assert!(ask(&mut turn, &turns, clock, MIB));
    assert_eq!(turns.taken(), (1, 0));
}

/// A directory that goes away.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("evenkeel-turns-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    async fn file(&self, name: usize) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        options.open(self.0.join(name.to_string())).await.unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A runtime in which two files of a device have turns at a time.
fn two_turns() -> Runtime {
    Builder::new().workers(2).build().unwrap()
}

fn turns_of(file: &File) -> &Turns {
    file.inner.turns(Class::NORMAL).unwrap()
}

fn taken(file: &File) -> (usize, usize) {
    turns_of(file).taken()
}

/// Waits until no file has a turn, or waits for one.
async fn until_free(file: &File, after: &str) {
    let began = Instant::now();
    while taken(file) != (0, 0) {
        assert!(
            began.elapsed() < SOON,
            "{after}, and still {:?}",
            taken(file)
        );
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn only_long_writes_to_the_cache_take_turns() {
    let scratch = Scratch::new("which");
    two_turns().block_on(async {
        let mut file = scratch.file(0).await;
        hang(turns_of(&file), 2, u64::MAX / 2);
        // At once, as nobody waits here.
        assert_eq!(write_or_give_up(&mut file, &[1; 100_000], 1).await, 100_000);
        file.flush().await.unwrap();
        assert_eq!(taken(&file), (2, 0));
        for flag in [libc::O_DSYNC, libc::O_SYNC] {
            let mut options = OpenOptions::new();
            options.write(true).custom_flags(flag);
            let waits = options.open(scratch.0.join("0")).await.unwrap();
            assert!(waits.inner.turns(Class::NORMAL).is_none());
        }
        let (_reader, writer) = std::io::pipe().unwrap();
        let writer = std::fs::File::from(std::os::fd::OwnedFd::from(writer));
        let pipe = File::from_std(writer).unwrap();
        assert!(pipe.inner.turns(Class::NORMAL).is_none());
    });
}

/// Long writes that wait for the device copy nothing, so they wait for no turn: they make progress
/// although all turns hang for ever.
#[test]
#[cfg(target_os = "linux")]
fn what_goes_past_the_cache_takes_no_turn() {
    let scratch = Scratch::new("direct");
    two_turns().block_on(async {
        let cached = scratch.file(0).await;
        hang(turns_of(&cached), 2, u64::MAX / 2);
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(libc::O_DIRECT);
        let mut file = match options.open(scratch.0.join("0")).await {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
                eprintln!("skipped: this file system has no direct writes");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        assert!(file.inner.turns(Class::NORMAL).is_none());
        for _ in 0..TURN / MIB + 1 {
            let taken_over = write_or_give_up(&mut file, &[6; MIB], 1).await;
            assert!(taken_over > 0, "it waits for a turn");
            // The system may refuse memory that is not aligned for the device.
            let _ = file.flush().await;
        }
        assert_eq!(taken(&cached), (2, 0));
    });
}

#[test]
fn a_turn_goes_back_when_there_is_nothing_more_to_write() {
    let scratch = Scratch::new("back");
    Runtime::new().unwrap().block_on(async {
        let long = vec![1; MIB];
        let mut file = scratch.file(0).await;
        let other = scratch.file(1).await;
        // By itself.
        file.write_all(&long).await.unwrap();
        until_free(&file, "written").await;
        for _ in 0..20 {
            file.write_all(&long).await.unwrap();
            file.write_all(&long).await.unwrap();
            file.flush().await.unwrap();
            until_free(&file, "flushed").await;
            file.write_all(&long).await.unwrap();
            file.rewind().await.unwrap();
            file.flush().await.unwrap();
            until_free(&file, "flushed after a seek").await;
            file.write_all(&long).await.unwrap();
            file.rewind().await.unwrap();
            file.read_u8().await.unwrap();
            until_free(&file, "read").await;
            file.write_all(&long).await.unwrap();
            file.rewind().await.unwrap();
            file.write_all(&[2]).await.unwrap();
            file.sync_data().await.unwrap();
            until_free(&file, "synced").await;
        }
        file.write_all(&long).await.unwrap();
        file.rewind().await.unwrap();
        drop(file);
        until_free(&other, "dropped").await;
        // A write without permission fails in the lane.
        let mut unwritable = File::open(scratch.0.join("0")).await.unwrap();
        for _ in 0..20 {
            while unwritable.write_all(&long).await.is_ok() {}
            until_free(&other, "failed").await;
        }
    });
}

#[test]
fn turns_that_hang_hold_up_others_until_the_bound() {
    let scratch = Scratch::new("hung");
    two_turns().block_on(async {
        let mut files = Vec::new();
        for name in 0..40 {
            files.push(scratch.file(name).await);
        }
        let clock = files[0].inner.handle().shared().clock;
        hang(turns_of(&files[0]), 2, clock.tick());
        let began = Instant::now();
        let writers: Vec<_> = (files.into_iter())
            .map(|mut file| {
                crate::spawn(async move {
                    file.write_all(&[3; MIB]).await.unwrap();
                    file.flush().await.unwrap();
                })
            })
            .collect();
        for writer in writers {
            let written = timeout(SOON, writer).await;
            written.expect("it is held up").unwrap();
        }
        assert!(began.elapsed() < SOON, "one after the other");
        for name in 0..40 {
            let path = scratch.0.join(name.to_string());
            assert_eq!(std::fs::read(path).unwrap(), [3; MIB]);
        }
    });
}

/// Once the bound is over, the lane reports that it hangs.
#[test]
fn a_writer_without_a_turn_gets_the_error_of_a_full_lane() {
    let scratch = Scratch::new("full");
    let mut builder = Builder::new();
    builder.workers(2).disk_threads(1).disk_queue_limit(1);
    builder.build().unwrap().block_on(async {
        let mut files = Vec::new();
        for name in 0..10 {
            files.push(scratch.file(name).await);
        }
        let inner = &files[0].inner;
        let clock = inner.handle().shared().clock;
        hang(turns_of(&files[0]), 2, clock.tick());
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let held = std::sync::Mutex::new(held);
        let hangs = files[0].run("hangs", inner.data_lane(), move |_| {
            held.lock().unwrap().recv().unwrap_err();
            Ok(())
        });
        while inner.data_lane().stats().queued > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        let waits = files[0].run("waits", inner.data_lane(), |_| Ok(()));
        for mut file in files {
            let written = timeout(SOON, file.write_all(&[5; MIB])).await;
            let error = written.expect("it is held up").unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy, "{error}");
        }
        drop(hold);
        hangs.await.unwrap().unwrap();
        waits.await.unwrap().unwrap();
    });
}

#[test]
fn what_is_urgent_does_not_wait_for_what_is_not() {
    let scratch = Scratch::new("classes");
    two_turns().block_on(async {
        let holder = scratch.file(0).await;
        hang(turns_of(&holder), 2, u64::MAX / 2);
        for (class, taken_over) in [(Class::NORMAL, 0), (Class::URGENT, MIB)] {
            let mut file = scratch.file(1).await;
            let writer = crate::spawn_in(class, async move {
                write_or_give_up(&mut file, &[4; MIB], 1).await
            });
            assert_eq!(writer.await.unwrap(), taken_over, "{class:?}");
        }
    });
}

/// Pseudo-random numbers, the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Polls a write once or more often, and gives up. Returns how much was taken over.
async fn write_or_give_up(file: &mut File, bytes: &[u8], mut tries: u64) -> usize {
    std::future::poll_fn(|cx| {
        let polled = Pin::new(&mut *file).poll_write(cx, bytes);
        tries -= 1;
        match polled {
            Poll::Ready(taken) => Poll::Ready(taken.unwrap()),
            Poll::Pending if tries == 0 => Poll::Ready(0),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Writes the pattern from `seed` on, giving up now and then, and returns the length.
async fn write_by_chance(mut file: File, pattern: Arc<[u8]>, seed: u64) -> usize {
    let mut chance = Chance(seed);
    let mut length = 0;
    while length < 8 * MIB {
        let begin = length + seed as usize;
        let bytes = &pattern[begin..begin + 300_000 + chance.below(900_000) as usize];
        length += match chance.below(8) {
            // The write is not polled again for a while, or at all.
            0 => write_or_give_up(&mut file, bytes, 1).await,
            1 => write_or_give_up(&mut file, bytes, 2).await,
            2 if chance.below(8) == 0 => return length,
            3 => {
                file.flush().await.unwrap();
                0
            }
            4 => {
                sleep(Duration::from_millis(chance.below(4))).await;
                0
            }
            5 => file.write(&bytes[..50_000]).await.unwrap(),
            _ => file.write(bytes).await.unwrap(),
        };
    }
    length
}

#[test]
fn writers_that_give_up_at_random_corrupt_and_leave_nothing() {
    let scratch = Scratch::new("chance");
    let runtime = two_turns();
    let pattern: Arc<[u8]> = (0..10 * MIB).map(|at| (at / 7 % 251) as u8).collect();
    runtime.block_on(async {
        let other = scratch.file(99).await;
        let mut writers = Vec::new();
        for name in 0..32 {
            let (file, pattern) = (scratch.file(name).await, Arc::clone(&pattern));
            let seed = name as u64 * 7_919 + 1;
            let writer = crate::spawn(write_by_chance(file, pattern, seed));
            writers.push((name, seed as usize, writer));
        }
        let mut lengths = Vec::new();
        for (name, seed, writer) in writers {
            lengths.push((name, seed, writer.await.unwrap()));
        }
        // Bytes that were taken over are still being written.
        until_free(&other, "written by chance").await;
        let began = Instant::now();
        for (name, seed, length) in lengths {
            let path = scratch.0.join(name.to_string());
            while std::fs::metadata(&path).unwrap().len() < length as u64 {
                assert!(began.elapsed() < SOON, "file {name} is too short");
                sleep(Duration::from_millis(1)).await;
            }
            let written = std::fs::read(&path).unwrap();
            assert!(written == pattern[seed..seed + length], "file {name}");
        }
    });
}
