//! Batches of records on one connection.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::{Answer, Asked, unexpected};
use crate::error::ClientError;
use crate::frame::{Batched, Produced, Response};

/// Records that are stored with numbers in a row, all or none; for
/// [`Client::submit_batch`](crate::Client::submit_batch).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The records, in their order.
    pub records: Batched,
    /// The number that the first one is to get; if the log's next number is another one, none is
    /// stored.
    pub expected: Option<u64>,
    /// By which the server knows a batch that it has already stored.
    pub producer: Option<Produced>,
    /// For a batch that the producer may have sent before: a number below which no copy of it can
    /// be, such as the log's next number when the first one was sent. With it, a server that has
    /// forgotten the producer refuses the batch, unless it surely has no copy. Without it, a batch
    /// that begins with the producer's number 0 is taken for a new producer's.
    pub not_before: Option<u64>,
}

impl Batch {
    /// These records, with whatever numbers come next.
    pub fn new<R: AsRef<[u8]>>(records: impl IntoIterator<Item = R>) -> Self {
        Self {
            records: records.into_iter().collect(),
            ..Self::default()
        }
    }
}

/// Where the records of a batch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// The number of the first one; those of the others follow.
    pub first: u64,
    /// How many there are.
    pub count: u32,
    /// Whether they had been stored before, and the producer has repeated them.
    pub repeated: bool,
}

/// A pending batch; completes with its numbers when it is durable.
#[must_use = "whether the records are durable is not known before this completes"]
pub struct SubmittedBatch {
    pub(super) asked: Asked,
    pub(super) answer: oneshot::Receiver<Answer>,
}

impl Future for SubmittedBatch {
    type Output = Result<Stored, ClientError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let submitted = self.get_mut();
        let answered = ready!(Pin::new(&mut submitted.answer).poll(cx));
        Poll::Ready(match submitted.asked.answered(answered) {
            Ok(Response::Stored {
                first,
                count,
                repeated,
                ..
            }) => Ok(Stored {
                first,
                count,
                repeated,
            }),
            Ok(other) => Err(unexpected(&other)),
            Err(error) => Err(error),
        })
    }
}

impl fmt::Debug for SubmittedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmittedBatch").finish_non_exhaustive()
    }
}
