//! Moves bytes between two connections, in both directions, until both have ended.
//!
//! The kernel moves them where it can ([`evenkeel::net::splice`]), so that a large transfer costs
//! little processor time. It cannot if one side is over TLS, and does not where a listener says so.
//! A silent connection has no buffer in either case, and how much one poll moves is bounded.

use std::io;
use std::pin::pin;

use evenkeel::net::splice::{Meter, Moved};
use evenkeel::time::timeout;
use tokio::io::AsyncWriteExt;

use crate::config::Listener;
use crate::counters::Counter;
use crate::sessions;
use crate::silence::Silence;
use crate::stream::Stream;

/// One end of what is relayed.
#[derive(Debug)]
pub struct Side<'a> {
    /// The connection.
    pub stream: &'a Stream,
    /// What was read of it before.
    pub begun: Vec<u8>,
    /// Count the bytes that come from it.
    pub from: &'a [&'a Counter],
}

/// Moves bytes both ways, as the client's listener has it. The end of one direction is passed on,
/// and the other one goes on. The connections are to be closed then, by which the last end is
/// passed on.
///
/// # Errors
///
/// That of a connection, or `TimedOut`: for `timeouts.idle`, or at most half as long again, no byte
/// was passed on, and none was taken of those that wait in the send buffers.
pub async fn both(one: Side<'_>, other: Side<'_>, config: &Listener) -> io::Result<()> {
    let (idle, splices) = (config.timeouts.idle, config.splice);
    let meter = Meter::new();
    let mut counted = Counted {
        meter: &meter,
        seen: Moved::default(),
        counters: [one.from, other.from],
    };
    counted.add([one.begun.len() as u64, other.begun.len() as u64]);
    let begun = (one.begun, other.begun);
    let (one, other) = (one.stream, other.stream);
    let mut taken = [one, other].map(|stream| stream.socket().taken());
    let mut silence = Silence::default();
    let mut moving = pin!(moved((one, other), begun, &meter, splices));
    loop {
        let result = timeout(Silence::look(idle), &mut moving).await;
        let moved = counted.note();
        if let Ok(result) = result {
            return result;
        }
        // Both are asked, so that each begins with what it has now.
        let taken: u64 = taken.iter_mut().map(|taken| taken()).sum();
        if silence.is_long(moved, taken > 0) {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

async fn moved(
    (one, other): (&Stream, &Stream),
    (there, back): (Vec<u8>, Vec<u8>),
    meter: &Meter,
    splices: bool,
) -> io::Result<()> {
    {
        let (mut one, mut other) = (one, other);
        tokio::try_join!(other.write_all(&there), one.write_all(&back))?;
        tokio::try_join!(other.flush(), one.flush())?;
    }
    // They are not needed for as long as the connection lasts.
    drop((there, back));
    Stream::splice_both(one, other, meter, splices).await?;
    Ok(())
}

/// What the counters know of a transfer: the rest when this is dropped, as by operators who end it.
struct Counted<'a> {
    meter: &'a Meter,
    seen: Moved,
    counters: [&'a [&'a Counter]; 2],
}

impl Counted<'_> {
    /// Counts what has moved since. Returns how much has in all.
    fn note(&mut self) -> u64 {
        let moved = self.meter.moved();
        let before = std::mem::replace(&mut self.seen, moved);
        self.add([moved.forth - before.forth, moved.back - before.back]);
        moved.forth + moved.back
    }

    fn add(&self, [forth, back]: [u64; 2]) {
        // Most connections have nothing at their beginning, and all of it counted at their end.
        if forth > 0 {
            sessions::came(forth);
            self.counters[0]
                .iter()
                .for_each(|counter| counter.add(forth));
        }
        if back > 0 {
            sessions::sent(back);
            self.counters[1]
                .iter()
                .for_each(|counter| counter.add(back));
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.note();
    }
}
