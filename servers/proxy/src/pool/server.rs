//! A server of a pool, and the connections to it that wait for the next request.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel::time::Instant;

use crate::config;
use crate::counters::OfServer;
use crate::http::Lines;
use crate::stream::Stream;
use crate::tls::Connector;
use crate::within::Within;

/// A server.
#[derive(Debug)]
pub struct Server {
    /// What the configuration says of it.
    pub config: config::Server,
    /// TLS to it.
    pub tls: Option<Connector>,
    /// What was counted.
    pub counters: OfServer,
    /// What connections to it are given.
    pub(super) within: Within,
    /// Connections of HTTP/2.
    pub lines: Lines,
    idle: Mutex<Keeping>,
}

/// The connections that are kept.
#[derive(Debug, Default)]
struct Keeping {
    streams: Vec<Idle>,
    /// The configuration has it no more, so that nobody would use them.
    is_over: bool,
}

#[derive(Debug)]
struct Idle {
    stream: Stream,
    until: Instant,
}

impl Server {
    pub(super) fn new(config: config::Server, tls: Option<Connector>) -> Self {
        let within = Within::at(&config.address);
        Self {
            config,
            tls,
            within,
            counters: OfServer::default(),
            lines: Lines::default(),
            idle: Mutex::default(),
        }
    }

    /// A connection that waits, the youngest first, as it is the least likely to be closed.
    pub fn reuse(&self) -> Option<Stream> {
        let now = Instant::now();
        loop {
            // Closed without the lock.
            let idle = self.idle().streams.pop()?;
            // What comes before a request is the end, or an answer that nobody has asked for.
            if idle.until > now && idle.stream.is_silent() {
                return Some(idle.stream);
            }
        }
    }

    /// Keeps a connection whose last answer is complete.
    pub fn keep(&self, stream: Stream, keep: Duration, max: usize) {
        let until = Instant::now() + keep;
        let mut idle = self.idle();
        if idle.streams.len() < max && !idle.is_over {
            idle.streams.push(Idle { stream, until });
        } else {
            drop(idle);
            stream.finish_now();
        }
    }

    /// Keeps no more, and closes those that wait. Requests that are under way go on.
    pub fn retire(&self) {
        self.idle().is_over = true;
        self.sweep(true);
    }

    /// Closes those whose time is up, or all. Those of HTTP/2 know their time.
    pub fn sweep(&self, all: bool) {
        if all {
            self.lines.close();
        }
        let now = Instant::now();
        let is_over = |idle: &mut Idle| all || idle.until <= now || !idle.stream.is_silent();
        let over: Vec<Idle> = self.idle().streams.extract_if(.., is_over).collect();
        for idle in over {
            idle.stream.finish_now();
        }
    }

    /// How many wait.
    pub fn idle_connections(&self) -> usize {
        self.idle().streams.len() + self.lines.idle()
    }

    fn idle(&self) -> MutexGuard<'_, Keeping> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::net::UnixStream;
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::socket::Socket;

    const KEEP: Duration = Duration::from_secs(3_600);

    fn server() -> Server {
        Server::new(
            config::Server {
                name: "s".to_owned(),
                address: "127.0.0.1:1".parse().unwrap(),
                weight: 1,
                connections_max: 1,
                send_proxy: None,
                disabled: false,
                backup: false,
                resolve: config::Resolve::First,
                named: None,
            },
            None,
        )
    }

    fn unix(stream: UnixStream) -> Stream {
        Stream::Plain(Socket::Unix(stream))
    }

    #[test]
    fn a_connection_is_used_again_only_while_nothing_has_come() {
        let runtime = evenkeel::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let server = server();
            let (one, _client) = UnixStream::pair().unwrap();
            server.keep(unix(one), KEEP, 8);
            let one = server.reuse().unwrap();
            assert_eq!(server.idle_connections(), 0);
            server.keep(one, KEEP, 8);
            // Closed by the server, and with an answer that nobody has asked for.
            let (closed, end) = UnixStream::pair().unwrap();
            drop(end);
            let (unasked, mut other) = UnixStream::pair().unwrap();
            other.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
            for stream in [closed, unasked] {
                server.keep(unix(stream), KEEP, 8);
            }
            assert!(server.reuse().is_some(), "the one that is silent");
            assert!(server.reuse().is_none());
        });
    }

    #[test]
    fn no_more_are_kept_than_allowed_nor_for_longer() {
        let runtime = evenkeel::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let server = server();
            let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
            let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            for stream in ours {
                server.keep(unix(stream), KEEP, 2);
            }
            assert_eq!(server.idle_connections(), 2);
            server.sweep(false);
            assert_eq!(server.idle_connections(), 2);
            drop(theirs);
            server.sweep(false);
            assert_eq!(server.idle_connections(), 0);
            let (late, _end) = UnixStream::pair().unwrap();
            server.keep(unix(late), Duration::ZERO, 2);
            assert!(server.reuse().is_none());
        });
    }

    #[test]
    fn a_server_that_is_gone_keeps_nothing() {
        let runtime = evenkeel::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let server = server();
            let (early, _one) = UnixStream::pair().unwrap();
            let (late, _two) = UnixStream::pair().unwrap();
            server.keep(unix(early), KEEP, 8);
            server.retire();
            server.keep(unix(late), KEEP, 8);
            assert_eq!(server.idle_connections(), 0);
        });
    }
}
