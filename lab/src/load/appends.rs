//! `load appends`: so many clients of a log, each of which appends a record, waits until it is
//! durable, and appends the next.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::LatencySummary;
use super::args::AppendsArgs;
use super::net::{self, closed_loop};
use crate::appends::{APPENDED_LEN, HELLO, WELCOME_LEN, acknowledges, append};
use crate::error::Result;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct AppendsSummary {
    /// Records that were acknowledged within the time.
    pub(crate) appends: u64,
    /// Clients that were hung up on, or answered what is no acknowledgement.
    pub(crate) clients_lost: u64,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    /// From asking to the acknowledgement.
    pub(crate) latency: LatencySummary,
}

pub(crate) fn run(args: &AppendsArgs) -> Result<AppendsSummary> {
    let record: Rc<[u8]> = vec![b'r'; args.bytes as usize].into();
    let found = net::run(async {
        let clients = net::connect(args.target, args.clients).await?;
        let clients = clients.into_iter().map(|stream| (stream, 0));
        let found = closed_loop(
            clients,
            args.time,
            Duration::ZERO,
            async move |(stream, id)| {
                // Whatever the welcome says suits.
                if *id == 0 {
                    stream.write_all(&HELLO).await?;
                    stream.read_exact(&mut [0; WELCOME_LEN]).await?;
                } else {
                    stream.write_all(&append(*id, &record)).await?;
                    let mut answer = [0; APPENDED_LEN];
                    stream.read_exact(&mut answer).await?;
                    if !acknowledges(&answer, *id) {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                }
                *id += 1;
                Ok(*id > 1)
            },
        );
        Ok(found.await)
    })?;
    let seconds = args.time.seconds.as_secs_f64();
    Ok(AppendsSummary {
        appends: found.latencies.len(),
        clients_lost: found.lost,
        seconds,
        per_second: found.latencies.len() as f64 / seconds.max(f64::EPSILON),
        latency: found.latencies.summary(),
    })
}
