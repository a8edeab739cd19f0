//! Services and loads on plain Tokio, one process each, for comparisons of runtimes beneath them.
//!
//! A service prints `listening on ADDRESS` and serves until it is ended. A load prints one line:
//! how many requests were answered, the processor time of this process in microseconds, and the
//! median and the 99th percentile of the latencies in microseconds.

mod loads;
mod serve;

use std::net::SocketAddr;

use clap::{Parser, Subcommand, ValueEnum};

/// What can go wrong: it is printed, and that is all.
type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
enum Command {
    /// Serves on a free port of this machine.
    Serve { service: Service },
    /// Asks a service for some seconds.
    #[command(subcommand)]
    Load(Load),
}

#[derive(Clone, Copy, ValueEnum)]
enum Service {
    /// axum: `/`, `/healthz`, `/compute` (20 ms), `/block` (200 ms).
    Http,
    /// tonic: health checks, and reflection.
    Grpc,
    /// mini-redis.
    Redis,
}

#[derive(Subcommand)]
enum Load {
    /// Requests over so many connections that are kept, each after the answer to the last.
    Http(Loop),
    /// The same by the client reqwest.
    Reqwest(Loop),
    /// Unary calls over one channel, so many at once.
    Unary(Loop),
    /// Messages over so many streams of one channel, each after the answer to the last.
    Stream(Loop),
    /// `SET` and `GET` in turn over so many connections.
    Redis(Loop),
    /// `/healthz` every 5 ms while others ask for something slow.
    Health {
        #[command(flatten)]
        time: Loop,
        /// What the others ask for.
        #[arg(long)]
        path: String,
    },
}

#[derive(clap::Args)]
struct Loop {
    address: SocketAddr,
    #[arg(long)]
    connections: usize,
    #[arg(long)]
    seconds: f64,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    match Command::parse() {
        Command::Serve { service } => match service {
            Service::Http => serve::http().await,
            Service::Grpc => serve::grpc().await,
            Service::Redis => serve::redis().await,
        },
        Command::Load(load) => {
            let found = match load {
                Load::Http(time) => loads::http(time, "/").await,
                Load::Reqwest(time) => loads::reqwest(time).await,
                Load::Unary(time) => loads::unary(time).await,
                Load::Stream(time) => loads::stream(time).await,
                Load::Redis(time) => loads::redis(time).await,
                Load::Health { time, path } => loads::health(time, path).await,
            };
            println!("{}", found?);
            Ok(())
        }
    }
}
