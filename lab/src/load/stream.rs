//! Many senders at a steady rate each, in an open loop.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::args::StreamArgs;
use super::net::{self, Socket, at_pace};
use super::pace::Pace;
use crate::error::Result;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct StreamSummary {
    /// Writes that were due, and their bytes.
    pub(crate) writes: u64,
    pub(crate) bytes_due: u64,
    /// Bytes that the sockets took; less than were due means that the server did not keep up.
    pub(crate) bytes_sent: u64,
    /// Writes that found their connection's earlier bytes still waiting.
    pub(crate) writes_behind: u64,
    pub(crate) connections_lost: u64,
    pub(crate) seconds: f64,
}

struct Sender {
    socket: Socket,
    /// Bytes that are due and were not taken yet.
    owed: u64,
}

pub(crate) fn run(args: &StreamArgs) -> Result<StreamSummary> {
    net::run(send(args))
}

/// Write `i` belongs to sender `i mod senders`, so that the senders are evenly spread over time.
async fn send(args: &StreamArgs) -> Result<StreamSummary> {
    let (bytes, writes_per_s) = cut(args.mbit, args.writes_per_s, args.segment);
    let pace = Pace::new(writes_per_s * f64::from(args.connections), args.seconds);
    let sockets = Socket::connect(args.target, args.connections).await?;
    let senders = sockets.into_iter().map(|socket| Sender { socket, owed: 0 });
    let mut senders: Vec<_> = senders.collect();
    if args.say_ready {
        println!("ready");
    }
    let (mut summary, start) = (StreamSummary::default(), Instant::now());
    let elapsed = at_pace(start, pace, args.seconds, || {
        let due = pace.due_by(start.elapsed());
        while summary.writes < due {
            let index = (summary.writes % senders.len() as u64) as usize;
            let sender = &mut senders[index];
            summary.writes += 1;
            summary.writes_behind += u64::from(sender.owed > 0);
            summary.bytes_due += bytes;
            sender.owed += bytes;
            summary.bytes_sent += sender.write();
        }
        // What a full socket refused earlier gets another chance at each tick.
        for sender in senders.iter_mut().filter(|sender| sender.owed > 0) {
            summary.bytes_sent += sender.write();
        }
        senders.iter().all(|sender| sender.socket.lost)
    });
    summary.seconds = elapsed.await?.as_secs_f64();
    summary.connections_lost = senders.iter().filter(|sender| sender.socket.lost).count() as u64;
    Ok(summary)
}

/// The size and the rate of one connection's writes.
fn cut(mbit: f64, writes_per_s: f64, segment: Option<u32>) -> (u64, f64) {
    let bytes_per_s = mbit * 1e6 / 8.0;
    match segment {
        Some(bytes) => (bytes.into(), bytes_per_s / f64::from(bytes)),
        None => {
            let bytes = (bytes_per_s / writes_per_s).round().max(1.0);
            (bytes as u64, writes_per_s)
        }
    }
}

impl Sender {
    /// Writes what is owed as far as the socket takes it; says how much it took.
    fn write(&mut self) -> u64 {
        static ZEROES: [u8; 64 * 1024] = [0; 64 * 1024];
        let mut taken = 0;
        while self.owed > 0 {
            let len = self.owed.min(ZEROES.len() as u64) as usize;
            let written = self.socket.write(&ZEROES[..len]);
            self.owed -= written as u64;
            taken += written as u64;
            if written < len {
                break;
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_cut_by_writes_or_by_segment() {
        assert_eq!(cut(1.0, 10.0, None), (12_500, 10.0));
        let (bytes, writes_per_s) = cut(1.46 * 8.0 / 10.0, 0.0, Some(1_460));
        assert_eq!(bytes, 1_460);
        assert!((writes_per_s - 100.0).abs() < 1e-9);
        // A rate below a byte per write still writes.
        assert_eq!(cut(0.000_001, 10.0, None).0, 1);
    }
}
