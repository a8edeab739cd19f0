//! Reads: each waits for a record, then for memory, and only then reads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use evenkeel::time::timeout;
use tokio::sync::{Semaphore, watch};
use txlog_client::frame::{Code, Response};

use super::Context;
use super::answers::Answer;
use super::memory::Room;
use super::peers::Peer;
use super::requests::refused;
use crate::log::ReadLimits;
use crate::store::{Found, Store, StoreError};

/// A read that was asked for.
pub(super) struct Reading {
    pub(super) id: u64,
    pub(super) from: u64,
    pub(super) limits: ReadLimits,
    pub(super) wait: Duration,
    /// The log in which the reader was before.
    pub(super) of: Option<txlog_client::Identity>,
    /// The protocol's version that is spoken.
    pub(super) version: u16,
}

/// Answers a read: with records as soon as there are some, or without when its time is up. It waits
/// only while requests are taken, and does not wait for removed records. A read of another log, or
/// from beyond the end, is refused.
pub(super) async fn answer<S: Store>(
    context: &Context<S>,
    store: &S,
    peer: &Arc<Peer>,
    share: &Arc<Semaphore>,
    reading: Reading,
    mut taking: watch::Receiver<()>,
) -> Answer {
    let Reading {
        id,
        mut from,
        limits,
        wait,
        of,
        version,
    } = reading;
    let refused = |error| Answer::Small(refused(store, version, id, error));
    let deadline = Instant::now() + wait.min(context.config.read_wait_max);
    loop {
        if let Some(error) = elsewhere(store, of).or_else(|| beyond_end(store, from)) {
            return refused(error);
        }
        let wanted = from.max(store.bounds().0);
        let left = deadline.saturating_duration_since(Instant::now());
        if store.bounds().1 <= wanted && !left.is_zero() {
            // Whether it came in time is checked below.
            tokio::select! {
                _ = timeout(left, store.wait_for(wanted)) => {}
                // Nothing is ever sent, so it ends with the sender.
                _ = taking.changed() => {}
            }
        }
        let Some(room) = admitted(context, store.record_bytes_max(), (peer, share), limits).await
        else {
            return refused(busy(context));
        };
        let found = store.read(from, limits).await;
        // These may be the records of a log that has come in the meantime.
        if let Some(error) = elsewhere(store, of) {
            return refused(error);
        }
        match found {
            Ok(Found { records, next }) if records.is_empty() && next > from && !left.is_zero() => {
                from = next;
            }
            Ok(Found { records, next }) => {
                return encoded(&Response::Records { id, next, records }, room);
            }
            Err(error) => return refused(error),
        }
    }
}

/// Why this is not the log that the reader means.
pub(super) fn elsewhere<S: Store>(
    store: &S,
    of: Option<txlog_client::Identity>,
) -> Option<StoreError> {
    let (of, found) = (of?, store.identity());
    let (code, text) = if of.log != found.log {
        let text = format!(
            "this is log {:x}, and the reader was in log {:x}: take that one's server, or read \
             this one from its beginning",
            found.log, of.log
        );
        (Code::OtherLog, text)
    } else if of.epoch != found.epoch {
        let text = format!(
            "log {:x} is in epoch {}, and the reader was in {}: records were lost or replaced \
             since, so read it again from its beginning",
            found.log, found.epoch, of.epoch
        );
        (Code::NewEpoch, text)
    } else {
        return None;
    };
    Some(StoreError::new(code, text))
}

/// Why there cannot be a record of this number next.
pub(super) fn beyond_end<S: Store>(store: &S, from: u64) -> Option<StoreError> {
    let (first, next) = store.bounds();
    let text = format!(
        "no record from {from} on: the log has those from {first} on, and the next one to come is \
         {next}; if the reader was at {from} before, this is not the log in which it was"
    );
    (from > next).then(|| StoreError::new(Code::OutOfRange, text))
}

/// Waits for memory; `None` if there is none in time.
pub(super) async fn admitted<S: Store>(
    context: &Context<S>,
    record_bytes_max: usize,
    (peer, share): (&Arc<Peer>, &Arc<Semaphore>),
    limits: ReadLimits,
) -> Option<Room> {
    let memory = &context.memory;
    let room = memory.for_read(peer, share, limits, record_bytes_max);
    timeout(context.config.stall_max, room).await.ok()
}

pub(super) fn busy<S: Store>(context: &Context<S>) -> StoreError {
    let text = format!(
        "no memory was left for this read within {} s, as other clients hold it; ask again, or \
         give the server more by --memory-bytes",
        context.config.stall_max.as_secs_f64()
    );
    StoreError::new(Code::Busy, text)
}

/// The records' own memory ends here: what is held until the client takes it is the frame alone.
pub(super) fn encoded(response: &Response, mut room: Room) -> Answer {
    let mut frame = BytesMut::new();
    response.encode(&mut frame);
    room.shrink_to(frame.len());
    Answer::Large(frame.freeze(), room)
}
