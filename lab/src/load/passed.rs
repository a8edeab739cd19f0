//! `load origins`: the servers behind a proxy, and `load passed`: clients before it, in a closed
//! loop. Both are those of the proxy's own benchmark, on a thread for each client and connection.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use evenkeel_measure::proxied::clients::{Load, Reached, run as repeat};
use evenkeel_measure::proxied::origins::Origins;
use serde::{Deserialize, Serialize};

use super::args::PassedArgs;
use crate::error::{Error, Result};

/// How often the clients did each, by its flag.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PassedSummary {
    pub(crate) seconds: f64,
    pub(crate) operations: BTreeMap<String, u64>,
}

impl Reached for PassedArgs {
    fn http(&self) -> SocketAddr {
        self.http
    }

    fn tcp(&self) -> SocketAddr {
        self.tcp
    }
}

impl PassedArgs {
    /// What is done, by its flag, and how many clients do it.
    fn loads(&self) -> [(&'static str, Load, u32); 6] {
        [
            ("kept", Load::Kept, self.kept),
            ("closed", Load::Closed, self.closed),
            ("connections", Load::Connection, self.connections),
            ("http-bytes", Load::HttpBytes, self.http_bytes),
            ("http-pieces-bytes", Load::HttpPieces, self.http_pieces),
            ("tcp-bytes", Load::TcpBytes, self.tcp_bytes),
        ]
    }
}

/// Says where the servers are, then `ready`, and serves until its standard input ends.
pub(crate) fn origins() -> Result<()> {
    let no_port = |error| Error::new(format!("cannot listen on the loopback device: {error}"));
    let origins = Origins::start().map_err(no_port)?;
    println!("http {}\nbytes {}\nready", origins.http, origins.bytes);
    // However it ends, whoever wanted them is gone.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}

pub(crate) fn run(args: &PassedArgs) -> Result<PassedSummary> {
    let counts = [const { AtomicU64::new(0) }; 6];
    let begun = Instant::now();
    let end = begun + args.seconds;
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for ((_, load, number), count) in args.loads().into_iter().zip(&counts) {
            for _ in 0..number {
                let client = move || {
                    let mut is_first = true;
                    repeat(args, load, || {
                        // Relaxed: it is read when the thread has been joined.
                        count.fetch_add(u64::from(!is_first), Ordering::Relaxed);
                        is_first = false;
                        Instant::now() < end
                    })
                };
                clients.push(scope.spawn(client));
            }
        }
        clients.into_iter().try_for_each(|client| {
            let ended = client.join().unwrap_or_else(|_| Err("it panicked".into()));
            ended.map_err(|error| Error::new(format!("a client of the proxy: {error}")))
        })
    })?;
    let loads = args.loads().into_iter().zip(counts);
    let loads = loads.filter(|((.., number), _)| *number > 0);
    Ok(PassedSummary {
        seconds: begun.elapsed().as_secs_f64(),
        operations: loads
            .map(|((name, ..), count)| (name.to_owned(), count.into_inner()))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn clients_do_what_they_are_told_and_nothing_else_is_counted() {
        let origins = Origins::start().expect("free ports");
        let args = PassedArgs {
            http: origins.http,
            tcp: origins.bytes,
            kept: 2,
            closed: 0,
            connections: 0,
            http_bytes: 1,
            http_pieces: 1,
            tcp_bytes: 1,
            seconds: Duration::from_millis(20),
        };
        let found = run(&args).expect("the origins answer");
        let names: Vec<&str> = found.operations.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["http-bytes", "http-pieces-bytes", "kept", "tcp-bytes"]
        );
        assert!(
            found.operations.values().all(|&count| count > 0),
            "{found:?}"
        );
        let gone = PassedArgs {
            http: "127.0.0.1:1".parse().expect("an address"),
            ..args
        };
        let error = run(&gone).expect_err("nobody listens").to_string();
        assert!(error.contains("a client of the proxy"), "{error}");
    }
}
