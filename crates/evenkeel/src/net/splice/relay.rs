//! Both directions, or one.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};

use super::error::{TransferError, Way};
use super::flow::{Ends, Flow, Splicer};
use super::meter::{Meter, Moved};
use super::socket::{Borrowed, ByPipe, Socket};
use crate::io::pipes::Lent;

/// Copies bytes between two streams in both directions, until both have ended.
///
/// As `tokio::io::copy_bidirectional`, with a bound on the bytes of one poll and without a buffer
/// for a connection that has no traffic.
///
/// # Errors
///
/// A stream failed; the error says which, doing what, and how many bytes had been written.
///
/// # Cancel safety
///
/// Not cancel safe: see [the module](crate::net::splice#cancel-safety).
pub async fn copy_bidirectional<A, B>(a: &mut A, b: &mut B) -> Result<Moved, TransferError>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    copy_bidirectional_metered(a, b, &Meter::new()).await
}

/// As [`copy_bidirectional`], and counts on `meter`, which may have counted before.
///
/// # Errors
///
/// As [`copy_bidirectional`].
///
/// # Cancel safety
///
/// Not cancel safe: see [the module](crate::net::splice#cancel-safety).
pub async fn copy_bidirectional_metered<A, B>(
    mut a: &mut A,
    mut b: &mut B,
    meter: &Meter,
) -> Result<Moved, TransferError>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    both_ways(&mut a, &mut b, &ByCopy, &ByCopy, meter, false).await
}

/// Moves bytes between two sockets in both directions, until both have ended, on Linux without
/// copying them into the process.
///
/// The sockets are borrowed exclusively, as this is the one waiter in each of their directions.
///
/// # Errors
///
/// A socket failed; the error says which, doing what, and how many bytes had been written.
///
/// # Cancel safety
///
/// Not cancel safe: see [the module](crate::net::splice#cancel-safety).
pub async fn splice_bidirectional<A: Socket, B: Socket>(
    a: &mut A,
    b: &mut B,
) -> Result<Moved, TransferError> {
    splice_bidirectional_metered(a, b, &Meter::new()).await
}

/// As [`splice_bidirectional`], and counts on `meter`, which may have counted before.
///
/// # Errors
///
/// As [`splice_bidirectional`].
///
/// # Cancel safety
///
/// Not cancel safe: see [the module](crate::net::splice#cancel-safety).
pub async fn splice_bidirectional_metered<A: Socket, B: Socket>(
    a: &mut A,
    b: &mut B,
    meter: &Meter,
) -> Result<Moved, TransferError> {
    by_pipes(a, b, meter, false).await
}

/// As [`splice_bidirectional_metered`], for sockets that are closed as soon as it has returned. The
/// end of the direction that ends last is left to that, which spares a system call.
///
/// The sockets are shared, so that one can look at them meanwhile. Nobody else may wait for them,
/// read or write.
///
/// # Errors
///
/// As [`splice_bidirectional`].
///
/// # Cancel safety
///
/// Not cancel safe: see [the module](crate::net::splice#cancel-safety).
pub async fn splice_bidirectional_closing<A: Socket, B: Socket>(
    a: &A,
    b: &B,
    meter: &Meter,
) -> Result<Moved, TransferError> {
    let closes = a.ends_by_closing() && b.ends_by_closing();
    by_pipes(a, b, meter, closes).await
}

async fn by_pipes<A: Socket, B: Socket>(
    a: &A,
    b: &B,
    meter: &Meter,
    closes: bool,
) -> Result<Moved, TransferError> {
    a.watch();
    b.watch();
    let (mut a, mut b) = (Borrowed(a), Borrowed(b));
    both_ways(&mut a, &mut b, &ByPipe, &ByPipe, meter, closes).await
}

/// Moves `len` bytes from one socket to another, or fewer if the stream ends before; on Linux
/// without copying them into the process. Returns how many.
///
/// The end of the stream is not passed on. The sockets' other directions can be used meanwhile;
/// reading from `from` and writing to `to` cannot, as this is the one waiter there.
///
/// # Errors
///
/// A socket failed; the error says which, doing what, and how many bytes had been written.
///
/// # Cancel safety
///
/// Not cancel safe: see [the module](crate::net::splice#cancel-safety).
pub async fn splice<A: Socket, B: Socket>(
    from: &A,
    to: &B,
    len: u64,
) -> Result<u64, TransferError> {
    splice_metered(from, to, len, &Meter::new()).await
}

/// As [`splice`], and counts on `meter`, as [forth](Moved::forth); it may have counted before.
///
/// # Errors
///
/// As [`splice`].
///
/// # Cancel safety
///
/// Not cancel safe: see [the module](crate::net::splice#cancel-safety).
pub async fn splice_metered<A: Socket, B: Socket>(
    from: &A,
    to: &B,
    len: u64,
    meter: &Meter,
) -> Result<u64, TransferError> {
    splice_behind(&[], from, to, len, meter).await
}

/// As [`splice_metered`], behind other bytes, such as the head of a message whose body it moves.
/// They go out with the first that come, in one packet, if those are there, and do not wait for
/// them otherwise. They count as well, on the meter and in what is returned.
///
/// # Errors
///
/// As [`splice`].
///
/// # Cancel safety
///
/// Not cancel safe: see [the module](crate::net::splice#cancel-safety).
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// use evenkeel::net::splice::{Meter, splice_behind};
/// use evenkeel::net::{TcpListener, TcpStream};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let mut sender = TcpStream::connect(listener.local_addr()?).await?;
/// let (from, _) = listener.accept().await?;
/// let mut receiver = TcpStream::connect(listener.local_addr()?).await?;
/// let (to, _) = listener.accept().await?;
///
/// sender.write_all(b"body").await?;
/// let moved = splice_behind(b"head ", &from, &to, 4, &Meter::new()).await?;
/// assert_eq!(moved, 9);
/// let mut got = [0; 9];
/// receiver.read_exact(&mut got).await?;
/// assert_eq!(&got, b"head body");
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub async fn splice_behind<A: Socket, B: Socket>(
    head: &[u8],
    from: &A,
    to: &B,
    len: u64,
    meter: &Meter,
) -> Result<u64, TransferError> {
    let before = meter.moved().forth;
    let mut flow = Flow::of(head, len);
    let mut ends = Ends {
        from: &mut Borrowed(from),
        to: &mut Borrowed(to),
        splicer: &ByPipe,
        meter,
        way: Way::Forth,
        closes: false,
    };
    let done = poll_fn(|cx| flow.poll(cx, &mut ends)).await;
    match done {
        Ok(()) => Ok(meter.moved().forth - before),
        Err(failure) => {
            let (forth, back) = (meter.moved().forth - before, 0);
            Err(TransferError::new(
                Way::Forth,
                failure,
                Moved { forth, back },
            ))
        }
    }
}

/// Both directions. If both are closed right afterwards, the last end is not sent.
async fn both_ways<A, B, S, T>(
    a: &mut A,
    b: &mut B,
    forth: &S,
    back: &T,
    meter: &Meter,
    closes: bool,
) -> Result<Moved, TransferError>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
    S: Splicer<A, B>,
    T: Splicer<B, A>,
{
    let [mut there, mut back_again] = [(); 2].map(|()| Flow::to_the_end());
    let done = poll_fn(|cx| {
        let way = Way::Forth;
        let polled = there.poll(
            cx,
            &mut Ends {
                from: a,
                to: b,
                splicer: forth,
                meter,
                way,
                closes: closes && back_again.has_ended(),
            },
        );
        let went = failed_by(polled, way)?;
        let way = Way::Back;
        let polled = back_again.poll(
            cx,
            &mut Ends {
                from: b,
                to: a,
                splicer: back,
                meter,
                way,
                closes: closes && there.has_ended(),
            },
        );
        let came = failed_by(polled, way)?;
        ready!(went);
        came.map(Ok)
    });
    match done.await {
        Ok(()) => Ok(meter.moved()),
        Err((way, failure)) => Err(TransferError::new(way, failure, meter.moved())),
    }
}

type Failed = (Way, super::error::Failure);

fn failed_by(
    polled: Poll<Result<(), super::error::Failure>>,
    way: Way,
) -> Result<Poll<()>, Failed> {
    match polled {
        Poll::Ready(Ok(())) => Ok(Poll::Ready(())),
        Poll::Ready(Err(failure)) => Err((way, failure)),
        Poll::Pending => Ok(Poll::Pending),
    }
}

/// Copies everything: there are no pipes.
struct ByCopy;

impl<R, W> Splicer<R, W> for ByCopy {
    fn lend(&self, _from: &R) -> Option<Lent> {
        None
    }

    fn poll_fill(
        &self,
        _cx: &mut Context<'_>,
        _from: &R,
        _pipe: &Lent,
        _len: usize,
        _doubts: bool,
    ) -> Poll<io::Result<usize>> {
        unreachable!("there is no pipe")
    }

    fn poll_drain(&self, _cx: &mut Context<'_>, _to: &W, _pipe: &Lent) -> Poll<io::Result<usize>> {
        unreachable!("there is no pipe")
    }

    fn has_closed(&self, _from: &R) -> bool {
        false
    }

    fn poll_put_more(
        &self,
        _cx: &mut Context<'_>,
        _to: &mut W,
        _bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        unreachable!("no end is known in advance")
    }
}
