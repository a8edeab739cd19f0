//! `evenkeel-lab load`: the load generators, each a process of its own with one plain thread and a
//! readiness queue, none of it a runtime under test, but for `log`.
//!
//! - [`pace`]: when each request is due, whatever the server does (open loop)
//! - [`latency`]: the histogram, and its summary
//! - [`ledger`]: which requests are due, sent, answered; the unanswered count with the time waited
//!   so far
//! - [`cpus`]: the `--pin` lists
//! - [`echo`], [`stream`], [`cameras`], [`http`], [`pair`], [`mix`], [`calls`],
//!   [`appends`]: the generators
//! - [`log`]: appends to a log in the process itself
//! - [`origin`]: what stands behind a relay

mod appends;
mod args;
mod calls;
mod cameras;
mod cpus;
mod echo;
mod http;
mod latency;
mod ledger;
mod log;
mod mix;
mod origin;
mod pace;
mod pair;
mod stream;

pub(crate) use appends::AppendsSummary;
pub(crate) use args::{LoadArgs, run, seconds, seconds_above_zero};
pub(crate) use cameras::CameraSummary;
pub(crate) use cpus::CpuList;
pub(crate) use echo::EchoSummary;
pub(crate) use http::HttpSummary;
pub(crate) use latency::LatencySummary;
pub(crate) use log::{LogSummary, TurnSummary};
pub(crate) use mix::MixSummary;
pub(crate) use stream::StreamSummary;
