//! The measuring kit of the lab, the benchmarks, `cargo xtask compare` and `txlog bench`.
//!
//! - [`latency`]: a histogram of latencies, for one thread or for many.
//! - [`rounds`]: candidates measured alternately.
//! - [`statistics`]: medians, ratios, spreads.
//! - [`comparison`]: a table of candidates beside a baseline.
//! - [`table`], [`number`]: tables and numbers as text.
//! - [`results`]: the tables of a run, as one JSON file.
//! - [`options`]: command line options for rounds and for that file.
//! - [`proxied`]: clients and servers on both sides of a proxy.
//! - [`cameras`]: what stands around a server for cameras.
//!
//! It depends on no runtime, so that it can measure any. Names end in the unit, as `p99_us` does;
//! a [`Duration`](std::time::Duration) needs none.
//!
//! # Examples
//!
//! Two ways to add up, measured alternately:
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

pub mod cameras;
pub mod comparison;
pub mod latency;
pub mod number;
pub mod options;
pub mod proxied;
pub mod results;
pub mod rounds;
pub mod statistics;
pub mod table;
