//! `load appends`: so many clients of a log, each of which appends a record, waits until it is
//! durable, and appends the next.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use txlog_client::frame::{Request, Response, SMALL_BYTES_MAX, VERSION};
use txlog_client::wire::FrameReader;

use super::LatencySummary;
use super::args::AppendsArgs;
use super::net::{self, closed_loop};
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
    let record = Bytes::from(vec![b'r'; args.bytes as usize]);
    let found = net::run(async {
        let clients = net::connect(args.target, args.clients).await?;
        let exchange = async move |client: &mut Client| client.exchange(&record).await;
        let clients = clients.into_iter().map(Client::new);
        Ok(closed_loop(clients, args.time, Duration::ZERO, exchange).await)
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

struct Client {
    frames: FrameReader<OwnedReadHalf>,
    stream: OwnedWriteHalf,
    asked: BytesMut,
    /// The number of the next append, after a greeting.
    next: u64,
}

impl Client {
    fn new(stream: TcpStream) -> Self {
        let (reader, stream) = stream.into_split();
        Client {
            frames: FrameReader::new(reader, SMALL_BYTES_MAX),
            stream,
            asked: BytesMut::new(),
            next: 0,
        }
    }

    /// Greets the log, then appends; whether it appended.
    async fn exchange(&mut self, record: &Bytes) -> io::Result<bool> {
        let number = self.next;
        self.next += 1;
        let request = match number {
            0 => Request::Hello {
                min: VERSION,
                max: VERSION,
                access: None,
            },
            id => Request::Append {
                id,
                payload: record.clone(),
            },
        };
        request.encode(&mut self.asked);
        self.stream.write_all_buf(&mut self.asked).await?;
        let frame = self.frames.next().await.map_err(io::Error::other)?;
        let frame = frame.ok_or(io::ErrorKind::UnexpectedEof)?;
        match Response::decode(frame).map_err(io::Error::other)? {
            // Whatever the welcome says suits.
            Response::Welcome { .. } if number == 0 => Ok(false),
            Response::Appended { id, .. } if id == number => Ok(true),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
