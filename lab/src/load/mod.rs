//! `evenkeel-lab load`: the load generators, each a process of its own, nearly all with one thread.
//!
//! - [`args`]: the flags, and where each generator is started
//! - [`net`]: the thread, connections, and the frames of open and closed loops
//! - [`pace`], [`book`]: when each request of an open loop is due, whatever the server does; which
//!   were sent and answered: the unanswered count with the time waited so far
//! - [`exchange`]: an HTTP/1.1 request and its answer
//! - [`stalls`]: when a processor stood still
//! - [`passed`]: what passes through a proxy, and the servers behind it; on threads
//! - the others: a generator each, or a pair of them

mod appends;
mod args;
mod book;
mod calls;
mod cameras;
mod cpus;
mod echo;
mod exchange;
mod http;
mod log;
mod mix;
mod net;
mod origin;
mod pace;
mod pair;
mod passed;
mod stalls;
mod stream;

pub(crate) use appends::AppendsSummary;
pub(crate) use args::{LoadArgs, Over, run, seconds, seconds_above_zero};
pub(crate) use book::EchoSummary;
pub(crate) use calls::MixedSummary;
pub(crate) use cameras::CameraSummary;
pub(crate) use cpus::CpuList;
pub(crate) use evenkeel_measure::latency::{Latencies, LatencySummary};
pub(crate) use http::HttpSummary;
pub(crate) use log::{LogSummary, TurnSummary};
pub(crate) use mix::MixSummary;
pub(crate) use passed::PassedSummary;
pub(crate) use stream::StreamSummary;
