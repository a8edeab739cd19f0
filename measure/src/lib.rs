//! One kit for measuring: what the lab, the benchmarks, `cargo xtask compare` and `txlog bench`
//! count latencies, take turns, sum up and print with.
//!
//! - [`latency`]: a histogram of latencies, for one thread or for many.
//! - [`rounds`]: candidates measured in turn.
//! - [`statistics`]: medians, ratios, spreads.
//! - [`comparison`]: candidates beside a baseline, as a table.
//! - [`table`], [`number`]: tables and numbers as people read them.
//! - [`options`]: what a command line says about rounds.
//!
//! It knows no runtime, so that it can measure any. Units are in the names: `p99_us` is in
//! microseconds. What is handed in or out as a [`Duration`](std::time::Duration) has none.
//!
//! # Examples
//!
//! Two ways to add up, in turn:
//!
//! ```
//! use std::convert::Infallible;
//! use std::time::Instant;
//!
//! use evenkeel_measure::comparison::Comparison;
//! use evenkeel_measure::rounds::alternate;
//! use evenkeel_measure::statistics::Better;
//!
//! let candidates: [fn(u64) -> u64; 2] = [|n| n * (n + 1) / 2, |n| (1..=n).sum()];
//! let figures = alternate(5, &candidates, |add| {
//!     let began = Instant::now();
//!     for n in 0..1_000 {
//!         std::hint::black_box(add(n));
//!     }
//!     Ok::<_, Infallible>(began.elapsed().as_secs_f64() * 1e6)
//! })?;
//!
//! let mut comparison = Comparison::new("sums", "us", Better::Less, &["formula", "loop"]);
//! comparison.add("to a thousand", &figures);
//! assert!(comparison.to_string().contains("ratio above 1: better than loop"));
//! # Ok::<(), Infallible>(())
//! ```

pub mod comparison;
pub mod latency;
pub mod number;
pub mod options;
pub mod rounds;
pub mod statistics;
pub mod table;
