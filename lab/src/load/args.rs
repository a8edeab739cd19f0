//! The flags of `load`, and where each generator is started.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::book::Book;
use super::cpus::CpuList;
use super::pace::Pace;
use super::{appends, calls, cameras, echo, http, log, mix, origin, pair, passed, stream};
use crate::error::{Error, Result};
use crate::serve::within;
use crate::sys;

/// Loads a server, from a process of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArgs {
    #[command(subcommand)]
    generator: Generator,
    /// Keep this process on these processors, as in `0,2-3` [default: any].
    // An id of its own: the experiments have flags of the same names, which a global one reaches.
    #[arg(long, id = "load-pin", value_name = "LIST", global = true)]
    pin: Option<CpuList>,
    /// Give way to others on these processors by so much, from 0 to 19: load that would otherwise
    /// keep a probe waiting.
    #[arg(long, value_name = "N", default_value_t = 0, global = true)]
    #[arg(value_parser = within(0..=19))]
    nice: i32,
    /// Print the result as one line of JSON.
    #[arg(long, id = "load-json", global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Generator {
    /// Open-loop probe of a TCP echo: latency counts from when a request was due, not from when it
    /// was sent.
    Echo(EchoArgs),
    /// Many connections that each write at a steady rate.
    Stream(StreamArgs),
    /// Cameras that send numbered frames of 1 460 bytes at a steady rate, and viewers of some.
    Cameras(CamerasArgs),
    /// Closed-loop HTTP: so many requests, so many at once, over short or kept-alive connections.
    Http(HttpArgs),
    /// The far end of a request/response pair: answers every 64 bytes with 256.
    Respond(AnswerArgs),
    /// The near end of a request/response pair, in a closed loop.
    Request(RequestArgs),
    /// What stands behind a relay: `GET /large` answers with a megabyte, all else with nothing.
    Origin(AnswerArgs),
    /// Closed-loop HTTP: large objects and empty ones at once, each over a connection of its own.
    Mix(MixArgs),
    /// The servers behind a proxy: one of HTTP, and one that answers a byte with bytes.
    Origins,
    /// Closed-loop clients of a proxy that has such servers behind it.
    Passed(PassedArgs),
    /// Closed-loop appends to a log, each acknowledged when it is durable.
    Appends(AppendsArgs),
    /// Appends to a log in this very process, beside one sync for each record.
    Log(LogArgs),
    /// Open-loop HTTP: calls, each over a connection of its own; latency counts from
    /// when a call was due.
    Calls(CallsArgs),
    /// Open-loop HTTP: one call in four is a `POST /`, which the server computes for, and the
    /// others are a `GET /`, which it answers at once; latency counts from when a call was due.
    Mixed(MixedArgs),
}

/// How long a generator runs, of those that warm up.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Measured {
    /// Seconds that are measured.
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds_above_zero)]
    pub(crate) seconds: Duration,
    /// Seconds of the same load before them, which do not count.
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = seconds)]
    pub(crate) warmup: Duration,
}

impl Measured {
    /// From the start of the load to its end.
    pub(crate) fn whole(self) -> Duration {
        self.warmup + self.seconds
    }
}

/// How long an open loop runs, and waits.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct OpenLoop {
    #[command(flatten)]
    measured: Measured,
    /// Seconds to wait for answers after the last request.
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    drain: Duration,
}

impl OpenLoop {
    /// The schedule of `rate` requests a second.
    pub(super) fn pace(self, rate: u32) -> Pace {
        Pace::new(rate.into(), self.measured.whole())
    }

    /// The accounts of those of its requests that are in `part`.
    pub(super) fn book(self, pace: Pace, part: fn(u64) -> bool) -> Book {
        Book::new(pace, self.measured.warmup, part)
    }

    /// When nothing more is waited for.
    pub(super) fn end(self) -> Duration {
        self.measured.whole() + self.drain
    }
}

/// Where a generator listens that answers.
#[derive(Debug, clap::Args)]
pub(crate) struct AnswerArgs {
    /// Where to listen; port 0 finds one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EchoArgs {
    /// The echo server.
    pub(crate) target: SocketAddr,
    /// Requests per second, over all connections.
    #[arg(long, value_name = "HZ", default_value_t = 1_000, value_parser = within(1..=100_000_u32))]
    pub(crate) rate: u32,
    /// Connections, which take turns.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within(1..=10_000_u32))]
    pub(crate) connections: u32,
    #[command(flatten)]
    pub(crate) time: OpenLoop,
    /// Report in addition the requests during which no processor stood still for long, as seen by
    /// a thread of real-time priority on each.
    #[arg(long)]
    pub(crate) stalls: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StreamArgs {
    /// The sink.
    pub(crate) target: SocketAddr,
    /// Connections, whose writes are spread evenly over time.
    #[arg(long, value_name = "N", default_value_t = 700, value_parser = within(1..=15_000_u32))]
    pub(crate) connections: u32,
    /// Megabits per second of each connection.
    #[arg(long, value_name = "M", default_value_t = 1.0, value_parser = positive)]
    pub(crate) mbit: f64,
    /// Writes per second of each connection.
    #[arg(long, value_name = "W", default_value_t = 10.0, value_parser = positive)]
    #[arg(conflicts_with = "segment")]
    pub(crate) writes_per_s: f64,
    /// Bytes of each write, in place of --writes-per-s: the rate then says how many there are.
    #[arg(long, value_name = "BYTES", value_parser = within(1..=1_048_576_u32))]
    pub(crate) segment: Option<u32>,
    /// Seconds to go on for.
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    pub(crate) seconds: Duration,
    /// Print a line `ready` when every connection is there, before the first write.
    #[arg(long)]
    pub(crate) say_ready: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CamerasArgs {
    /// The camera service.
    pub(crate) target: SocketAddr,
    /// Where viewers ask for their cameras [default: nobody watches].
    #[arg(long, value_name = "ADDR")]
    pub(crate) watch: Option<SocketAddr>,
    /// Cameras that are watched [default: each tenth].
    #[arg(long, value_name = "N", requires = "watch", value_parser = within(1..=15_000_u32))]
    pub(crate) watched: Option<u32>,
    /// Cameras, whose frames are spread evenly over time.
    #[arg(long, value_name = "N", default_value_t = 350, value_parser = within(1..=15_000_u32))]
    pub(crate) connections: u32,
    /// Megabits per second of all cameras together.
    #[arg(long, value_name = "M", default_value_t = 500.0, value_parser = positive)]
    pub(crate) mbit: f64,
    /// Frames that a camera sends at once, at the same rate in all.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within(1..=1_000_u32))]
    pub(crate) burst: u32,
    /// Seconds to go on for.
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    pub(crate) seconds: Duration,
    /// Seconds that the server has for the rest, after the last frame.
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    pub(crate) drain: Duration,
    /// Print a line `ready` when every connection is there, before the first frame.
    #[arg(long)]
    pub(crate) say_ready: bool,
    /// End as soon as standard input does, if that is earlier.
    #[arg(long)]
    pub(crate) until_told: bool,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct HttpArgs {
    /// The HTTP server.
    pub(crate) target: SocketAddr,
    /// The path that is asked for.
    #[arg(long, default_value = "/")]
    pub(crate) path: String,
    /// Requests at once.
    #[arg(long, value_name = "C", default_value_t = 60, value_parser = within(1..=10_000_u32))]
    pub(crate) concurrency: u32,
    /// Requests in all.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) requests: u64,
    /// Many requests per connection, in place of one.
    #[arg(long)]
    pub(crate) keep_alive: bool,
    /// Give up when nothing has happened for so many seconds.
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    pub(crate) patience: Duration,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RequestArgs {
    /// A responder, or a proxy in front of one.
    pub(crate) target: SocketAddr,
    /// Connections, each with one request on its way.
    #[arg(long, value_name = "C", default_value_t = 20, value_parser = within(1..=200_u32))]
    pub(crate) connections: u32,
    /// Seconds to go on for.
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    pub(crate) seconds: Duration,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MixArgs {
    /// An origin, or a relay in front of one.
    pub(crate) target: SocketAddr,
    /// Clients that fetch large objects.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = within(0..=10_000_u32))]
    pub(crate) large: u32,
    /// Clients that fetch empty ones.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = within(0..=10_000_u32))]
    pub(crate) empty: u32,
    #[command(flatten)]
    pub(crate) time: Measured,
    /// Print a line `ready` before the first connection.
    #[arg(long)]
    pub(crate) say_ready: bool,
}

/// Each number is of clients, which are threads.
#[derive(Debug, clap::Args)]
pub(crate) struct PassedArgs {
    /// Where the proxy passes on requests of HTTP.
    pub(crate) http: SocketAddr,
    /// Where it passes on bytes.
    pub(crate) tcp: SocketAddr,
    /// A request over a connection that is kept.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = within(0..=1_000_u32))]
    pub(crate) kept: u32,
    /// A request over a connection of its own.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = within(0..=1_000_u32))]
    pub(crate) closed: u32,
    /// A connection that passes five bytes.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = within(0..=1_000_u32))]
    pub(crate) connections: u32,
    /// A megabyte, over a connection of HTTP that is kept.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = within(0..=1_000_u32))]
    pub(crate) http_bytes: u32,
    /// The same, which the server sends and the client reads 16 KiB at a time.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = within(0..=1_000_u32))]
    pub(crate) http_pieces: u32,
    /// A megabyte, over a connection of TCP.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = within(0..=1_000_u32))]
    pub(crate) tcp_bytes: u32,
    /// Seconds to go on for; what is under way then comes to its end.
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds_above_zero)]
    pub(crate) seconds: Duration,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AppendsArgs {
    /// The log server.
    pub(crate) target: SocketAddr,
    /// Clients, each with one append under way.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = within(1..=10_000_u32))]
    pub(crate) clients: u32,
    /// Bytes of each record.
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    #[arg(value_parser = within(1..=1_048_576_u32))]
    pub(crate) bytes: u32,
    #[command(flatten)]
    pub(crate) time: Measured,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// A directory on the disk to measure; what is made there is removed in the end.
    pub(crate) directory: PathBuf,
    /// Tasks, each with one append under way.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = within(1..=10_000_u32))]
    pub(crate) appenders: u32,
    /// Bytes of each record.
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    #[arg(value_parser = within(1..=1_048_576_u32))]
    pub(crate) bytes: u32,
    /// Seconds of each of the two.
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds_above_zero)]
    pub(crate) seconds: Duration,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CallsArgs {
    /// The HTTP server.
    pub(crate) target: SocketAddr,
    /// The path that is asked for.
    #[arg(long, default_value = "/")]
    pub(crate) path: String,
    /// By POST, in place of GET.
    #[arg(long)]
    pub(crate) post: bool,
    /// Calls per second.
    #[arg(long, value_name = "HZ", default_value_t = 100, value_parser = within(1..=10_000_u32))]
    pub(crate) rate: u32,
    #[command(flatten)]
    pub(crate) time: OpenLoop,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MixedArgs {
    /// The server.
    pub(crate) target: SocketAddr,
    /// Where the calls go that make it compute [default: the same].
    #[arg(long, value_name = "ADDR")]
    pub(crate) hogs_at: Option<SocketAddr>,
    /// Over which connections.
    #[arg(long, value_name = "HOW", default_value = "fresh")]
    pub(crate) over: Over,
    /// Connections that are kept; if each is for calls of one kind, a quarter of them is for
    /// those that make the server compute.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = within(1..=10_000_u32))]
    pub(crate) connections: u32,
    /// Calls per second, of both kinds together.
    #[arg(long, value_name = "HZ", default_value_t = 200, value_parser = within(1..=10_000_u32))]
    pub(crate) rate: u32,
    #[command(flatten)]
    pub(crate) time: OpenLoop,
}

/// Over which connections calls go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Over {
    /// HTTP/1.1, a fresh connection for each call.
    Fresh,
    /// HTTP/1.1, connections that are kept, each for calls of one kind.
    Kept,
    /// HTTP/1.1, connections that are kept, each for calls of both kinds.
    Shared,
    /// HTTP/2, one connection for all calls to one address.
    H2,
}

impl Over {
    /// The word of the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Over::Fresh => "fresh",
            Over::Kept => "kept",
            Over::Shared => "shared",
            Over::H2 => "h2",
        }
    }
}

/// Runs a generator to its end and prints what it found.
///
/// # Errors
/// When a flag does not fit, or the server cannot be reached.
pub(crate) fn run(args: &LoadArgs) -> Result<()> {
    if let Some(cpus) = &args.pin {
        sys::pin(&cpus.0).map_err(Error::system("cannot pin to the processors of --pin"))?;
    }
    sys::give_way(args.nice).map_err(Error::system("cannot give way by --nice"))?;
    sys::raise_descriptor_limit().map_err(Error::system("cannot raise the descriptor limit"))?;
    match &args.generator {
        Generator::Echo(echo_args) => print(args.json, &echo::run(echo_args)?),
        Generator::Stream(stream_args) => print(args.json, &stream::run(stream_args)?),
        Generator::Cameras(cameras_args) => print(args.json, &cameras::run(cameras_args)?),
        Generator::Http(http_args) => print(args.json, &http::run(http_args)?),
        Generator::Respond(respond_args) => pair::respond(respond_args),
        Generator::Request(request_args) => print(args.json, &pair::request(request_args)?),
        Generator::Origin(origin_args) => origin::run(origin_args),
        Generator::Mix(mix_args) => print(args.json, &mix::run(mix_args)?),
        Generator::Origins => passed::origins(),
        Generator::Passed(passed_args) => print(args.json, &passed::run(passed_args)?),
        Generator::Appends(appends_args) => print(args.json, &appends::run(appends_args)?),
        Generator::Log(log_args) => print(args.json, &log::run(log_args)?),
        Generator::Calls(calls_args) => print(args.json, &calls::calls(calls_args)?),
        Generator::Mixed(mixed_args) => print(args.json, &calls::mixed(mixed_args)?),
    }
}

/// As one line for a program, or as lines for a person.
fn print(json: bool, summary: &impl Serialize) -> Result<()> {
    let text = match json {
        true => serde_json::to_string(summary),
        false => serde_json::to_string_pretty(summary),
    };
    println!("{}", text.expect("numbers and words can be written"));
    Ok(())
}

/// Seconds with a fraction, at most a day.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    const DAY_S: f64 = 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=DAY_S).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err("not between 0 and 86400 seconds".to_owned()),
        Err(_) => Err("not a number of seconds, as in `2.5`".to_owned()),
    }
}

/// As [`seconds`], and not zero.
pub(crate) fn seconds_above_zero(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("not above 0 seconds".to_owned()),
        length => Ok(length),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("not a number above 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_a_fraction_and_a_limit() {
        assert_eq!(seconds("2.5"), Ok(Duration::from_millis(2_500)));
        assert!(seconds("-1").is_err());
        assert!(seconds("1e9").is_err());
        assert!(seconds("NaN").is_err());
        assert!(seconds("soon").is_err());
    }
}
