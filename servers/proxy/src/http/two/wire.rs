//! What h2 reads and writes: a connection, with its bytes and its useless frames counted.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use evenkeel::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{Frames, Greeting, Rate, Seen};
use super::gather::Gather;
use super::held::Line;
use crate::counters::Counter;
use crate::stream::Stream;

/// A connection as h2 sees it.
#[derive(Debug)]
pub(super) struct Wire<'a> {
    stream: &'a Stream,
    /// What was read of it before.
    begun: BytesMut,
    line: Arc<Line>,
    /// Bytes that come from the peer.
    counter: &'a Counter,
    out: Arc<Gather<'a>>,
    limits: Option<Limits>,
    /// Of a server, until that has come.
    greeting: Option<Greeting>,
}

/// What a client may send of what costs it nothing.
#[derive(Debug)]
pub(super) struct Limits {
    began: Instant,
    frames: Frames,
    resets: Rate,
    controls: Rate,
}

impl Limits {
    /// So many in a second.
    pub(super) fn new(resets_max: usize, controls_max: usize) -> Self {
        Self {
            began: Instant::now(),
            frames: Frames::of_client(),
            resets: Rate::new(resets_max),
            controls: Rate::new(controls_max),
        }
    }

    /// Returns whether what has come is within the limits.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let Self {
            began,
            frames,
            resets,
            controls,
        } = self;
        let mut is_within = true;
        frames.follow(bytes, |seen| {
            let rate = match seen {
                Seen::Reset => &mut *resets,
                Seen::Control => &mut *controls,
            };
            is_within &= rate.one(began.elapsed());
        });
        is_within
    }
}

impl<'a> Wire<'a> {
    /// Of a client, of whom this was read before.
    pub(super) fn of_client(
        stream: &'a Stream,
        begun: BytesMut,
        line: &Arc<Line>,
        counter: &'a Counter,
        out: &Arc<Gather<'a>>,
        limits: Limits,
    ) -> Self {
        Self {
            stream,
            begun,
            line: Arc::clone(line),
            counter,
            out: Arc::clone(out),
            limits: Some(limits),
            greeting: None,
        }
    }

    /// Of a server.
    pub(super) fn of_server(
        stream: &'a Stream,
        line: &Arc<Line>,
        counter: &'a Counter,
        out: &Arc<Gather<'a>>,
    ) -> Self {
        Self {
            stream,
            begun: BytesMut::new(),
            line: Arc::clone(line),
            counter,
            out: Arc::clone(out),
            limits: None,
            greeting: Some(Greeting::default()),
        }
    }
}

impl AsyncRead for Wire<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if self.begun.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        } else {
            let taken = self.begun.len().min(buffer.remaining());
            buffer.put_slice(&self.begun[..taken]);
            self.begun.advance(taken);
            if self.begun.is_empty() {
                self.begun = BytesMut::new();
            }
        }
        let came = &buffer.filled()[before..];
        self.counter.add(came.len() as u64);
        self.line.came(came.len());
        if let Some(greeting) = &mut self.greeting
            && greeting.take(came)
        {
            self.greeting = None;
            self.line.greeted();
        }
        let is_within = match &mut self.limits {
            Some(limits) => limits.take(came),
            None => true,
        };
        if !is_within {
            self.line.flooded.notify_one();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.out.poll_write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.out.poll_write(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.out.poll_flush_frame(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.out.poll_flush(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
