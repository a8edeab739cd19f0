//! The promises of `fs::GroupCommit`, on files that fail, lose data and are slow.

mod support;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::fs::{CommitFile, CommitLog, File, FileLog, GroupCommit, Position, write_all_at};
use evenkeel::task::{JoinSet, yield_now};
use evenkeel::time::sleep;
use support::within;
use tokio::sync::Semaphore;

/// A file in memory. The test can look at all its state.
#[derive(Clone)]
struct Memory(Arc<State>);

struct State {
    contents: Mutex<Contents>,
    /// Each sync takes a permit: with none, it waits.
    syncs: Semaphore,
}

#[derive(Default)]
struct Contents {
    now: Vec<u8>,
    /// The bytes that survive a crash.
    synced: Vec<u8>,
    /// The most bytes that a write takes.
    write_max: Option<usize>,
    /// Errors of the next writes and syncs, the next one last.
    write_errors: Vec<io::ErrorKind>,
    sync_errors: Vec<io::ErrorKind>,
    writes: usize,
    syncs: usize,
    lengths: Vec<u64>,
}

impl Memory {
    /// Syncs wait until they are allowed.
    fn held() -> Self {
        Self(Arc::new(State {
            contents: Mutex::default(),
            syncs: Semaphore::new(0),
        }))
    }

    fn free() -> Self {
        let memory = Self::held();
        memory.allow(1_000_000);
        memory
    }

    fn allow(&self, syncs: usize) {
        self.0.syncs.add_permits(syncs);
    }

    fn with<R>(&self, look: impl FnOnce(&mut Contents) -> R) -> R {
        look(&mut self.0.contents.lock().unwrap())
    }

    fn synced(&self) -> String {
        self.with(|contents| String::from_utf8(contents.synced.clone()).unwrap())
    }
}

impl CommitFile for Memory {
    async fn write_at(&self, bytes: Bytes, offset: u64) -> io::Result<usize> {
        yield_now().await;
        self.with(|contents| {
            contents.writes += 1;
            if let Some(kind) = contents.write_errors.pop() {
                return Err(kind.into());
            }
            let count = bytes.len().min(contents.write_max.unwrap_or(usize::MAX));
            let end = offset as usize + count;
            if contents.now.len() < end {
                contents.now.resize(end, 0);
            }
            contents.now[offset as usize..end].copy_from_slice(&bytes[..count]);
            Ok(count)
        })
    }

    async fn sync_data(&self) -> io::Result<()> {
        let before = self.with(|contents| contents.now.clone());
        self.0.syncs.acquire().await.unwrap().forget();
        self.with(|contents| {
            contents.syncs += 1;
            if let Some(kind) = contents.sync_errors.pop() {
                return Err(kind.into());
            }
            contents.synced = before;
            Ok(())
        })
    }

    async fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|contents| {
            contents.lengths.push(len);
            contents.now.resize(len as usize, 0);
        });
        Ok(())
    }
}

fn open(memory: &Memory) -> GroupCommit {
    GroupCommit::builder().open(FileLog::new(memory.clone()), Position::default())
}

/// Waits until a condition holds that another task is about to fulfil.
async fn until(mut holds: impl FnMut() -> bool) {
    within(async {
        while !holds() {
            yield_now().await;
        }
    })
    .await;
}

#[evenkeel::test]
async fn records_that_come_during_a_sync_share_the_next_one() {
    let memory = Memory::held();
    let log = open(&memory);
    let first = log.submit("first ").await.unwrap();
    until(|| log.stats().writing == 1).await;
    let mut others = Vec::new();
    for number in 0..100 {
        others.push(log.submit(format!("{number} ")).await.unwrap());
    }
    assert_eq!(log.stats().queued, 100);
    memory.allow(1);
    assert_eq!(within(first).await.unwrap(), Position::default());
    until(|| log.stats().writing == 100).await;
    memory.allow(1);
    for (index, other) in (1..).zip(others) {
        assert_eq!(within(other).await.unwrap().index, index);
    }
    assert_eq!((log.stats().batches, log.stats().largest_batch), (2, 100));
    assert_eq!(
        memory.with(|contents| (contents.writes, contents.syncs)),
        (2, 2)
    );
}

#[evenkeel::test]
async fn nothing_is_acknowledged_that_a_crash_would_lose() {
    let memory = Memory::free();
    let log = open(&memory);
    let mut tasks = JoinSet::new();
    for task in 0..32 {
        let (log, memory) = (log.clone(), memory.clone());
        tasks.spawn(async move {
            for number in 0..50 {
                let record = format!("[{task}:{number}]");
                let at = log.append(record.clone()).await.unwrap().offset as usize;
                let synced = memory.synced();
                assert_eq!(synced.get(at..at + record.len()), Some(&record[..]));
            }
        });
    }
    while let Some(task) = within(tasks.join_next()).await {
        task.unwrap();
    }
    let end = within(log.close()).await.unwrap();
    assert_eq!(end.index, 32 * 50);
    assert_eq!(end.offset, memory.synced().len() as u64);
}

#[evenkeel::test]
async fn short_and_interrupted_writes_are_finished() {
    let memory = Memory::free();
    memory.with(|contents| {
        contents.write_max = Some(3);
        contents.write_errors = vec![io::ErrorKind::Interrupted; 2];
    });
    let log = open(&memory);
    within(log.append("a record of some length")).await.unwrap();
    assert_eq!(memory.synced(), "a record of some length");
    let none = Memory::free();
    none.with(|contents| contents.write_max = Some(0));
    let error = within(write_all_at(&none, Bytes::from_static(b"x"), 0))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WriteZero);
}

#[evenkeel::test]
async fn a_failed_sync_fails_all_who_wait_and_all_who_come_and_is_not_tried_again() {
    for sync_fails in [true, false] {
        let memory = Memory::held();
        let log = open(&memory);
        let durable = log.submit("durable").await.unwrap();
        memory.allow(1);
        within(durable).await.unwrap();
        memory.with(|contents| match sync_fails {
            true => contents.sync_errors.push(io::ErrorKind::StorageFull),
            false => contents.write_errors.push(io::ErrorKind::StorageFull),
        });
        // The first record's sync, or its failing write, holds them up until all are queued.
        let written = log.submit("written").await.unwrap();
        if sync_fails {
            until(|| log.stats().writing == 1).await;
            let queued = log.submit("queued").await.unwrap();
            memory.allow(1);
            let error = within(queued).await.unwrap_err();
            assert!(error.is_poisoned() && !error.maybe_written(), "{error}");
        }
        let error = within(written).await.unwrap_err();
        assert!(error.is_poisoned() && error.maybe_written(), "{error}");
        assert_eq!(error.io_error().unwrap().kind(), io::ErrorKind::StorageFull);
        let before = memory.with(|contents| (contents.writes, contents.syncs));
        memory.allow(10);
        let error = within(log.append("later")).await.unwrap_err();
        assert!(error.is_poisoned() && !error.maybe_written(), "{error}");
        assert!(log.failure().is_some() && within(log.close()).await.is_err());
        assert_eq!(
            memory.with(|contents| (contents.writes, contents.syncs)),
            before
        );
        assert_eq!(memory.synced(), "durable");
    }
}

#[evenkeel::test]
async fn a_cancelled_append_is_whole_or_absent_and_harms_no_other() {
    let memory = Memory::held();
    let log = open(&memory);
    let writing = log.submit("<writing>").await.unwrap();
    until(|| log.stats().writing == 1).await;
    let (gone, stays) = (
        log.submit("<gone>").await.unwrap(),
        log.submit("<stays>").await.unwrap(),
    );
    // A record that is dropped before its batch is taken up is not written, and leaves no gap.
    drop(gone);
    assert_eq!(log.stats().queued, 1);
    // A record that is dropped after that is written like the others.
    drop(writing);
    memory.allow(2);
    let position = within(stays).await.unwrap();
    assert_eq!(
        position,
        Position {
            index: 1,
            offset: 9
        }
    );
    assert_eq!(memory.synced(), "<writing><stays>");
}

#[evenkeel::test]
async fn a_full_queue_makes_appends_wait_in_order() {
    let memory = Memory::held();
    let log = GroupCommit::builder()
        .batch_records(2)
        .queue_records(2)
        .open(FileLog::new(memory.clone()), Position::default());
    let first = log.submit("0").await.unwrap();
    until(|| log.stats().writing == 1).await;
    let mut tasks = JoinSet::new();
    for number in 1..=6 {
        let other = log.clone();
        tasks.spawn(async move { (number, other.append(number.to_string()).await.unwrap()) });
        until(|| log.stats().queued + log.stats().waiting == number).await;
    }
    assert_eq!((log.stats().queued, log.stats().waiting), (2, 4));
    let waits = evenkeel::time::timeout(Duration::from_millis(5), log.submit("7")).await;
    assert!(waits.is_err(), "there is no room");
    assert_eq!(log.stats().waiting, 4);
    memory.allow(100);
    within(first).await.unwrap();
    while let Some(task) = within(tasks.join_next()).await {
        let (number, position) = task.unwrap();
        assert_eq!(position.index, number as u64);
    }
    assert_eq!(memory.synced(), "0123456");
}

#[evenkeel::test]
async fn a_record_larger_than_a_batch_is_refused_and_a_closed_log_takes_none() {
    let memory = Memory::free();
    let log = GroupCommit::builder()
        .batch_bytes(4)
        .queue_bytes(1)
        .open(FileLog::new(memory.clone()), Position::default());
    let error = within(log.append("12345")).await.unwrap_err();
    assert!(error.is_too_large() && !error.is_poisoned(), "{error}");
    within(log.append("1234")).await.unwrap();
    within(log.close()).await.unwrap();
    let error = within(log.append("x")).await.unwrap_err();
    assert!(error.is_closed(), "{error}");
    within(log.close()).await.unwrap();
    assert_eq!(memory.synced(), "1234");
}

#[evenkeel::test]
async fn a_delay_gathers_records_and_a_full_batch_does_not_wait_for_it() {
    let memory = Memory::free();
    let log = GroupCommit::builder()
        .batch_records(3)
        .delay(Duration::from_secs(1))
        .open(FileLog::new(memory.clone()), Position::default());
    let first = log.submit("a").await.unwrap();
    // Long enough for the first to be written alone, if it did not wait.
    evenkeel::time::sleep(Duration::from_millis(50)).await;
    let second = log.submit("b").await.unwrap();
    for one in [first, second] {
        within(one).await.unwrap();
    }
    assert_eq!(log.stats().batches, 1, "the two met within the delay");
    let forever = GroupCommit::builder()
        .batch_records(3)
        .delay(Duration::from_secs(1_000_000))
        .open(FileLog::new(memory.clone()), Position::default());
    let mut full = Vec::new();
    for _ in 0..3 {
        full.push(forever.submit("x").await.unwrap());
    }
    for one in full {
        within(one).await.unwrap();
    }
    let last = forever.submit("y").await.unwrap();
    within(forever.close()).await.unwrap();
    within(last).await.unwrap();
}

#[evenkeel::test]
async fn what_is_submitted_is_written_after_all_handles_are_gone() {
    let memory = Memory::held();
    let log = open(&memory);
    let commits = [
        log.submit("a").await.unwrap(),
        log.submit("b").await.unwrap(),
    ];
    drop(log);
    memory.allow(2);
    for commit in commits {
        within(commit).await.unwrap();
    }
    assert_eq!(memory.synced(), "ab");
}

#[test]
fn a_runtime_that_ends_fails_what_waits() {
    let runtime = evenkeel::runtime::Runtime::new().unwrap();
    let memory = Memory::held();
    let (log, commit) = runtime.block_on(async {
        let log = open(&memory);
        let commit = log.submit("never synced").await.unwrap();
        (log, commit)
    });
    runtime.shutdown(Duration::from_secs(60)).unwrap();
    let outside = evenkeel::runtime::Runtime::new().unwrap();
    outside.block_on(async {
        let error = within(commit).await.unwrap_err();
        assert!(error.is_poisoned(), "{error}");
        assert!(within(log.append("x")).await.is_err());
    });
}

/// A log that panics when it writes.
struct Panics;

impl CommitLog for Panics {
    async fn write(&mut self, _: Position, _: &[Bytes]) -> io::Result<()> {
        std::panic::resume_unwind(Box::new("on purpose"))
    }

    async fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[evenkeel::test]
async fn a_log_that_panics_fails_who_waits() {
    let log = GroupCommit::builder().open(Panics, Position::default());
    let error = within(log.append("x")).await.unwrap_err();
    assert!(error.is_poisoned() && error.maybe_written(), "{error}");
    assert!(within(log.close()).await.is_err());
}

#[evenkeel::test]
async fn a_file_is_made_longer_ahead() {
    let memory = Memory::free();
    let log =
        GroupCommit::builder().open(FileLog::new(memory.clone()).ahead(100), Position::default());
    for _ in 0..30 {
        within(log.append("12345")).await.unwrap();
    }
    assert_eq!(memory.with(|contents| contents.lengths.clone()), [105, 210]);
    assert!(memory.synced().starts_with(&"12345".repeat(30)));
}

#[evenkeel::test]
async fn records_are_in_a_file_of_the_system() {
    let path = std::env::temp_dir().join(format!("evenkeel-group-commit-{}", std::process::id()));
    let file = File::create(&path).await.unwrap();
    let log = GroupCommit::builder().open(FileLog::new(file), Position::default());
    let mut tasks = JoinSet::new();
    for number in 0..200 {
        let log = log.clone();
        tasks.spawn(async move {
            let position = log.append(format!("{number:04}\n")).await.unwrap();
            (number, position.offset)
        });
    }
    let mut places = Vec::new();
    while let Some(task) = within(tasks.join_next()).await {
        places.push(task.unwrap());
    }
    within(log.close()).await.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(text.len(), 1_000);
    for (number, offset) in places {
        assert_eq!(text[offset as usize..][..5], format!("{number:04}\n"));
    }
}

/// A waker that panics harms only its own task.
#[evenkeel::test]
async fn a_waker_that_panics_keeps_nobody_else_asleep() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let memory = Memory::held();
    let log = open(&memory);
    // It makes the others share the next batch.
    let first = log.submit("first").await.unwrap();
    while memory.with(|contents| contents.writes) == 0 {
        yield_now().await;
    }
    let panicking = log.submit("panics").await.unwrap();
    let other = evenkeel::spawn({
        let log = log.clone();
        async move { log.append("other").await }
    });
    let mut panicking = std::pin::pin!(panicking);
    let waker = std::task::Waker::from(Arc::new(Panics));
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(panicking.as_mut().poll(&mut cx).is_pending());
    while log.stats().queued < 2 {
        yield_now().await;
    }
    memory.allow(10);
    within(first).await.unwrap();
    assert_eq!(within(other).await.unwrap().unwrap().index, 2);
    assert_eq!(within(panicking).await.unwrap().index, 1);
    within(log.append("goes on")).await.unwrap();
}

/// Tasks that append again when their record is durable are all in the next batch. (If the log did
/// not wait for them, some would always miss it, since it begins before they are polled.)
#[evenkeel::test(workers = 1)]
async fn a_batch_waits_for_those_who_hear_of_the_last() {
    const APPENDERS: usize = 20;
    let memory = Memory::held();
    let log = open(&memory);
    let mut tasks = JoinSet::new();
    for _ in 0..APPENDERS {
        let log = log.clone();
        tasks.spawn(async move { while log.append("x").await.is_ok() {} });
    }
    let all_are_in_one = async {
        while log.stats().writing < APPENDERS {
            // For a part of the time of a sync no task need come.
            sleep(Duration::from_millis(10)).await;
            let batches = log.stats().batches;
            memory.allow(1);
            while log.stats().batches == batches || log.stats().writing == 0 {
                yield_now().await;
            }
        }
    };
    within(all_are_in_one).await;
    memory.allow(1_000_000);
    within(log.close()).await.unwrap();
    while let Some(ended) = within(tasks.join_next()).await {
        ended.unwrap();
    }
}

/// A single appender makes progress, with a batch for each record.
#[evenkeel::test(workers = 1)]
async fn one_who_appends_alone_gets_on() {
    let memory = Memory::free();
    let log = open(&memory);
    for index in 0..1_000 {
        let position = within(log.append("x")).await.unwrap();
        assert_eq!(position.index, index);
        sleep(Duration::from_micros(10)).await;
    }
    assert_eq!(log.stats().batches, 1_000);
    within(log.close()).await.unwrap();
}

/// Its batch was taken up after it had got room, before its task was polled.
#[evenkeel::test]
async fn a_submit_that_is_dropped_after_its_batch_was_taken_up_is_written_whole() {
    let memory = Memory::held();
    let mut builder = GroupCommit::builder();
    builder.batch_records(1).queue_records(1);
    let log = builder.open(FileLog::new(memory.clone()), Position::default());
    let first = log.submit("first ").await.unwrap();
    while log.stats().writing == 0 {
        yield_now().await;
    }
    let second = log.submit("second ").await.unwrap();
    let mut third = Box::pin(log.submit("third"));
    let waits = std::future::poll_fn(|cx| {
        let polled = Future::poll(third.as_mut(), cx);
        std::task::Poll::Ready(polled.is_pending())
    });
    assert!(waits.await && log.stats().waiting == 1);
    memory.allow(2);
    within(first).await.unwrap();
    within(second).await.unwrap();
    while log.stats().writing == 0 {
        yield_now().await;
    }
    drop(third);
    memory.allow(1);
    assert_eq!(within(log.close()).await.unwrap().index, 3);
    assert_eq!(memory.synced(), "first second third");
}

/// A log of numbers, each of which has to be the next one; others are refused.
struct InARow {
    next: u64,
    written: Vec<Vec<u64>>,
    receipts: std::collections::VecDeque<Result<u64, u64>>,
    seen: Arc<Mutex<Vec<Vec<u64>>>>,
    fails_at: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Number(u64);

impl evenkeel::fs::CommitRecord for Number {
    fn bytes(&self) -> usize {
        8
    }
}

impl evenkeel::fs::ReceiptLog for InARow {
    type Record = Number;
    type Receipt = Result<u64, u64>;

    async fn write(&mut self, first: Position, numbers: &[Number]) -> io::Result<()> {
        assert_eq!(first.index, self.written.concat().len() as u64);
        self.written.push(numbers.iter().map(|n| n.0).collect());
        for Number(number) in numbers {
            if self.fails_at == Some(*number) {
                return Err(io::Error::other("it fails here"));
            }
            let is_next = *number == self.next;
            self.receipts.push_back(if is_next {
                Ok(self.next)
            } else {
                Err(self.next)
            });
            self.next += u64::from(is_next);
        }
        Ok(())
    }

    async fn sync(&mut self) -> io::Result<()> {
        self.seen.lock().unwrap().clone_from(&self.written);
        Ok(())
    }

    fn receipt(&mut self, _: Position) -> Result<u64, u64> {
        self.receipts.pop_front().expect("one for each")
    }
}

fn in_a_row(fails_at: Option<u64>) -> (InARow, Arc<Mutex<Vec<Vec<u64>>>>) {
    let seen = Arc::default();
    let log = InARow {
        next: 0,
        written: Vec::new(),
        receipts: std::collections::VecDeque::new(),
        seen: Arc::clone(&seen),
        fails_at,
    };
    (log, seen)
}

#[evenkeel::test]
async fn a_log_decides_on_each_record_in_its_order_and_each_append_gets_its_receipt() {
    let (log, seen) = in_a_row(None);
    let log = GroupCommit::builder().open(log, Position::default());
    let mut pending = Vec::new();
    for number in [0, 1, 1, 5, 2, 3] {
        pending.push(Some(log.submit(Number(number)).await.unwrap()));
    }
    // Whether it is written or not: the others get their own receipts.
    let cancelled = pending[4].take();
    drop(cancelled);
    let mut receipts = Vec::new();
    for commit in pending.into_iter().flatten() {
        receipts.push(commit.await.unwrap());
    }
    let is_written = seen.lock().unwrap().concat().contains(&2);
    let last = if is_written { Ok(3) } else { Err(2) };
    assert_eq!(receipts, [Ok(0), Ok(1), Err(2), Err(2), last]);
    let end = log.close().await.unwrap();
    assert_eq!(end.index, 5 + u64::from(is_written));
    assert_eq!(end.offset, 8 * end.index);
}

#[evenkeel::test]
async fn a_refusal_is_told_to_nobody_whose_batch_fails() {
    let (log, _) = in_a_row(Some(1));
    let log = GroupCommit::builder().open(log, Position::default());
    // The first may be in a batch of its own; the others are refused or fail.
    let first = log.submit(Number(7)).await.unwrap();
    let second = log.submit(Number(1)).await.unwrap();
    let (first, second) = (first.await, second.await);
    assert!(second.unwrap_err().is_poisoned());
    assert!(first.is_err() || first.unwrap() == Err(0));
    assert!(log.append(Number(0)).await.unwrap_err().is_poisoned());
}
