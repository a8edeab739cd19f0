//! Connections for a client of HTTP.
//!
//! A name may have addresses of two families, of which one may be out of order. They are tried in
//! turn, one family after the other, each a moment after the one before and while that goes on, as
//! RFC 8305 ("Happy Eyeballs") has it. The first connection is taken.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ::hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower_service::Service;

use super::sockets::TcpStream;
use crate::net::lookup_host;
use crate::time::{sleep, timeout};

/// How long an attempt has before the next one begins beside it: what RFC 8305 recommends.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// The default of [`Connector::connect_timeout`].
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Makes connections for the client of the crate hyper-util, on this runtime's sockets.
///
/// Names are looked up on a thread for blocking work. If a name has several addresses, they are
/// tried one after the other, a new one each 250 ms or as soon as one fails, and the first that
/// answers is taken.
///
/// It connects to URIs of the scheme `http`. For `https`, put a connector with TLS around it that
/// is generic over its inner one.
///
/// # Errors
///
/// Of a connection: the URI has no host or another scheme (`InvalidInput`), the name is unknown, no
/// address answers (the error of the last attempt), or the time is up (`TimedOut`).
///
/// # Examples
///
/// ```
/// use evenkeel::hyper::{Connector, Executor, Timer};
/// use http_body_util::Empty;
/// use hyper::body::Bytes;
/// use hyper_util::client::legacy::Client;
///
/// let client: Client<_, Empty<Bytes>> = Client::builder(Executor)
///     .timer(Timer)
///     .pool_timer(Timer)
///     .build(Connector::new());
/// ```
#[derive(Clone, Debug)]
pub struct Connector {
    connect_timeout: Option<Duration>,
}

impl Default for Connector {
    fn default() -> Self {
        Self::new()
    }
}

impl Connector {
    /// A connector with a limit of ten seconds.
    pub fn new() -> Self {
        Self {
            connect_timeout: Some(CONNECT_TIMEOUT),
        }
    }

    /// Sets how long a connection may take, the lookup of the name and all attempts included;
    /// `None` for no limit. Default: 10 seconds.
    pub fn connect_timeout(mut self, limit: Option<Duration>) -> Self {
        self.connect_timeout = limit;
        self
    }
}

impl Service<Uri> for Connector {
    type Response = TcpStream;
    type Error = io::Error;
    type Future = Connecting;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        let limit = self.connect_timeout;
        Box::pin(async move {
            let connect = connect(uri);
            match limit {
                None => connect.await,
                Some(limit) => timeout(limit, connect).await?,
            }
        })
    }
}

impl Connection for TcpStream {
    fn connected(&self) -> Connected {
        let connected = Connected::new();
        match self.peer_addr() {
            Ok(peer) => connected.extra(peer),
            Err(_) => connected,
        }
    }
}

async fn connect(uri: Uri) -> io::Result<TcpStream> {
    let (host, port) = target(&uri)?;
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    let attempt = |address| Box::pin(TcpStream::connect(address));
    let stream = first_of(in_turn(addresses), attempt).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The host and the port of a URI.
fn target(uri: &Uri) -> io::Result<(&str, u16)> {
    let refuse = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
    if uri.scheme_str().is_some_and(|scheme| scheme != "http") {
        let message = format!("`{uri}` is not of the scheme `http`: it needs a connector with TLS");
        return Err(refuse(message));
    }
    let Some(host) = uri.host() else {
        return Err(refuse(format!("`{uri}` has no host to connect to")));
    };
    // An IPv6 address has brackets in a URI alone.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok((host, uri.port_u16().unwrap_or(80)))
}

/// The addresses, of one family and of the other in turn; the family of the first goes first, as
/// the system has sorted them.
fn in_turn(addresses: Vec<SocketAddr>) -> VecDeque<SocketAddr> {
    let is_six = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut second): (VecDeque<_>, VecDeque<_>) =
        (addresses.into_iter()).partition(|address| address.is_ipv6() == is_six);
    let mut all = VecDeque::new();
    while !first.is_empty() || !second.is_empty() {
        all.extend(first.pop_front());
        all.extend(second.pop_front());
    }
    all
}

/// The first attempt that succeeds, or the error of the last.
async fn first_of<F, T>(
    mut addresses: VecDeque<SocketAddr>,
    mut attempt: impl FnMut(SocketAddr) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>> + Unpin,
{
    let mut attempts: Vec<F> = addresses
        .pop_front()
        .map(&mut attempt)
        .into_iter()
        .collect();
    let mut next = sleep(ATTEMPT_DELAY);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    poll_fn(|cx| {
        loop {
            let mut failed = false;
            for index in (0..attempts.len()).rev() {
                match Pin::new(&mut attempts[index]).poll(cx) {
                    Poll::Pending => {}
                    Poll::Ready(Ok(done)) => return Poll::Ready(Ok(done)),
                    Poll::Ready(Err(error)) => {
                        last = io::Error::new(error.kind(), error);
                        drop(attempts.swap_remove(index));
                        failed = true;
                    }
                }
            }
            let is_due = failed || next.poll_elapsed(cx).is_ready();
            match addresses.front().copied() {
                Some(address) if is_due => {
                    addresses.pop_front();
                    attempts.push(attempt(address));
                    next = sleep(ATTEMPT_DELAY);
                }
                None if attempts.is_empty() => {
                    let none = io::Error::from(io::ErrorKind::NotFound);
                    return Poll::Ready(Err(std::mem::replace(&mut last, none)));
                }
                _ => return Poll::Pending,
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::runtime::Builder;
    use crate::time::Instant;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn families_are_tried_in_turn() {
        let sorted = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "1.1.1.2:1"];
        let turns = ["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "[::3]:1"];
        assert_eq!(in_turn(addresses(&sorted)), addresses(&turns));
        assert_eq!(in_turn(addresses(&sorted[3..])), addresses(&sorted[3..]));
        assert!(in_turn(Vec::new()).is_empty());
    }

    #[test]
    fn a_uri_says_where_to_connect() {
        for (uri, expected) in [
            ("http://a.test/b", Ok(("a.test", 80))),
            ("http://a.test:81", Ok(("a.test", 81))),
            ("http://[::1]:81/", Ok(("::1", 81))),
            ("https://a.test", Err("TLS")),
            ("/b", Err("no host")),
        ] {
            let uri: Uri = uri.parse().unwrap();
            match (target(&uri), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(error), Err(expected)) => {
                    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
                    assert!(error.to_string().contains(expected), "{error}");
                }
                (found, _) => panic!("{uri}: {found:?}"),
            }
        }
    }

    /// Attempts by port: 1 fails at once, 2 after a moment, 3 never ends, and others answer with
    /// their port, those from 1000 on after a second.
    async fn attempted(ports: &[u16]) -> (io::Result<u16>, Duration) {
        let began = Instant::now();
        let to = |port: &u16| SocketAddr::from(([127, 0, 0, 1], *port));
        let addresses = ports.iter().map(to).collect();
        type Attempt = Pin<Box<dyn Future<Output = io::Result<u16>>>>;
        let attempt = |address: SocketAddr| -> Attempt {
            Box::pin(async move {
                match address.port() {
                    1 => return Err(io::ErrorKind::ConnectionRefused.into()),
                    2 => {
                        sleep(Duration::from_millis(10)).await;
                        return Err(io::ErrorKind::HostUnreachable.into());
                    }
                    3 => pending().await,
                    1000.. => sleep(Duration::from_secs(1)).await,
                    _ => {}
                }
                Ok(address.port())
            })
        };
        let first = first_of(addresses, attempt).await;
        (first, began.elapsed())
    }

    #[test]
    fn the_first_that_answers_is_taken() {
        let runtime = Builder::new().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let ms = Duration::from_millis;
            for (ports, port, took) in [
                (&[4, 5][..], 4, ms(0)),
                (&[1, 1, 5], 5, ms(0)),
                (&[2, 5], 5, ms(10)),
                // One that does not answer holds up the next by the delay.
                (&[3, 5], 5, ms(250)),
                (&[3, 3, 2, 5], 5, ms(510)),
                // The next one is no reason to give up the one before.
                (&[1000, 3, 3], 1000, ms(1000)),
                (&[3, 1000], 1000, ms(1250)),
            ] {
                let (first, time) = attempted(ports).await;
                assert_eq!((first.unwrap(), time), (port, took), "{ports:?}");
            }
            let kind = async |ports| attempted(ports).await.0.unwrap_err().kind();
            assert_eq!(kind(&[]).await, io::ErrorKind::NotFound);
            assert_eq!(kind(&[1]).await, io::ErrorKind::ConnectionRefused);
            assert_eq!(kind(&[1, 2]).await, io::ErrorKind::HostUnreachable);
        });
    }
}
