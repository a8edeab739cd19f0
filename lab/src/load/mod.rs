//! `evenkeel-lab load`: the load generators, each a process of its own with one plain thread and a
//! readiness queue. Only `log` and calls over HTTP/2 use a runtime that is under test.
//!
//! - [`pace`]: when each request is due, whatever the server does (open loop)
//! - [`latency`]: the histogram, and its summary
//! - [`book`]: which requests are due, sent, answered; the unanswered count with the time waited so
//!   far
//! - [`queue`]: the readiness queue, its timer, and the sockets in it
//! - [`exchange`]: an HTTP/1.1 request and its answer
//! - [`cpus`]: the `--pin` lists
//! - [`echo`], [`stream`], [`cameras`], [`http`], [`pair`], [`mix`], [`calls`],
//!   [`mixed`], [`appends`]: the generators
//! - [`streams`]: calls over HTTP/2
//! - [`log`]: appends to a log in the process itself
//! - [`origin`]: what stands behind a relay

mod appends;
mod args;
mod book;
mod calls;
mod cameras;
mod cpus;
mod echo;
mod exchange;
mod http;
mod latency;
mod log;
mod mix;
mod mixed;
mod origin;
mod pace;
mod pair;
mod queue;
mod stalls;
mod stream;
mod streams;

pub(crate) use appends::AppendsSummary;
pub(crate) use args::{LoadArgs, Over, run, seconds, seconds_above_zero};
pub(crate) use book::EchoSummary;
pub(crate) use cameras::CameraSummary;
pub(crate) use cpus::CpuList;
pub(crate) use http::HttpSummary;
pub(crate) use latency::{Latencies, LatencySummary};
pub(crate) use log::{LogSummary, TurnSummary};
pub(crate) use mix::MixSummary;
pub(crate) use mixed::MixedSummary;
pub(crate) use stream::StreamSummary;
