//! A request/response pair over kept-alive connections, for proxies where no database is installed:
//! 64 bytes asked, 256 answered, one request at a time on each connection.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::args::{AnswerArgs, Measured, RequestArgs};
use super::http::HttpSummary;
use super::net::{self, PATIENCE, closed_loop};
use crate::error::Result;

const REQUEST_LEN: usize = 64;
const RESPONSE_LEN: usize = 256;

pub(crate) fn respond(args: &AnswerArgs) -> Result<()> {
    net::answer("respond", args, |mut stream| async move {
        loop {
            stream.read_exact(&mut [0; REQUEST_LEN]).await?;
            stream.write_all(&[b'!'; RESPONSE_LEN]).await?;
        }
    })
}

/// Asks on every connection until the time is over.
pub(crate) fn request(args: &RequestArgs) -> Result<HttpSummary> {
    net::run(async {
        let clients = net::connect(args.target, args.connections).await?;
        let (seconds, warmup) = (args.seconds, Duration::ZERO);
        let asked = async |stream: &mut tokio::net::TcpStream| -> io::Result<bool> {
            stream.write_all(&[b'?'; REQUEST_LEN]).await?;
            stream.read_exact(&mut [0; RESPONSE_LEN]).await?;
            Ok(true)
        };
        let start = Instant::now();
        let in_time = async move |stream: &mut _| timeout(PATIENCE, asked(stream)).await?;
        let found = closed_loop(clients, Measured { seconds, warmup }, PATIENCE, in_time).await;
        Ok(HttpSummary {
            failed: found.lost,
            ..HttpSummary::of(&found.latencies, start)
        })
    })
}
