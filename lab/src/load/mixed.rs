//! `load mixed`: an open loop of calls of which one in four makes the server compute for long, and
//! the others are answered at once. What counts is how long those take.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::args::{MixedArgs, Over};
use super::book::{Book, EchoSummary};
use super::calls::{Kind, Loop};
use super::streams;
use crate::error::{Error, Result};
use crate::sys;

/// What both kinds of calls found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct MixedSummary {
    /// `GET /`, answered at once.
    pub(crate) innocents: EchoSummary,
    /// `POST /`, answered after some computing.
    pub(crate) hogs: EchoSummary,
}

/// One kind of calls, and where they go.
pub(super) struct Side {
    pub(super) book: Book,
    pub(super) target: SocketAddr,
    pub(super) method: hyper::Method,
}

pub(crate) fn run(args: &MixedArgs) -> Result<MixedSummary> {
    // As with calls: whoever waits for its turn on a shared processor measures itself.
    sys::ask_to_go_first();
    let pace = args.time.pace(args.rate);
    let side = |part, target, method| Side {
        book: args.time.book(pace, part),
        target,
        method,
    };
    let hogs_at = args.hogs_at.unwrap_or(args.target);
    if args.over == Over::Shared && hogs_at != args.target {
        return Err(Error::SharedHasOneTarget);
    }
    let sides = [
        side(|index| !is_hog(index), args.target, hyper::Method::GET),
        side(is_hog, hogs_at, hyper::Method::POST),
    ];
    let end = args.time.end();
    let (elapsed, [innocents, hogs]) = match args.over {
        Over::H2 => streams::run(sides, pace.tick(), end)?,
        Over::Fresh | Over::Kept | Over::Shared => {
            over_http1(sides, args.over, args.connections, pace.tick(), end)?
        }
    };
    Ok(MixedSummary {
        innocents: innocents.summary(elapsed),
        hogs: hogs.summary(elapsed),
    })
}

/// One call in four. Its place among the four moves from one four to the next, so that hogs meet
/// each other, and leave room, in turn.
fn is_hog(index: u64) -> bool {
    (index + index / 4).is_multiple_of(4)
}

/// Over a fresh connection for each call, or over connections that are kept: all for all calls, or
/// a quarter of them for hogs.
fn over_http1(
    sides: [Side; 2],
    over: Over,
    connections: u32,
    tick: Duration,
    end: Duration,
) -> Result<(Duration, [Book; 2])> {
    let broken = || Error::system("the calls' readiness queue failed");
    let targets = [sides[0].target, sides[1].target];
    let hogs = (connections / 4).max(1);
    let (pools, kept) = match over {
        Over::Shared => ([Some(0), Some(0)], [connections, 0]),
        Over::Kept => {
            let innocents = connections.saturating_sub(hogs).max(1);
            ([Some(0), Some(1)], [innocents, hogs])
        }
        _ => ([None, None], [0, 0]),
    };
    let kinds = std::iter::zip(sides, pools).map(|(side, pool)| {
        let (book, target) = (side.book, side.target);
        Kind::new(book, target, side.method.as_str(), "/", pool)
    });
    let mut calls = Loop::new(kinds.collect()).map_err(broken())?;
    for (pool, connections) in kept.into_iter().enumerate() {
        calls.keep(pool, targets[pool], connections)?;
    }
    let (elapsed, kinds) = calls.run(tick, end).map_err(broken())?;
    let mut books = kinds.into_iter().map(|kind| kind.book);
    match (books.next(), books.next()) {
        (Some(innocents), Some(hogs)) => Ok((elapsed, [innocents, hogs])),
        _ => unreachable!("the loop gives back the two kinds that it was given"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_four_hogs_at_changing_places() {
        let hogs: Vec<u64> = (0..32).filter(|&index| is_hog(index)).collect();
        assert_eq!(hogs, [0, 7, 10, 13, 16, 23, 26, 29]);
    }
}
