//! Models of a log.
//!
//! The file is a counter without any ordering of its own: the log has to ensure that acknowledged
//! records have been synced, and that the appending task sees it. An append that nobody wakes waits
//! for ever, which loom reports.

use std::task::{Poll, Waker};

use bytes::Bytes;

use super::Position;
use super::core::{Limits, Next, Pushed};
use super::error::{Failure, Stage};
use super::shared::CommitQueue;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::models::{Role, model, model_with_twins, role, roles, waker_of_this_thread};
use crate::sync::thread;

/// Room for one record in the queue and one in a batch, so that the second has to wait.
const NARROW: Limits = Limits {
    batch_bytes: 1,
    batch_records: 1,
    queue_bytes: 1,
    queue_records: 1,
    delay_ns: 0,
};

const WIDE: Limits = Limits {
    batch_bytes: 8,
    batch_records: 8,
    queue_bytes: 8,
    queue_records: 8,
    delay_ns: 0,
};

struct World {
    log: CommitQueue,
    /// How many records have been synced. Relaxed throughout, so that all order is the log's.
    synced: AtomicUsize,
}

/// How an append ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Durable,
    Failed,
    Refused,
    Cancelled,
    /// For the committer: how many records it has written.
    Wrote(usize),
}

fn world(limits: Limits) -> Arc<World> {
    Arc::new(World {
        log: CommitQueue::new(limits, Position::default()),
        synced: AtomicUsize::new(0),
    })
}

/// Appends one record, and waits for it.
fn append(world: &World) -> End {
    let waker = waker_of_this_thread();
    let Ok(Pushed { key, .. }) = world.log.push(Bytes::from_static(b"x"), 1, 0, None) else {
        return End::Refused;
    };
    loop {
        match world.log.poll_result(key, &waker) {
            Poll::Ready(Ok(position)) => {
                // Relaxed: see `World`.
                let synced = world.synced.load(Ordering::Relaxed);
                assert!(
                    synced as u64 > position.index,
                    "acknowledged before its sync"
                );
                return End::Durable;
            }
            Poll::Ready(Err(_)) => return End::Failed,
            Poll::Pending => thread::park(),
        }
    }
}

/// Appends one record, waits for room, and gives up after one look at the result.
fn append_and_cancel(world: &World) -> End {
    let waker = waker_of_this_thread();
    let Ok(Pushed { key, .. }) = world.log.push(Bytes::from_static(b"x"), 1, 0, None) else {
        return End::Refused;
    };
    match world.log.poll_result(key, &waker) {
        Poll::Ready(Ok(_)) => End::Durable,
        Poll::Ready(Err(_)) => End::Failed,
        Poll::Pending => {
            world.log.cancel(key);
            End::Cancelled
        }
    }
}

/// Commits until the log is closed and empty, or `failing` batches have failed.
fn commit(world: &World, failing: bool) -> End {
    let waker = waker_of_this_thread();
    let mut records = Vec::new();
    let (mut written, mut wake) = (0, Vec::new());
    loop {
        match world.log.next(0, &waker, &mut records) {
            Next::Sleep | Next::SleepUntil(_) => thread::park(),
            Next::End => break,
            Next::Write(_) if failing => {
                world.log.fail(&Failure::new(Stage::Sync, None));
                break;
            }
            Next::Write(first) => {
                written += records.len();
                let position = |index| Position { index, ..first };
                let mut receipts = (first.index..written as u64).map(position).collect();
                records.clear();
                // Relaxed: see `World`.
                world.synced.store(written, Ordering::Relaxed);
                world.log.complete(&mut receipts, &mut wake);
            }
        }
    }
    world.log.end();
    End::Wrote(written)
}

fn part(world: &Arc<World>, act: impl FnOnce(&World) -> End + Send + 'static) -> Role<End> {
    let world = Arc::clone(world);
    role(move || act(&world))
}

fn append_and_close(world: &World) -> End {
    let end = append(world);
    world.log.close();
    end
}

#[test]
fn two_appends_are_durable_when_they_say_so() {
    model_with_twins(|| {
        let world = world(WIDE);
        roles(
            [
                part(&world, append_and_close),
                part(&world, append_and_close),
                part(&world, |world| commit(world, false)),
            ],
            |ends: [End; 3]| {
                let durable = ends.iter().filter(|&&end| end == End::Durable).count();
                assert!(
                    durable >= 1,
                    "one of the two came before the log was closed"
                );
                assert_eq!(ends[2], End::Wrote(durable));
            },
        )
    });
}

#[test]
fn an_append_that_waits_for_room_gets_it_when_another_is_cancelled() {
    model(|| {
        let world = world(NARROW);
        // Stands in the queue until it is cancelled or written.
        let first = world
            .log
            .push(Bytes::from_static(b"x"), 1, 0, None)
            .unwrap()
            .key;
        roles(
            [
                part(&world, append_and_close),
                part(&world, move |world| {
                    world.log.cancel(first);
                    End::Cancelled
                }),
                part(&world, |world| commit(world, false)),
            ],
            |ends: [End; 3]| {
                assert_eq!(ends[0], End::Durable);
                assert!(matches!(ends[2], End::Wrote(1 | 2)));
            },
        )
    });
}

#[test]
fn cancelling_an_append_loses_no_other() {
    model(|| {
        let world = world(NARROW);
        roles(
            [
                part(&world, append_and_cancel),
                part(&world, append_and_close),
                part(&world, |world| commit(world, false)),
            ],
            |ends: [End; 3]| {
                assert_eq!(ends[1], End::Durable);
                let End::Wrote(written) = ends[2] else {
                    panic!("it commits")
                };
                let cancelled_at_most = usize::from(ends[0] != End::Refused);
                assert!(written >= 1 && written <= 1 + cancelled_at_most);
                if ends[0] == End::Durable {
                    assert_eq!(written, 2);
                }
            },
        )
    });
}

#[test]
fn a_failed_sync_reaches_pending_and_later_appends() {
    model_with_twins(|| {
        let world = world(NARROW);
        roles(
            [
                part(&world, append),
                part(&world, append),
                part(&world, |world| commit(world, true)),
            ],
            |ends: [End; 3]| {
                let failed = |end| matches!(end, End::Failed | End::Refused);
                assert!(failed(ends[0]) && failed(ends[1]), "{ends:?}");
            },
        )
    });
}

#[test]
fn close_waits_for_the_end() {
    model(|| {
        let world = world(WIDE);
        roles(
            [
                part(&world, append),
                part(&world, |world| {
                    world.log.close();
                    let waker = waker_of_this_thread();
                    let key = world.log.await_end();
                    loop {
                        match world.log.poll_end(key, &waker) {
                            Poll::Ready(end) => {
                                return End::Wrote(end.expect("nothing failed").index as usize);
                            }
                            Poll::Pending => thread::park(),
                        }
                    }
                }),
                part(&world, |world| commit(world, false)),
            ],
            |ends: [End; 3]| {
                assert_eq!(ends[1], ends[2]);
                let written = if ends[0] == End::Durable { 1 } else { 0 };
                assert_eq!(ends[2], End::Wrote(written));
            },
        )
    });
}
