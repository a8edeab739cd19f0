//! Answers to a client: to appends in their order, others as soon as they are ready.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use evenkeel::time::timeout;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use txlog_client::frame::Response;

use crate::store::StoreError;

/// How many bytes of answers are gathered for one write.
const WRITE_BYTES: usize = 64 * 1024;

/// An answer that is sent in order.
pub(super) enum Ordered<P> {
    /// An append.
    Append(Append<P>),
    /// An answer that is ready.
    Ready(Response),
}

/// A pending append.
pub(super) struct Append<P> {
    pub(super) id: u64,
    pub(super) record: P,
    /// Its place among the connection's pending appends, until it is answered.
    pub(super) _place: OwnedSemaphorePermit,
}

/// Answers that are still to be sent. Ends when both senders are dropped and all are sent.
pub(super) struct Answers<P> {
    pub(super) ordered: mpsc::Receiver<Ordered<P>>,
    pub(super) others: mpsc::Receiver<Response>,
    /// The append to be answered next. Only this one is polled, so that a batch wakes a connection
    /// once, however many of its appends it contains.
    pub(super) front: Option<Append<P>>,
}

impl<P> Answers<P>
where
    P: Future<Output = Result<u64, StoreError>> + Unpin,
{
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Response>> {
        let others = self.others.poll_recv(cx);
        if let Poll::Ready(Some(response)) = others {
            return Poll::Ready(Some(response));
        }
        if self.front.is_none() {
            match self.ordered.poll_recv(cx) {
                Poll::Ready(Some(Ordered::Append(append))) => self.front = Some(append),
                Poll::Ready(Some(Ordered::Ready(response))) => return Poll::Ready(Some(response)),
                // The others may still come.
                Poll::Ready(None) => return others,
                Poll::Pending => return Poll::Pending,
            }
        }
        let Some(append) = &mut self.front else {
            return Poll::Pending;
        };
        let result = ready!(Pin::new(&mut append.record).poll(cx));
        let id = append.id;
        self.front = None;
        Poll::Ready(Some(match result {
            Ok(sequence) => Response::Appended { id, sequence },
            Err(StoreError { code, text }) => Response::Refused { id, code, text },
        }))
    }

    /// Sends answers as they come, all that are ready in one write.
    pub(super) async fn send(
        mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        stall_max: Duration,
    ) -> io::Result<()> {
        let mut buffer = BytesMut::new();
        while let Some(response) = poll_fn(|cx| self.poll_next(cx)).await {
            response.encode(&mut buffer);
            while buffer.len() < WRITE_BYTES {
                let next = poll_fn(|cx| Poll::Ready(self.poll_next(cx))).await;
                match next {
                    Poll::Ready(Some(response)) => response.encode(&mut buffer),
                    Poll::Ready(None) | Poll::Pending => break,
                }
            }
            match timeout(stall_max, stream.write_all(&buffer)).await {
                Ok(written) => written?,
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
            // The memory of a large answer is not kept for small ones.
            buffer = match buffer.capacity() {
                ..=WRITE_BYTES => {
                    buffer.clear();
                    buffer
                }
                _ => BytesMut::new(),
            };
        }
        Ok(())
    }
}
