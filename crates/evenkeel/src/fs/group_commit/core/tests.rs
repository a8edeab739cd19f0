//! Random operations on the core, compared with a plain list of records.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Push(usize),
    /// Asks whether the n-th pending record is admitted.
    AskRoom(usize),
    AskResult(usize),
    Cancel(usize),
    Next,
    Complete,
    Pass(u64),
    Close,
    Fail,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0..13_usize).prop_map(Op::Push),
        4 => any::<usize>().prop_map(Op::AskRoom),
        6 => any::<usize>().prop_map(Op::AskResult),
        4 => any::<usize>().prop_map(Op::Cancel),
        8 => Just(Op::Next),
        8 => Just(Op::Complete),
        4 => (0..8_u64).prop_map(Op::Pass),
        1 => Just(Op::Close),
        1 => Just(Op::Fail),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    (1..16_usize, 1..6_usize, 0..16_usize, 0..6_usize, 0..10_u64).prop_map(
        |(batch_bytes, batch_records, more_bytes, more_records, delay_ns)| Limits {
            batch_bytes,
            batch_records,
            queue_bytes: batch_bytes + more_bytes,
            queue_records: batch_records + more_records,
            delay_ns,
        },
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Unwritten,
    Writing,
    Durable,
    Failed,
}

#[derive(Debug)]
struct Record {
    key: usize,
    len: usize,
    pushed_ns: u64,
    is: Is,
    cancelled: bool,
    position: Position,
    /// The latest waker and its purpose, unless it has been woken.
    waker: Option<(u64, bool)>,
}

/// The core and its oracle.
struct Pair {
    core: Batches<u64>,
    limits: Limits,
    /// All records ever pushed, in order.
    records: Vec<Record>,
    now_ns: u64,
    next: Position,
    writing: bool,
    closed: bool,
    failed: bool,
    /// The committer's waker, if it sleeps; and until when.
    asleep: Option<(u64, Option<u64>)>,
    wakers: u64,
    /// What the appends of the batch under way are to return.
    receipts: Vec<Position>,
}

impl Pair {
    fn new(limits: Limits) -> Self {
        Self {
            core: Batches::new(limits, Position::default()),
            limits,
            records: Vec::new(),
            now_ns: 0,
            next: Position::default(),
            writing: false,
            closed: false,
            failed: false,
            asleep: None,
            wakers: 0,
            receipts: Vec::new(),
        }
    }

    fn waker(&mut self) -> u64 {
        self.wakers += 1;
        self.wakers
    }

    /// The n-th pending record, modulo their number.
    fn pick(&self, index: usize) -> Option<usize> {
        let live: Vec<usize> = (0..self.records.len())
            .filter(|&at| !self.records[at].cancelled)
            .collect();
        (!live.is_empty()).then(|| live[index % live.len()])
    }

    fn unwritten(&self) -> impl Iterator<Item = &Record> {
        self.records
            .iter()
            .filter(|record| record.is == Is::Unwritten && !record.cancelled)
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Push(len) => self.push(len),
            Op::AskRoom(index) => self.ask_room(index),
            Op::AskResult(index) => self.ask_result(index),
            Op::Cancel(index) => self.cancel(index),
            Op::Next if !self.writing => self.next(),
            Op::Complete if self.writing => self.complete(),
            Op::Next | Op::Complete => {}
            Op::Pass(nanos) => self.now_ns += nanos,
            Op::Close => {
                let woken = self.core.close();
                self.closed = true;
                self.committer_woken(woken);
                assert!(self.asleep.is_none(), "it has to come and see the end");
            }
            Op::Fail => self.fail(),
        }
        self.check();
    }

    fn push(&mut self, len: usize) {
        let record = Bytes::from(vec![self.records.len() as u8; len]);
        // Some return at once which tasks to wake.
        let waker = (len % 2 == 1).then(|| self.waker());
        let waiting = self.core.stats().waiting;
        match self.core.push(record, len, self.now_ns, || waker) {
            Ok((Pushed { key, is_admitted }, committer)) => {
                assert_eq!(is_admitted, self.core.stats().waiting == waiting);
                assert!(!self.closed && !self.failed && len <= self.limits.batch_bytes);
                self.records.push(Record {
                    key,
                    len,
                    pushed_ns: self.now_ns,
                    is: Is::Unwritten,
                    cancelled: false,
                    position: Position::default(),
                    waker: waker.map(|waker| (waker, false)),
                });
                self.committer_woken(committer);
            }
            Err((Refused::Failed(_), record)) => assert!(self.failed && record.len() == len),
            Err((Refused::Closed, _)) => assert!(self.closed && !self.failed),
            Err((Refused::TooLarge, _)) => assert!(len > self.limits.batch_bytes),
        }
    }

    fn committer_woken(&mut self, woken: Option<u64>) {
        if let Some(woken) = woken {
            let (waker, _) = self.asleep.take().expect("it is woken only if it sleeps");
            assert_eq!(woken, waker);
        }
    }

    fn ask_room(&mut self, index: usize) {
        let Some(at) = self.pick(index) else { return };
        let waker = self.waker();
        let key = self.records[at].key;
        let admitted = self.core.is_admitted(key, |slot| *slot = Some(waker));
        let admitted_count = self.core.stats().queued;
        let ahead = self.unwritten().take_while(|r| r.key != key).count();
        let expected = self.records[at].is != Is::Unwritten || ahead < admitted_count;
        assert_eq!(
            admitted, expected,
            "those at the head of the line are in the queue"
        );
        if !admitted {
            self.records[at].waker = Some((waker, true));
        }
    }

    fn ask_result(&mut self, index: usize) {
        let Some(at) = self.pick(index) else { return };
        let waker = self.waker();
        let result = self
            .core
            .result(self.records[at].key, |slot| *slot = Some(waker));
        let record = &mut self.records[at];
        match result {
            None => {
                assert!(matches!(record.is, Is::Unwritten | Is::Writing));
                record.waker = Some((waker, false));
            }
            Some((Ok(position), _)) => {
                assert_eq!((record.is, position), (Is::Durable, record.position));
                record.cancelled = true;
            }
            Some((Err(_), _)) => {
                assert_eq!(record.is, Is::Failed);
                record.cancelled = true;
            }
        }
    }

    fn cancel(&mut self, index: usize) {
        let Some(at) = self.pick(index) else { return };
        let mut wake = Vec::new();
        let left = self.core.cancel(self.records[at].key, &mut wake);
        let record = &mut self.records[at];
        assert_eq!(left.is_none(), record.is == Is::Writing);
        record.cancelled = true;
        if record.is != Is::Writing {
            record.waker = None;
        }
        self.woken(wake, false);
    }

    fn next(&mut self) {
        let waker = self.waker();
        let (mut records, mut wake) = (Vec::new(), Vec::new());
        let (next, _) = (self.core).next(self.now_ns, waker, &mut records, &mut wake);
        self.asleep = None;
        match next {
            Next::End => assert!(self.failed || (self.closed && self.unwritten().count() == 0)),
            Next::Sleep => {
                assert!(self.unwritten().count() == 0);
                self.asleep = Some((waker, None));
            }
            Next::SleepUntil(until_ns) => {
                let first = self.unwritten().next().expect("a record waits for company");
                assert_eq!(until_ns, first.pushed_ns + self.limits.delay_ns);
                assert!(until_ns > self.now_ns && !self.closed);
                self.asleep = Some((waker, Some(until_ns)));
            }
            Next::Write(position) => self.written(position, &records),
        }
        self.woken(wake, false);
    }

    /// A batch is the longest beginning of the line that fits.
    fn written(&mut self, position: Position, batch: &[Bytes]) {
        assert_eq!(position, self.next);
        assert!(!batch.is_empty());
        let mut bytes = 0;
        let mut taken = 0;
        let limits = self.limits;
        let line: Vec<usize> = (0..self.records.len())
            .filter(|&at| self.records[at].is == Is::Unwritten && !self.records[at].cancelled)
            .collect();
        for at in line {
            let record = &mut self.records[at];
            if taken == limits.batch_records || bytes + record.len > limits.batch_bytes {
                break;
            }
            let expected = vec![at as u8; record.len];
            assert_eq!(batch.get(taken).map(|b| &b[..]), Some(&expected[..]));
            record.is = Is::Writing;
            record.position = self.next;
            self.receipts.push(self.next);
            self.next.index += 1;
            self.next.offset += record.len as u64;
            bytes += record.len;
            taken += 1;
        }
        assert_eq!(taken, batch.len());
        self.writing = true;
    }

    fn complete(&mut self) {
        let mut wake = Vec::new();
        let batch = self.core.stats().writing;
        let hoped = batch + self.core.stats().queued;
        assert_eq!(self.core.hoped(), hoped.min(self.limits.batch_records));
        // In parts of two, with the same result.
        let mut receipts = self.receipts.drain(..);
        let mut left = Vec::new();
        let parts = (1..).find(|_| !self.core.complete(2, &mut receipts, &mut left, &mut wake));
        assert_eq!(parts, Some(batch.div_ceil(2).max(1)));
        assert_eq!(receipts.next(), None, "each record has taken its own");
        drop(receipts);
        // Those of cancelled records are handed back.
        let cancelled = |record: &&Record| record.is == Is::Writing && record.cancelled;
        let cancelled: Vec<Position> = (self.records.iter().filter(cancelled))
            .map(|record| record.position)
            .collect();
        assert_eq!(left, cancelled);
        self.writing = false;
        self.finish(Is::Writing, Is::Durable);
        self.woken(wake, true);
    }

    fn fail(&mut self) {
        let mut wake = Vec::new();
        self.core
            .fail(&Failure::new(FailedStage::Sync, None), &mut wake);
        self.failed = true;
        self.writing = false;
        self.finish(Is::Writing, Is::Failed);
        self.finish(Is::Unwritten, Is::Failed);
        self.woken(wake, true);
    }

    fn finish(&mut self, from: Is, to: Is) {
        self.records
            .iter_mut()
            .filter(|record| record.is == from)
            .for_each(|record| record.is = to);
    }

    /// Checks who was woken: each once and for a reason; and with `results`, all that have one.
    fn woken(&mut self, wake: Vec<u64>, results: bool) {
        let depth = self.core.stats();
        let mut wake: HashMap<u64, ()> = {
            let count = wake.len();
            let set: HashMap<u64, ()> = wake.into_iter().map(|waker| (waker, ())).collect();
            assert_eq!(set.len(), count, "woken twice");
            set
        };
        let mut ahead = 0;
        for record in &mut self.records {
            let in_queue = record.is == Is::Unwritten && !record.cancelled && {
                ahead += 1;
                ahead <= depth.queued
            };
            let done = matches!(record.is, Is::Durable | Is::Failed);
            let Some((waker, for_room)) = record.waker else {
                continue;
            };
            let due = match for_room {
                true => in_queue || record.is != Is::Unwritten,
                false => results && done,
            };
            assert_eq!(wake.remove(&waker).is_some(), due, "{record:?}");
            if due {
                record.waker = None;
            }
        }
        if let Some((waker, _)) = self.asleep
            && wake.remove(&waker).is_some()
        {
            self.asleep = None;
        }
        assert!(wake.is_empty(), "woken for nothing");
    }

    fn check(&self) {
        let depth = self.core.stats();
        assert!(depth.queued <= self.limits.queue_records);
        assert!(depth.queued_bytes <= self.limits.queue_bytes);
        assert_eq!(depth.queued + depth.waiting, self.unwritten().count());
        let bytes: usize = self.unwritten().take(depth.queued).map(|r| r.len).sum();
        assert_eq!(depth.queued_bytes, bytes);
        if let Some(first) = self.unwritten().nth(depth.queued) {
            let full = depth.queued == self.limits.queue_records
                || depth.queued_bytes + first.len > self.limits.queue_bytes;
            assert!(full, "who waits for room has none");
        }
        let live = self.records.iter().filter(|record| !record.cancelled);
        let written = self
            .records
            .iter()
            .filter(|r| r.cancelled && r.is == Is::Writing);
        assert_eq!(
            self.core.entries.len(),
            live.count() + written.count(),
            "nothing is left"
        );
        match self.asleep {
            Some((_, None)) => assert_eq!(depth.queued, 0, "it sleeps beside work"),
            Some((_, Some(_))) => {
                let full = depth.queued >= self.limits.batch_records
                    || depth.queued_bytes >= self.limits.batch_bytes;
                assert!(!full, "it sleeps beside a full batch");
                assert_eq!(depth.waiting, 0, "it sleeps beside a full queue");
            }
            None => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_core_does_what_a_list_would(
        limits in limits(),
        ops in prop::collection::vec(op(), 0..120),
    ) {
        let mut pair = Pair::new(limits);
        ops.iter().for_each(|op| pair.apply(op));
    }

    /// After any operations, the committer can write all that is left, and then nothing is.
    #[test]
    fn all_that_is_pushed_gets_written(
        limits in limits(),
        ops in prop::collection::vec(op(), 0..60),
    ) {
        let mut pair = Pair::new(limits);
        ops.iter()
            .filter(|op| !matches!(op, Op::Fail))
            .for_each(|op| pair.apply(op));
        pair.apply(&Op::Close);
        while pair.writing || pair.unwritten().count() > 0 {
            pair.apply(&Op::Complete);
            pair.apply(&Op::Next);
        }
        let key = pair.core.await_end();
        let _ = pair.core.end(&mut Vec::new());
        let end = pair.core.end_result(key, |_| ()).expect("it has ended");
        prop_assert_eq!(end.unwrap(), pair.next);
    }
}

#[test]
fn what_is_left_behind_fails_and_says_whether_it_may_be_written() {
    let limits = Limits {
        batch_bytes: 1,
        batch_records: 1,
        queue_bytes: 1,
        queue_records: 1,
        delay_ns: 0,
    };
    let mut core: Batches<u64> = Batches::new(limits, Position::default());
    let keys: Vec<usize> = (0..3)
        .map(|_| {
            core.push(Bytes::from_static(b"x"), 1, 0, || None)
                .unwrap()
                .0
                .key
        })
        .collect();
    let (mut records, mut wake) = (Vec::new(), Vec::new());
    let (next, _) = core.next(0, 0, &mut records, &mut wake);
    assert_eq!(next, Next::Write(Position::default()));
    let _ = core.end(&mut wake);
    let errors: Vec<_> = keys
        .into_iter()
        .map(|key| {
            core.result(key, |_| ())
                .expect("it has failed")
                .0
                .unwrap_err()
        })
        .map(|failure| super::super::CommitError(super::super::error::Cause::Failed(failure)))
        .collect();
    assert!(errors.iter().all(|error| error.is_poisoned()));
    let maybe: Vec<bool> = errors.iter().map(|error| error.maybe_written()).collect();
    assert_eq!(maybe, [true, false, false]);
}
