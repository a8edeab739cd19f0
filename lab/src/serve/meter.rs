//! `--work`: how much the hogs have computed, told by a plain thread, so that it is told even while
//! every worker is stuck; and such threads for other services.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::lifetime::announce;
use super::platform::micros;
use super::work::Done;
use crate::error::{Error, Result};

/// Work so far, and when that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Work {
    /// Microseconds of computing since the start: two cores that compute make two a microsecond.
    pub(crate) work_us: u64,
    /// When it was read, on a clock of the server's own.
    pub(crate) at_us: u64,
}

impl Work {
    /// Computing per time since `earlier`, where 1.0 is one whole core; `None` if no time passed.
    pub(crate) fn cores_since(&self, earlier: &Work) -> Option<f64> {
        let wall = self.at_us.checked_sub(earlier.at_us).filter(|us| *us > 0)?;
        Some(self.work_us.saturating_sub(earlier.work_us) as f64 / wall as f64)
    }
}

/// Tells every connection how much work there was so far.
pub(crate) fn start(address: SocketAddr, done: Done) -> Result<SocketAddr> {
    let start = Instant::now();
    // The work of a step that goes on now is in the next reading.
    tell("work", address, move || read(&done, start))
}

/// Answers every connection with a line of JSON from a plain thread, and closes it. Says where.
pub(crate) fn tell<T: Serialize>(
    service: &'static str,
    address: SocketAddr,
    account: impl Fn() -> T + Send + 'static,
) -> Result<SocketAddr> {
    listen(service, address, move |mut stream| {
        if let Ok(line) = serde_json::to_string(&account()) {
            // Who went away without an answer wants none.
            let _ = writeln!(stream, "{line}");
        }
    })
}

/// Serves every connection from a plain thread, one after another.
pub(crate) fn listen(
    service: &'static str,
    address: SocketAddr,
    serve: impl Fn(TcpStream) + Send + 'static,
) -> Result<SocketAddr> {
    let refused = Error::listen(service, address);
    let listener = TcpListener::bind(address).map_err(&refused)?;
    let bound = listener.local_addr().map_err(&refused)?;
    announce(service, bound);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => serve(stream),
                Err(error) => {
                    eprintln!("{service}: cannot accept a connection: {error}");
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    });
    Ok(bound)
}

/// Work and time of the same moment: of several readings, the one between whose halves least time
/// passed.
fn read(done: &Done, start: Instant) -> Work {
    const TRIES: usize = 5;
    let readings = (0..TRIES).map(|_| {
        let before = start.elapsed();
        let work_us = done.micros();
        let (at_us, took) = (micros(before), start.elapsed() - before);
        (took, Work { work_us, at_us })
    });
    let best = readings.min_by_key(|(took, _)| *took);
    best.expect("there are several").1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_over_time_is_in_cores() {
        let work = |work_us, at_us| Work { work_us, at_us };
        assert_eq!(
            work(3_000, 2_000).cores_since(&work(1_000, 1_000)),
            Some(2.0)
        );
        assert_eq!(work(3_000, 1_000).cores_since(&work(1_000, 1_000)), None);
    }

    #[test]
    fn every_connection_is_told_how_much() {
        use std::io::Read;
        let done = Done::default();
        let bound = start(([127, 0, 0, 1], 0).into(), done.clone()).expect("a port is free");
        done.compute(30);
        for more in [0, 12] {
            done.compute(more);
            let mut answer = String::new();
            let mut stream = std::net::TcpStream::connect(bound).expect("it listens");
            stream.read_to_string(&mut answer).expect("it answers");
            let work: Work = serde_json::from_str(answer.trim()).expect("JSON");
            assert_eq!(work.work_us, 30 + more);
        }
    }
}
