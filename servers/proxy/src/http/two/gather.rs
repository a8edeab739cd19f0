//! What h2 writes, gathered.
//!
//! h2 writes each frame of a body by itself. Answers that are ready together would each cost a call
//! of the system, and over TLS a record. So as long as there are more bytes of bodies to come, a
//! frame is copied behind those before it, and all go out together: with the last one, when they
//! are many, or when h2 rests.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use super::held::{Line, Queue};
use crate::counters::Counter;
use crate::stream::Stream;

/// No more is gathered than this: as much as the kernel sends as one.
const GATHERED_MAX: usize = 64 * 1_024;

/// Pieces of a frame that are written without being copied: its head and its payload.
const PIECES: usize = 2;

/// The way out of a connection.
#[derive(Debug)]
pub(super) struct Gather<'a> {
    stream: &'a Stream,
    line: Arc<Line>,
    /// Bytes that the peer was sent.
    counter: &'a Counter,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: Held,
    /// Somebody flushes it when h2 rests.
    is_flushed: bool,
    /// h2 has more to write, and waits for the connection.
    waits: bool,
}

thread_local! {
    /// Memory that waits for its next use: connections take turns, and most send all that they have
    /// gathered before another one begins.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes, of which the first ones may be written already.
#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    written: usize,
}

impl Held {
    fn left(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    fn add(&mut self, buffers: &[IoSlice<'_>]) {
        if self.bytes.capacity() == 0 {
            // A thread whose locals are gone has none.
            self.bytes = SPARE.try_with(Cell::take).unwrap_or_default();
            self.bytes.reserve_exact(GATHERED_MAX);
        } else if self.bytes.capacity() < GATHERED_MAX {
            self.bytes.reserve_exact(GATHERED_MAX - self.bytes.len());
        }
        for buffer in buffers {
            self.bytes.extend_from_slice(buffer);
        }
    }

    /// Drops what was written, and lets the memory go if that was all.
    fn forget(&mut self, written: usize) {
        self.written += written;
        if written > 0 && self.written == self.bytes.len() {
            give_back(std::mem::take(self).bytes);
        }
    }

    /// Keeps no more memory than it needs, for a peer that takes nothing for now.
    fn shrink(&mut self) {
        if self.written == 0 && self.bytes.capacity() == self.bytes.len() {
            return;
        }
        let bytes = self.left().to_vec();
        let before = std::mem::replace(self, Self { bytes, written: 0 });
        give_back(before.bytes);
    }
}

fn give_back(mut bytes: Vec<u8>) {
    if bytes.capacity() == GATHERED_MAX {
        bytes.clear();
        // A thread whose locals are gone needs none.
        let _ = SPARE.try_with(|spare| spare.set(bytes));
    }
}

impl<'a> Gather<'a> {
    /// Passes everything on, until [`begin`](Self::begin).
    pub(super) fn new(stream: &'a Stream, line: &Arc<Line>, counter: &'a Counter) -> Self {
        Self {
            stream,
            line: Arc::clone(line),
            counter,
            state: Mutex::default(),
        }
    }

    /// Gathers from now on. Whenever h2 rests, [`poll_rest`](Self::poll_rest) has to be called.
    pub(super) fn begin(&self) {
        self.state().is_flushed = true;
    }

    /// Takes some of it.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub(super) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        let taken = self.take(&mut state, cx, buffers);
        state.waits = taken.is_pending();
        taken
    }

    fn take(
        &self,
        state: &mut State,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let State {
            held, is_flushed, ..
        } = state;
        let len: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let all = held.bytes.len() + len;
        // What is gathered are heads, too, so if nothing follows there is less to come. TLS takes
        // one piece at a time.
        let goes_on = self.line.to_come() > all || self.stream.plain().is_none();
        if *is_flushed && goes_on && all <= GATHERED_MAX {
            held.add(buffers);
            return Poll::Ready(Ok(len));
        }
        loop {
            let written = if held.left().is_empty() {
                self.put(cx, buffers)
            } else {
                let mut pieces = [IoSlice::new(&[]); 1 + PIECES];
                pieces[0] = IoSlice::new(held.left());
                for (piece, buffer) in pieces[1..].iter_mut().zip(buffers) {
                    *piece = IoSlice::new(buffer);
                }
                self.put(cx, &pieces)
            };
            let written = ready!(written)?;
            let of_held = written.min(held.left().len());
            held.forget(of_held);
            // Nothing is the end, which h2 is to know.
            if written > of_held || written == 0 {
                return Poll::Ready(Ok(written - of_held));
            }
        }
    }

    /// Sends what is gathered. Ready when all that h2 has had to write is on its way.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        let State { held, waits, .. } = &mut *state;
        while !held.left().is_empty() {
            let Poll::Ready(written) = self.put(cx, &[IoSlice::new(held.left())]) else {
                held.shrink();
                return Poll::Pending;
            };
            let written = written?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            held.forget(written);
        }
        if *waits {
            // Its attempt to write has seen to it that it is woken.
            self.line.blocked();
            return Poll::Pending;
        }
        let mut stream = self.stream;
        let flushed = Pin::new(&mut stream).poll_flush(cx);
        match flushed {
            Poll::Ready(Ok(())) => self.line.written(0),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.line.blocked(),
        }
        flushed
    }

    /// h2 has nothing to do for now. Sends what is gathered, and notes it if all is written then.
    /// Ready if the connection is broken.
    pub(super) fn poll_rest(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.poll_flush(cx) {
            Poll::Ready(Ok(())) => {
                self.line.rests();
                Poll::Pending
            }
            Poll::Ready(Err(_)) => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Has the account of the connection know what the peer has taken; see [`Line::holds`].
    pub(super) fn look(&self, rate: u64) -> Queue {
        let queued = self.stream.socket().send_queue();
        self.line.holds(queued, NonZeroU64::new(rate))
    }

    /// As [`poll_flush`](Self::poll_flush), for h2, which flushes after each frame.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub(super) fn poll_flush_frame(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state().is_flushed {
            return Poll::Ready(Ok(()));
        }
        self.poll_flush(cx)
    }

    /// Writes to the connection.
    fn put(&self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut stream = self.stream;
        let written = Pin::new(&mut stream).poll_write_vectored(cx, pieces);
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.line.written(bytes);
                self.counter.add(bytes as u64);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.line.blocked(),
        }
        written
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Bytes, which no panic can leave half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Read;
    use std::os::unix::net::UnixStream as Peer;
    use std::task::Waker;
    use std::time::Duration;

    use evenkeel::net::UnixStream;
    use evenkeel::runtime::Runtime;
    use evenkeel::task::yield_now;
    use evenkeel::time::timeout;
    use nix::sys::socket::{setsockopt, sockopt};
    use proptest::prelude::*;

    use super::super::held::All;
    use super::*;
    use crate::socket::Socket;

    /// A connection with so many bytes of bodies to come, and its peer.
    struct Pair {
        stream: Stream,
        peer: Peer,
        line: Arc<Line>,
        all: Arc<All>,
        counter: Counter,
    }

    impl Pair {
        fn new(to_come: usize) -> Self {
            let (ours, peer) = Peer::pair().unwrap();
            let ours = UnixStream::from_std(ours).unwrap();
            peer.set_nonblocking(true).unwrap();
            let all = Arc::new(All::new(usize::MAX));
            let line = Arc::new(Line::new(&all, usize::MAX));
            line.given(to_come);
            Self {
                stream: Stream::Plain(Socket::Unix(ours)),
                peer,
                line,
                all,
                counter: Counter::default(),
            }
        }

        fn gather(&self) -> Gather<'_> {
            let gather = Gather::new(&self.stream, &self.line, &self.counter);
            gather.begin();
            gather
        }

        /// What has come, without waiting.
        fn came(&self) -> Vec<u8> {
            let mut came = Vec::new();
            let end = (&self.peer).read_to_end(&mut came);
            assert_eq!(end.unwrap_err().kind(), io::ErrorKind::WouldBlock);
            came
        }
    }

    fn write(gather: &Gather<'_>, pieces: &[&[u8]]) -> Poll<io::Result<usize>> {
        let pieces: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        gather.poll_write(&mut Context::from_waker(Waker::noop()), &pieces)
    }

    fn taken(written: Poll<io::Result<usize>>) -> Option<usize> {
        match written {
            Poll::Ready(written) => Some(written.unwrap()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn frames_go_out_with_the_last_that_is_to_come() {
        Runtime::new().unwrap().block_on(async {
            let pair = Pair::new(3_000);
            let gather = pair.gather();
            for frame in [[1; 1_000], [2; 1_000]] {
                assert_eq!(taken(write(&gather, &[b"head", &frame])), Some(1_004));
                let flushed = gather.poll_flush_frame(&mut Context::from_waker(Waker::noop()));
                assert!(flushed.is_ready());
                assert!(pair.came().is_empty(), "there is more to come");
                assert_eq!(pair.counter.total(), 0);
            }
            assert_eq!(taken(write(&gather, &[b"head", &[3; 1_000]])), Some(1_004));
            let mut expected = Vec::new();
            for frame in 1..=3 {
                expected.extend_from_slice(b"head");
                expected.extend_from_slice(&[frame; 1_000]);
            }
            assert!(pair.came() == expected, "all in order");
            assert_eq!((pair.counter.total(), pair.all.held()), (3_012, 0));
        });
    }

    #[test]
    fn what_is_alone_or_not_flushed_is_not_gathered() {
        Runtime::new().unwrap().block_on(async {
            let pair = Pair::new(5);
            assert_eq!(taken(write(&pair.gather(), &[b"h", b"bytes"])), Some(6));
            assert_eq!(pair.came(), b"hbytes");
            // A frame that is no body.
            assert_eq!(taken(write(&pair.gather(), &[b"ping"])), Some(4));
            assert_eq!(pair.came(), b"ping");
            let pair = Pair::new(1_000);
            let gather = Gather::new(&pair.stream, &pair.line, &pair.counter);
            assert_eq!(taken(write(&gather, &[b"bytes"])), Some(5));
            assert_eq!(pair.came(), b"bytes");
        });
    }

    #[test]
    fn what_waits_goes_out_when_it_is_flushed() {
        Runtime::new().unwrap().block_on(async {
            let pair = Pair::new(1_000);
            let gather = pair.gather();
            assert_eq!(taken(write(&gather, &[b"bytes"])), Some(5));
            assert!(pair.came().is_empty());
            poll_fn(|cx| gather.poll_flush(cx)).await.unwrap();
            assert_eq!(pair.came(), b"bytes");
        });
    }

    fn flush(gather: &Gather<'_>) -> Poll<io::Result<()>> {
        gather.poll_flush(&mut Context::from_waker(Waker::noop()))
    }

    /// Fills the socket.
    fn fill(pair: &Pair) {
        let gather = Gather::new(&pair.stream, &pair.line, &pair.counter);
        while write(&gather, &[&[0; 10_000]]).is_ready() {}
        pair.line.written(0);
    }

    #[test]
    fn what_h2_cannot_write_is_not_taken_for_written() {
        Runtime::new().unwrap().block_on(async {
            let pair = Pair::new(0);
            fill(&pair);
            let gather = pair.gather();
            pair.line.given(1_000);
            assert!(write(&gather, &[b"head", &[1; 1_000]]).is_pending());
            // Nothing is gathered, and it waits all the same.
            assert!(flush(&gather).is_pending());
            pair.line.rests();
            assert_eq!(pair.all.held(), 1_000);
            yield_now().await;
            assert!(pair.line.stood() > Duration::ZERO);
            let came = pair.came();
            let sent = async {
                while taken(write(&gather, &[b"head", &[1; 1_000]])).is_none() {
                    yield_now().await;
                }
            };
            timeout(Duration::from_secs(20), sent)
                .await
                .expect("there is room");
            assert!(flush(&gather).is_ready());
            pair.line.rests();
            assert!(pair.came().ends_with(&[1; 1_000]) && !came.ends_with(&[1]));
            assert_eq!((pair.all.held(), pair.line.stood()), (0, Duration::ZERO));
        });
    }

    #[test]
    fn who_takes_nothing_costs_no_more_than_what_is_held() {
        Runtime::new().unwrap().block_on(async {
            let pair = Pair::new(0);
            fill(&pair);
            pair.line.given(1_000);
            let gather = pair.gather();
            assert_eq!(taken(write(&gather, &[&[1; 100]])), Some(100));
            assert!(flush(&gather).is_pending());
            assert!(gather.state().held.bytes.capacity() < 1_000);
            // More goes behind it.
            assert_eq!(taken(write(&gather, &[&[2; 100]])), Some(100));
            pair.came();
            let sent = async {
                while flush(&gather).is_pending() {
                    yield_now().await;
                }
            };
            timeout(Duration::from_secs(20), sent)
                .await
                .expect("there is room");
            assert_eq!(pair.came(), [[1; 100], [2; 100]].concat());
        });
    }

    #[test]
    fn what_goes_out_in_parts_goes_out_once() {
        Runtime::new().unwrap().block_on(async {
            let pair = Pair::new(60_000);
            // The socket has no room for all of it.
            let Stream::Plain(Socket::Unix(ours)) = &pair.stream else {
                unreachable!("it was made of one")
            };
            setsockopt(ours, sockopt::SndBuf, &10_000).unwrap();
            let gather = pair.gather();
            let frame: Vec<u8> = (0..50_000_usize).map(|at| (at % 251) as u8).collect();
            assert_eq!(taken(write(&gather, &[&frame])), Some(50_000));
            let mut came = Vec::new();
            let sent = async {
                // A little room at a time.
                while flush(&gather).is_pending() {
                    let mut some = [0; 1_000];
                    let read = (&pair.peer).read(&mut some).unwrap_or(0);
                    came.extend_from_slice(&some[..read]);
                    yield_now().await;
                }
            };
            timeout(Duration::from_secs(20), sent)
                .await
                .expect("there is room");
            came.extend(pair.came());
            assert!(came == frame, "{} bytes", came.len());
        });
    }

    #[test]
    fn no_more_is_gathered_than_the_limit() {
        Runtime::new().unwrap().block_on(async {
            let pair = Pair::new(1 << 20);
            let gather = pair.gather();
            let mut gathered = 0;
            while pair.came().is_empty() {
                gathered += taken(write(&gather, &[&[0; 10_000]])).unwrap();
                assert!(gathered <= GATHERED_MAX + 10_000, "{gathered}");
            }
        });
    }

    proptest! {
        #[test]
        fn everything_comes_in_its_order(
            frames in prop::collection::vec((0..40_000_usize, any::<bool>(), any::<bool>()), 1..40),
            to_come in 0..800_000_usize,
        ) {
            let sends = async {
                let pair = Pair::new(to_come);
                let (mut sent, mut came) = (Vec::new(), Vec::new());
                let gather = pair.gather();
                for (number, (len, flushes, reads)) in frames.into_iter().enumerate() {
                    let mut left = vec![number as u8; 9];
                    left.extend((0..len).map(|at| (at * 31 + number) as u8));
                    sent.extend_from_slice(&left);
                    while !left.is_empty() {
                        let (head, frame) = left.split_at(left.len().min(9));
                        match taken(write(&gather, &[head, frame])) {
                            Some(written) => drop(left.drain(..written)),
                            None => {
                                came.extend(pair.came());
                                yield_now().await;
                            }
                        }
                    }
                    if flushes {
                        let mut cx = Context::from_waker(Waker::noop());
                        let _ = gather.poll_flush(&mut cx);
                    }
                    if reads {
                        came.extend(pair.came());
                    }
                }
                let read = async {
                    while came.len() < sent.len() {
                        came.extend(pair.came());
                        yield_now().await;
                    }
                };
                let (flushed, ()) = tokio::join!(poll_fn(|cx| gather.poll_flush(cx)), read);
                flushed.unwrap();
                assert!(came == sent, "the same bytes");
                assert_eq!(pair.counter.total(), sent.len() as u64);
            };
            let sends = timeout(Duration::from_secs(20), sends);
            Runtime::new().unwrap().block_on(sends).expect("all has come");
        }
    }
}
