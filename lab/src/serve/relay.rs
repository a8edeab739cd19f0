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
use std::sync::{Arc, Once};
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};

use super::platform::Platform;
use super::stats::Count;

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
    let limit = route.bulk.map_or(u64::MAX, |_| route.bulk_after);
    let moved = Arc::default();
    let mut carrying = Box::pin(carry::<P, _>(client, server, Arc::clone(&moved), limit));
    if is_much(carrying.as_mut(), &moved, limit).await {
        // What is under way moves along, so that nothing is lost.
        P::spawn_in(route.bulk, "relay, bulk", async { drop(carrying.await) });
    }
}

/// Polls a connection until it is over, or has moved more than `limit` bytes; whether it has.
async fn is_much(mut carrying: Pin<&mut impl Future>, moved: &Count, limit: u64) -> bool {
    poll_fn(|cx| match carrying.as_mut().poll(cx) {
        Poll::Pending if moved.read() <= limit => Poll::Pending,
        polled => Poll::Ready(polled.is_pending()),
    })
    .await
}

/// Carries bytes both ways until both have ended, and counts those that were moved.
///
/// # Errors
/// When either connection breaks; both are then of no use. Each side may break off as it likes; the
/// other then sees its connection closed.
async fn carry<P: Platform, S: AsyncRead + AsyncWrite>(
    client: S,
    server: S,
    moved: Arc<Count>,
    limit: u64,
) -> io::Result<()> {
    let (from_client, to_client) = split(client);
    let (from_server, to_server) = split(server);
    tokio::try_join!(
        carry_half::<P>(from_client, to_server, &moved, limit),
        carry_half::<P>(from_server, to_client, &moved, limit),
    )?;
    Ok(())
}

/// One direction. Its end is passed on while the other still carries.
async fn carry_half<P: Platform>(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    moved: &Count,
    limit: u64,
) -> io::Result<()> {
    let mut buffer = vec![0; LIGHT_LEN];
    while let len @ 1.. = reader.read(&mut buffer).await? {
        writer.write_all(&buffer[..len]).await?;
        moved.add(len as u64);
        if buffer.len() < BULK_LEN && moved.read() > limit {
            buffer.resize(BULK_LEN, 0);
            // Lets the connection change its class here and now.
            P::yield_now().await;
        }
    }
    writer.shutdown().await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::io::duplex;

    use super::*;
    use crate::serve::Tokio;

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
            let carrying = carry::<Tokio, _>(near, far, Arc::default(), u64::MAX);
            let (carried, ()) = tokio::join!(carrying, both);
            carried.expect("nothing broke");
        });
    }

    #[test]
    fn much_is_carried_on_without_a_byte_lost() {
        run(async {
            // What is read at once is written in parts: the limit falls into the middle of it.
            const LIMIT: u64 = 50_000;
            let ((mut client, near), (far, mut server)) = (duplex(1_000), duplex(300));
            let sent: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
            let moved = Arc::default();
            let mut carrying = pin!(carry::<Tokio, _>(near, far, Arc::clone(&moved), LIMIT));
            let relay = async {
                assert!(is_much(carrying.as_mut(), &moved, LIMIT).await);
                assert!(moved.read() < 2 * LIMIT, "it is handed over at once");
                carrying.await.expect("carried");
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
