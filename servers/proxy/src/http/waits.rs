//! What a client's connection waits for between requests: their first bytes, for some time, and the
//! end of the proxy.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use crate::server::Taken;
use crate::sessions;
use crate::timer::Timer;

/// Reads the first bytes of a request into the empty buffer; `None` if none come in this time, or,
/// where `may_close`, the proxy ends.
pub(super) fn first(
    timer: &mut Timer,
    taken: &mut Taken,
    limit: Duration,
    may_close: bool,
) -> impl Future<Output = Option<io::Result<usize>>> {
    let mut deadline = None;
    // Not an async function, which has places for what it waits for: most connections are here.
    poll_fn(move |cx| {
        if let Poll::Ready(read) = taken.stream.poll_read_first(&mut taken.buffer, cx) {
            return Poll::Ready(Some(read));
        }
        if may_close && sessions::poll_closing(cx).is_ready() {
            return Poll::Ready(None);
        }
        timer.poll_within(limit, &mut deadline, cx).map(|_| None)
    })
}
