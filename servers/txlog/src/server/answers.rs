//! Answers to a client: to appends in their order, others as soon as they are ready.

use std::future::{Future, poll_fn};
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use evenkeel::time::timeout;
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use txlog_client::frame::{Code, Response};

use super::counters::LogCounters;
use super::memory::Room;
use super::peers::{Cut, Last, PROGRESS_BYTES, Peer};
use super::queue::{Append, Head, Ordered};
use crate::log::Stored;
use crate::store::StoreError;

/// How many bytes of small answers are gathered for one write. Each connection may hold as many, or
/// twice that, for as long as its client takes none.
const WRITE_BYTES: usize = 16 * 1024;

/// How much of that memory is kept between writes.
const KEPT_BYTES: usize = 4 * 1024;

/// An answer that is sent when it is ready.
pub(super) enum Answer {
    /// A few bytes.
    Small(Response),
    /// An encoded frame, and the memory that it takes until it is written.
    Large(Bytes, Room),
}

/// Answers that are still to be sent. Ends when both senders are dropped and all are sent.
pub(super) struct Answers<P> {
    pub(super) ordered: Head<P>,
    pub(super) others: mpsc::Receiver<Answer>,
    /// The append to be answered next, unless it is in the queue.
    pub(super) front: Option<Append<P>>,
    /// The next answer in order, which became ready during a write.
    pub(super) settled: Option<Response>,
    /// The protocol's version that is spoken.
    pub(super) version: u16,
    pub(super) peer: Arc<Peer>,
    pub(super) counters: Arc<LogCounters>,
    /// How long the client may take for a write.
    pub(super) stall_max: Duration,
}

impl<P> Answers<P>
where
    P: Future<Output = Result<Stored, StoreError>> + Unpin,
{
    /// Sends answers as they come, all small ones that are ready in one write.
    ///
    /// # Errors
    ///
    /// The client is gone, takes too long, or was cut off.
    pub(super) async fn send(mut self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut buffer = BytesMut::new();
        // There was no other answer, and nothing has been waited for since: what comes wakes.
        let mut is_armed = false;
        while let Some(answer) = poll_fn(|cx| match mem::take(&mut is_armed) {
            true => Poll::Pending,
            false => self.poll_next(cx),
        })
        .await
        {
            let (mut next, mut large) = (Some(answer), None);
            while let Some(answer) = next.take() {
                match answer {
                    Answer::Small(response) => {
                        self.counters.answered(&response);
                        response.encode(&mut buffer);
                    }
                    Answer::Large(frame, room) => {
                        self.counters.reads.add(1);
                        self.counters.read_bytes.add(frame.len() as u64);
                        large = Some((frame, room));
                    }
                }
                if large.is_none() && buffer.len() < WRITE_BYTES {
                    next = match poll_fn(|cx| Poll::Ready(self.poll_next(cx))).await {
                        Poll::Ready(next) => next,
                        Poll::Pending => {
                            is_armed = true;
                            None
                        }
                    };
                }
            }
            is_armed &= self.write(stream, &buffer).await?;
            // The memory of many answers is not kept for few.
            match buffer.capacity() {
                ..=KEPT_BYTES => buffer.clear(),
                _ => buffer = BytesMut::new(),
            }
            if let Some((frame, _room)) = large {
                is_armed &= self.write(stream, &frame).await?;
            }
        }
        Ok(())
    }

    /// Writes all of this. Meanwhile the front append is waited for, so that what it has taken is
    /// the store's time and not the client's. Whether all was written without waiting.
    async fn write(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        bytes: &[u8],
    ) -> io::Result<bool> {
        if bytes.is_empty() {
            return Ok(true);
        }
        let peer = Arc::clone(&self.peer);
        let mut writing = pin!(write_all(&peer, stream, bytes));
        if let Poll::Ready(written) = poll_fn(|cx| Poll::Ready(writing.as_mut().poll(cx))).await {
            return written.map(|()| true);
        }
        let mut writing = pin!(timeout(self.stall_max, writing));
        let written = loop {
            let settling = self.settled.is_none();
            tokio::select! {
                biased;
                written = &mut writing => break written,
                cut = peer.cut() => return Err(cut_off(cut)),
                Some(settled) = poll_fn(|cx| self.poll_ordered(cx)), if settling => {
                    self.settled = Some(settled);
                }
            }
        };
        let written = written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        written.map(|()| false)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        let others = self.others.poll_recv(cx);
        if let Poll::Ready(Some(answer)) = others {
            return Poll::Ready(Some(answer));
        }
        if let Some(settled) = self.settled.take() {
            return Poll::Ready(Some(Answer::Small(settled)));
        }
        match self.poll_ordered(cx) {
            // The others may still come.
            Poll::Ready(None) => others,
            ordered => ordered.map(|answer| answer.map(Answer::Small)),
        }
    }

    /// The next answer in order; `None` if there will be no more.
    fn poll_ordered(&mut self, cx: &mut Context<'_>) -> Poll<Option<Response>> {
        if self.front.is_none() {
            match ready!(self.ordered.poll_next(cx)) {
                Some(Ordered::Append(append)) => {
                    if !append.is_front {
                        self.peer.front(append.began);
                    }
                    self.front = Some(append);
                }
                Some(Ordered::Ready(response)) => return Poll::Ready(Some(response)),
                None => return Poll::Ready(None),
            }
        }
        self.poll_front(cx).map(Some)
    }

    fn poll_front(&mut self, cx: &mut Context<'_>) -> Poll<Response> {
        let Some(append) = &mut self.front else {
            return Poll::Pending;
        };
        let Poll::Ready(result) = Pin::new(&mut append.record).poll(cx) else {
            return Poll::Pending;
        };
        let (id, is_batch) = (append.id, append.is_batch);
        let last = last(append.began, result.as_ref().err());
        if result.is_ok() {
            self.counters.durable.observe(last.took);
            self.counters.bytes.add(append.bytes as u64);
        }
        self.peer.ended(last);
        self.front = None;
        Poll::Ready(match result {
            Ok(stored) => stored_as(id, stored, is_batch),
            Err(error) => refused_with(id, self.version, error),
        })
    }
}

fn stored_as(id: u64, stored: Stored, is_batch: bool) -> Response {
    let Stored {
        first,
        count,
        repeated,
    } = stored;
    match is_batch {
        true => Response::Stored {
            id,
            first,
            count,
            repeated,
        },
        false => {
            let sequence = first;
            Response::Appended { id, sequence }
        }
    }
}

/// A refusal with the error's own numbers. Version 1 has none.
pub(super) fn refused_with(id: u64, version: u16, error: StoreError) -> Response {
    let StoreError {
        code,
        text,
        numbers,
    } = error;
    let code = match code {
        Code::LogFailedBefore if version < 3 => Code::LogFailed,
        code => code,
    };
    match numbers.filter(|_| version > 1) {
        None => Response::Refused { id, code, text },
        Some(numbers) => Response::RefusedAt {
            id,
            code,
            numbers,
            text,
        },
    }
}

/// How an append ended that came then. A record that breaks a limit says nothing of the store.
pub(super) fn last(began: Instant, error: Option<&StoreError>) -> Last {
    let ended = Instant::now();
    let failure = error.filter(|error| error.code.is_of_failed_log());
    Last {
        ended,
        took: ended.duration_since(began),
        failure: failure.map(|error| error.text.clone()),
    }
}

/// Writes all bytes, and tells how it goes on when it has to wait.
async fn write_all(
    peer: &Peer,
    stream: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
) -> io::Result<()> {
    let mut progress = Progress {
        peer,
        waits: false,
        since: 0,
    };
    while !bytes.is_empty() {
        let write = |cx: &mut Context<'_>| Pin::new(&mut *stream).poll_write(cx, bytes);
        let written = progress.of(write).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        progress.since += written;
    }
    // TLS may hold back the end of it.
    progress
        .of(|cx| Pin::new(&mut *stream).poll_flush(cx))
        .await?;
    progress.end();
    Ok(())
}

/// How a client takes what is written.
struct Progress<'a> {
    peer: &'a Peer,
    /// Whether it was waited for.
    waits: bool,
    /// How many bytes it has taken since the last time that was told.
    since: usize,
}

impl Progress<'_> {
    async fn of<T>(&mut self, mut part: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
        poll_fn(|cx| {
            let polled = part(cx);
            if polled.is_pending() && (!self.waits || self.since >= PROGRESS_BYTES) {
                (self.waits, self.since) = (true, 0);
                self.peer.sending(Some(Instant::now()));
            }
            polled
        })
        .await
    }

    /// It has taken all.
    fn end(self) {
        if self.waits {
            self.peer.sending(None);
        }
    }
}

fn cut_off(cut: Cut) -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        match cut {
            Cut::Memory => "it took no answers while others waited for memory",
            Cut::Place => "others needed its place",
            Cut::Token => "its token was removed or changed",
        },
    )
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};
    use txlog_client::frame::VERSION;

    use super::super::ServerConfig;
    use super::super::memory::{Memory, connection_bytes};
    use super::super::peers::{Past, Peers};
    use super::super::queue::{Awaited, Tail, queue};
    use super::*;

    type Record = std::future::Ready<Result<Stored, StoreError>>;

    fn answers(peer: &Arc<Peer>) -> (Answers<Record>, Tail<Record>, mpsc::Sender<Answer>) {
        let (tail, ordered) = queue(8, Arc::clone(peer));
        let (sender, others) = mpsc::channel(8);
        let answers = Answers {
            ordered,
            others,
            front: None,
            settled: None,
            version: VERSION,
            peer: Arc::clone(peer),
            counters: Arc::default(),
            stall_max: Duration::from_secs(60),
        };
        (answers, tail, sender)
    }

    fn refused(id: u64) -> Response {
        let (code, text) = (Code::RecordTooLarge, "too large".to_owned());
        Response::Refused { id, code, text }
    }

    /// What it has taken is the store's time and not the client's.
    #[test]
    fn an_append_ends_though_the_client_takes_no_answers() {
        let runtime = evenkeel::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let peers = Arc::new(Peers::new(8, 0));
            let member = peers.join(Instant::now()).unwrap();
            let past = Arc::<Past>::default();
            member.peer.serves(&past);
            let config = ServerConfig::default();
            let memory = Memory::new(&config, connection_bytes(false), (1_000, 0)).unwrap();
            let (answers, tail, sender) = answers(&member.peer);
            let (mut near, _far) = duplex(8);
            let sending = evenkeel::spawn(async move { answers.send(&mut near).await });
            sender.try_send(Answer::Small(refused(1))).unwrap();
            // So that it is being written by then.
            evenkeel::time::sleep(Duration::from_millis(20)).await;
            tail.push(Ordered::Append(Append {
                id: 2,
                record: Awaited::Pending(std::future::ready(Ok(1.into()))),
                bytes: 1,
                is_batch: false,
                began: Instant::now(),
                is_front: false,
                _room: memory.for_append(&member.peer, 1).await,
            }));
            let ended = async {
                while peers.evidence(&past).last.is_none() {
                    evenkeel::time::sleep(Duration::from_millis(1)).await;
                }
            };
            timeout(Duration::from_secs(10), ended)
                .await
                .expect("it is known to have ended");
            assert_eq!(peers.evidence(&past).oldest, None);
            sending.abort();
        });
    }

    #[test]
    fn an_answer_that_comes_while_a_client_takes_another_is_sent_after_it() {
        let runtime = evenkeel::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let peers = Arc::new(Peers::new(8, 0));
            let member = peers.join(Instant::now()).unwrap();
            let (answers, tail, sender) = answers(&member.peer);
            let (mut near, mut far) = duplex(8);
            let sending = evenkeel::spawn(async move { answers.send(&mut near).await });
            let mut expected = BytesMut::new();
            for id in 0..4 {
                refused(id).encode(&mut expected);
                match id % 2 {
                    0 => tail.push(Ordered::Ready(refused(id))),
                    _ => sender.try_send(Answer::Small(refused(id))).unwrap(),
                }
                // So that it is being written when the next one comes.
                evenkeel::time::sleep(Duration::from_millis(20)).await;
                let mut taken = BytesMut::zeroed(expected.len() / 2);
                timeout(Duration::from_secs(60), far.read_exact(&mut taken))
                    .await
                    .expect("it is sent")
                    .unwrap();
                assert_eq!(taken, expected.split_to(taken.len()));
            }
            drop((tail, sender));
            let mut rest = Vec::new();
            far.read_to_end(&mut rest).await.unwrap();
            assert_eq!(rest, expected);
            sending.await.unwrap().unwrap();
        });
    }
}
