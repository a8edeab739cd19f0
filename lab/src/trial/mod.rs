//! What every experiment stands on.
//!
//! - [`args`]: how an experiment is run
//! - [`lab`]: a run: who takes part, where load runs, how long, progress
//! - [`client`]: one HTTP call to a server under test
//! - [`figures`]: medians, columns, cells, bars
//! - [`samples`]: every case measured in every round
//! - [`echoes`]: latencies of one cell
//! - [`matrix`]: what goes on down, who serves across
//! - [`verdict`]: what was reached against what is to be reached
//! - [`grid`]: echo probes, what stands beside them down, who answers across

pub(crate) mod args;
pub(crate) mod client;
pub(crate) mod echoes;
pub(crate) mod figures;
pub(crate) mod grid;
pub(crate) mod lab;
pub(crate) mod matrix;
pub(crate) mod samples;
pub(crate) mod verdict;

pub(crate) use figures::{Column, Figured, column, or_else, or_nan, over_rounds};
pub(crate) use lab::Lab;
pub(crate) use samples::Samples;
pub(crate) use verdict::Reach::{self, AtLeast, AtMost, MoreThan};
pub(crate) use verdict::{MICROS, PERCENT, Rule, TIMES, by_rules, judge, ratio};
