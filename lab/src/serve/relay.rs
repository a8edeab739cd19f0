//! The TCP proxy, which is the plainest relay, and the relay: one whose connections change class
//! when they turn out to carry much.
//!
//! A connection is accepted, connected onwards and carried in the class of the relay. One that has
//! moved more than so many bytes goes on in a fresh task of the class for bulk: what it is shows in
//! what it does, so that no protocol has to be understood. Bytes pass unchanged, and an end of one
//! direction is passed on while the other still carries.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::platform::Platform;

/// Bytes under way in each direction: at first, and once a connection is known to carry much.
const LIGHT_LEN: usize = 16 * 1024;
const BULK_LEN: usize = 128 * 1024;

/// Where connections lead, and when they become bulk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route<C> {
    pub(crate) target: SocketAddr,
    /// The class for bulk; `None` leaves every connection where it is.
    pub(crate) bulk: Option<C>,
    /// Bytes after which a connection belongs there.
    pub(crate) bulk_after: u64,
}

/// The TCP proxy: every connection gets one of its own to the target, and bytes go both ways.
pub(crate) async fn proxy<P: Platform>(mut client: P::Stream, target: SocketAddr) {
    static COMPLAINED: Once = Once::new();
    if let Some(mut server) = onwards::<P>("proxy", target, &COMPLAINED).await {
        // Either side may break off as it likes; the other then sees its connection closed.
        drop(tokio::io::copy_bidirectional(&mut client, &mut server).await);
    }
}

/// A connection to where a service leads; `None` where nobody answers.
async fn onwards<P: Platform>(
    service: &str,
    target: SocketAddr,
    complained: &Once,
) -> Option<P::Stream> {
    let complain = |error: &io::Error| {
        let say = || eprintln!("{service}: cannot connect to {target}: {error} (said once)");
        complained.call_once(say);
    };
    P::connect(target).await.inspect_err(complain).ok()
}

pub(crate) async fn connection<P: Platform>(client: P::Stream, route: Route<P::Class>) {
    static COMPLAINED: Once = Once::new();
    let Some(server) = onwards::<P>("relay", route.target, &COMPLAINED).await else {
        return;
    };
    let mut pair = Pair::new(client, server);
    let limit = route.bulk.map_or(u64::MAX, |_| route.bulk_after);
    // Either side may break off as it likes; the other then sees its connection closed.
    if let Ok(Carried::Much) = pair.carry(limit).await {
        P::spawn_in(route.bulk, "relay, bulk", async move {
            let mut pair = pair.widen(BULK_LEN);
            let _ = pair.carry(u64::MAX).await;
        });
    }
}

/// Two connections, each of which gets what the other brings.
struct Pair<S> {
    client: S,
    server: S,
    there: Half,
    back: Half,
}

/// Why carrying came to an end.
#[derive(Debug, PartialEq, Eq)]
enum Carried {
    /// Both directions have ended.
    All,
    /// More than the limit was moved. Nothing is lost: carrying can go on.
    Much,
}

/// One direction.
#[derive(Default)]
struct Half {
    buffer: Vec<u8>,
    /// What was read and not yet written.
    from: usize,
    to: usize,
    moved: u64,
    /// The reader's end has come; then it has been passed on.
    ended: bool,
    over: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Pair<S> {
    fn new(client: S, server: S) -> Self {
        Pair {
            client,
            server,
            there: Half::default(),
            back: Half::default(),
        }
        .widen(LIGHT_LEN)
    }

    /// Room for so much under way.
    fn widen(mut self, len: usize) -> Self {
        for half in [&mut self.there, &mut self.back] {
            half.buffer.resize(len, 0);
        }
        self
    }

    /// Carries until both directions have ended, or more than `limit` bytes were moved.
    ///
    /// # Errors
    /// When either connection breaks; both are then of no use.
    async fn carry(&mut self, limit: u64) -> io::Result<Carried> {
        poll_fn(|cx| self.poll_carry(cx, limit)).await
    }

    fn poll_carry(&mut self, cx: &mut Context<'_>, limit: u64) -> Poll<io::Result<Carried>> {
        let Pair {
            client,
            server,
            there,
            back,
        } = self;
        // Each direction gets as far as it can: what is left waits for one of the two to be woken.
        let there_over = there.poll_advance(cx, client, server, limit)?;
        let back_over = back.poll_advance(cx, server, client, limit)?;
        if there.moved.saturating_add(back.moved) > limit {
            return Poll::Ready(Ok(Carried::Much));
        }
        match (there_over, back_over) {
            (Poll::Ready(()), Poll::Ready(())) => Poll::Ready(Ok(Carried::All)),
            _ => Poll::Pending,
        }
    }
}

impl Half {
    /// Ready when this direction is over, or has moved more than `limit`.
    fn poll_advance<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut S,
        writer: &mut S,
        limit: u64,
    ) -> Poll<io::Result<()>> {
        while !self.over && self.moved <= limit {
            if self.from < self.to {
                let rest = &self.buffer[self.from..self.to];
                let len = ready!(Pin::new(&mut *writer).poll_write(cx, rest))?;
                if len == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.from += len;
                self.moved += len as u64;
            } else if self.ended {
                ready!(Pin::new(&mut *writer).poll_shutdown(cx))?;
                self.over = true;
            } else {
                let mut buffer = ReadBuf::new(&mut self.buffer);
                ready!(Pin::new(&mut *reader).poll_read(cx, &mut buffer))?;
                (self.from, self.to) = (0, buffer.filled().len());
                self.ended = self.to == 0;
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    fn run(test: impl Future<Output = ()>) {
        /// Reaching it is a failure: something waits for an end that was not passed on.
        const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().expect("a runtime");
        let in_time = runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await });
        in_time.expect("all ends in time");
    }

    #[test]
    fn an_end_is_passed_on_while_the_other_direction_carries() {
        run(async {
            let ((mut client, near), (far, mut server)) = (duplex(64), duplex(64));
            let mut pair = Pair::new(near, far);
            let both = async {
                client.write_all(b"a question").await.expect("written");
                client.shutdown().await.expect("ended");
                let mut asked = String::new();
                server
                    .read_to_string(&mut asked)
                    .await
                    .expect("its end came");
                assert_eq!(asked, "a question");
                server.write_all(b"an answer").await.expect("written");
                drop(server);
                let mut answer = String::new();
                client
                    .read_to_string(&mut answer)
                    .await
                    .expect("its end came");
                assert_eq!(answer, "an answer");
            };
            let (carried, ()) = tokio::join!(pair.carry(u64::MAX), both);
            assert_eq!(carried.expect("nothing broke"), Carried::All);
        });
    }

    #[test]
    fn much_is_carried_on_without_a_byte_lost() {
        run(async {
            // What is read at once is written in parts: the limit falls into the middle of it.
            let ((mut client, near), (far, mut server)) = (duplex(1_000), duplex(300));
            let sent: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
            let mut pair = Pair::new(near, far);
            let relay = async {
                assert_eq!(pair.carry(50_000).await.expect("carried"), Carried::Much);
                let mut pair = pair.widen(BULK_LEN);
                assert_eq!(pair.carry(u64::MAX).await.expect("carried"), Carried::All);
            };
            let write = async {
                client.write_all(&sent).await.expect("written");
                client.shutdown().await.expect("ended");
            };
            let read = async {
                let mut got = Vec::new();
                server.read_to_end(&mut got).await.expect("its end came");
                server.shutdown().await.expect("ended");
                assert!(got == sent);
            };
            tokio::join!(relay, write, read);
        });
    }
}
