//! What is written how, and when.

use std::collections::VecDeque;
use std::task::Waker;

use super::*;

/// What reads bring, one after the other; nothing is there behind them.
struct Reads(VecDeque<Poll<io::Result<&'static [u8]>>>);

impl AsyncRead for Reads {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let next = self.0.pop_front().unwrap_or(Poll::Pending);
        next.map_ok(|bytes| buf.put_slice(bytes))
    }
}

/// What was written, and how. Each write takes so many bytes at most.
struct Writes(String, usize);

impl Writes {
    fn note(&mut self, how: &str, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let taken = &bytes[..bytes.len().min(self.1)];
        self.0 += &format!("{how} {} ", str::from_utf8(taken).unwrap());
        Poll::Ready(Ok(taken.len()))
    }
}

impl AsyncWrite for Writes {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.note("put", buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0 += "end";
        Poll::Ready(Ok(()))
    }
}

/// Without pipes.
struct Copies;

impl Splicer<Reads, Writes> for Copies {
    fn lend(&self, _: &Reads) -> Option<Lent> {
        None
    }

    fn poll_fill(
        &self,
        _: &mut Context<'_>,
        _: &Reads,
        _: &Lent,
        _: usize,
        _: bool,
    ) -> Poll<io::Result<usize>> {
        unreachable!("there is no pipe")
    }

    fn poll_drain(&self, _: &mut Context<'_>, _: &Writes, _: &Lent) -> Poll<io::Result<usize>> {
        unreachable!("there is no pipe")
    }

    fn has_closed(&self, _: &Reads) -> bool {
        true
    }

    fn poll_put_more(
        &self,
        _: &mut Context<'_>,
        to: &mut Writes,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        to.note("more", bytes)
    }
}

type Brought = Poll<io::Result<&'static [u8]>>;

const fn bytes(bytes: &'static str) -> Brought {
    Poll::Ready(Ok(bytes.as_bytes()))
}

/// What is written of a flow in one poll, and how that ends.
fn polled(mut flow: Flow<'_>, reads: Vec<Brought>, at_once: usize) -> (String, &'static str, u64) {
    let meter = Meter::new();
    let mut to = Writes(String::new(), at_once);
    let mut ends = Ends {
        from: &mut Reads(reads.into()),
        to: &mut to,
        splicer: &Copies,
        meter: &meter,
        way: Way::Forth,
        closes: false,
    };
    let ended = match flow.poll(&mut Context::from_waker(Waker::noop()), &mut ends) {
        Poll::Pending => "waits",
        Poll::Ready(Ok(())) => "done",
        Poll::Ready(Err((Step::Read, _))) => "cannot read",
        Poll::Ready(Err(_)) => "cannot write",
    };
    (to.0, ended, meter.moved().forth)
}

#[test]
fn a_head_goes_out_with_what_is_there_and_otherwise_alone() {
    let broken = || Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
    let all = usize::MAX;
    for (len, reads, at_once, written, ended, count) in [
        (
            4,
            vec![bytes("body")],
            all,
            "more head put body ",
            "done",
            8,
        ),
        (
            9,
            vec![bytes("body")],
            all,
            "more head put body ",
            "waits",
            8,
        ),
        (4, vec![], all, "put head ", "waits", 4),
        (4, vec![bytes("")], all, "put head ", "done", 4),
        (0, vec![], all, "put head ", "done", 4),
        (4, vec![broken()], all, "put head ", "cannot read", 4),
        (
            9,
            vec![bytes("body"), broken()],
            all,
            "more head put body ",
            "cannot read",
            8,
        ),
        (
            4,
            vec![bytes("body")],
            3,
            "more hea more d put bod put y ",
            "done",
            8,
        ),
        (4, vec![], 3, "put hea put d ", "waits", 4),
        (4, vec![bytes("body")], 0, "more  ", "cannot write", 0),
    ] {
        let (did, how, moved) = polled(Flow::of(b"head", len), reads, at_once);
        assert_eq!((did.as_str(), how, moved), (written, ended, count));
    }
}

#[test]
fn an_end_that_is_there_goes_out_with_the_last_bytes() {
    for (reads, written, ended) in [
        (vec![bytes("last"), bytes("")], "more last end", "done"),
        (vec![bytes("last")], "put last ", "waits"),
    ] {
        let (did, how, _) = polled(Flow::to_the_end(), reads, usize::MAX);
        assert_eq!((did.as_str(), how), (written, ended));
    }
}
