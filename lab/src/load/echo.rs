//! The probe: an open-loop request every so often, answered by a TCP echo.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::spawn_local;

use super::Latencies;
use super::args::EchoArgs;
use super::book::{Book, EchoSummary};
use super::net::{self, at_pace};
use super::stalls::{Witnesses, met};
use crate::error::Result;
use crate::sys;

/// Bytes of a request and of its answer: its number, then a mark.
const REQUEST_LEN: usize = 16;
const MARK: [u8; 8] = *b"evenkeel";

pub(crate) fn run(args: &EchoArgs) -> Result<EchoSummary> {
    // As with calls: a probe that waits for its turn on a shared processor measures itself.
    sys::ask_to_go_first();
    net::run(probe(args))
}

/// Request `i` goes over connection `i mod connections`, which answers in the order in which it was
/// asked.
async fn probe(args: &EchoArgs) -> Result<EchoSummary> {
    let (pace, connections) = (args.time.pace(args.rate), u64::from(args.connections));
    let mut book = args.time.book(pace, |_| true);
    if args.stalls {
        book.keep_times();
    }
    let streams = net::connect(args.target, args.connections).await?;
    let witnesses = args.stalls.then(Witnesses::call);
    let (book, start) = (Rc::new(RefCell::new(book)), Instant::now());
    let ask = |(first, stream): (u64, TcpStream)| {
        let ((reader, writer), (asked, requests)) = (stream.into_split(), unbounded_channel());
        let own = (first..).step_by(args.connections as usize);
        spawn_local(send(writer, requests));
        spawn_local(hear(reader, own, Rc::clone(&book), start));
        asked
    };
    let asked: Vec<_> = (0..).zip(streams).map(ask).collect();
    let begin_due = || {
        let mut book = book.borrow_mut();
        while let Some(request) = book.begin(start.elapsed()) {
            // A connection that was lost is not asked, and has no answer.
            let _ = asked[(request % connections) as usize].send(request);
        }
        book.all_begun() && book.all_answered() || book.lost == connections
    };
    let elapsed = at_pace(start, pace, args.time.end(), begin_due).await?;
    let stalls = witnesses.and_then(Witnesses::hear);
    let (mut found, times) = book.borrow_mut().close(elapsed);
    found.calm = stalls.map(|stalls| {
        let mut latencies = Latencies::new();
        for (due, answered) in times.into_iter().flatten() {
            // Those without an answer count whatever they met.
            if answered.is_none() || !met(&stalls, start + due) {
                latencies.record(answered.unwrap_or(elapsed).saturating_sub(due));
            }
        }
        (latencies.len(), latencies.summary())
    });
    Ok(found)
}

async fn send(mut stream: OwnedWriteHalf, mut requests: UnboundedReceiver<u64>) {
    while let Some(request) = requests.recv().await {
        if stream.write_all(&message(request)).await.is_err() {
            return;
        }
    }
}

/// Takes the answers to a connection's own requests, until one is not as it should be.
async fn hear(
    mut stream: OwnedReadHalf,
    mut own: impl Iterator<Item = u64>,
    book: Rc<RefCell<Book>>,
    start: Instant,
) {
    let mut answer = [0; REQUEST_LEN];
    while let (Some(request), Ok(_)) = (own.next(), stream.read_exact(&mut answer).await) {
        let mut book = book.borrow_mut();
        if answer != message(request) || !book.answered(request, start.elapsed()) {
            break;
        }
    }
    book.borrow_mut().lost += 1;
}

fn message(request: u64) -> [u8; REQUEST_LEN] {
    let mut message = [0; REQUEST_LEN];
    message[..8].copy_from_slice(&request.to_le_bytes());
    message[8..].copy_from_slice(&MARK);
    message
}
