//! An async runtime for network services in which no work can hold up other work beyond a stated
//! bound, and which shows where every microsecond went.
//!
//! ```
//! use evenkeel::net::{TcpListener, TcpStream};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! #[evenkeel::main]
//! async fn main() -> std::io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:0").await?;
//!     let address = listener.local_addr()?;
//!
//!     evenkeel::spawn(async move {
//!         let (mut stream, _) = listener.accept().await?;
//!         stream.write_all(b"hello").await
//!     });
//!
//!     let mut text = String::new();
//!     TcpStream::connect(address).await?.read_to_string(&mut text).await?;
//!     assert_eq!(text, "hello");
//!     Ok(())
//! }
//! ```
//!
//! # Where things are
//!
//! - [`spawn`], [`spawn_in`], [`spawn_blocking`] and [`task`]: tasks, their handles and sets of
//!   them, and how a task gives way.
//! - [`Class`]: CPU time is shared among classes; [`ClassConfig`]: a class's share and latency
//!   target.
//! - [`guide`]: chapters for those who [come from Tokio](guide::coming_from_tokio), and on
//!   [classes](guide::classes), [delivery](guide::delivery) to readers, [disk](guide::disk),
//!   [hogs](guide::hogs), [shutdown](guide::shutdown), [where the time went](guide::watching), what
//!   the [peers](guide::peers) do, and how to try [a Tokio service](guide::tokio_service) on
//!   Evenkeel as it is.
//! - [`runtime`]: making and ending a runtime; [`main`] and [`test`] do it for a program or a test.
//! - [`net`], [`signal`], [`time`]: what tasks wait for.
//! - [`fs`], [`blocking`]: files, and other work that blocks, in lanes that do not hold up each
//!   other.
//! - [`stats`]: where the time went. Always on.
//! - [`io`]: readiness. `tokio::io`'s traits are what sockets are read and written with.
//!
//! # What is guaranteed
//!
//! - A busy worker checks for I/O when the time since its last check passes a bound
//!   ([`io_check_bound`](runtime::Builder::io_check_bound), 100 microseconds by default), whatever
//!   its queues hold, as soon as the poll that is under way returns.
//! - A woken task goes before tasks that yielded, however many there are; one task that yielded
//!   runs for each slice of 100 microseconds that woken ones have had.
//! - A timer never fires early, and is due within a tick of a millisecond, at any uptime.
//! - A panic stays in its task and reaches its handle. Shutdown drops every future.
//! - A poll that lasts longer than a millisecond loses its worker to another thread
//!   ([`hand_off_after`](runtime::Builder::hand_off_after)), so it holds up nothing else, as long
//!   as the heavy pool has a thread for it ([`heavy_threads`](runtime::Builder::heavy_threads)).
//!   Beyond that, each long poll keeps a worker, whose other tasks are served by another worker, if
//!   there is one.
//! - Classes with work at all times get processor time in the ratio of their shares.
//!
//! # Coming from Tokio
//!
//! Sockets implement `tokio::io::{AsyncRead, AsyncWrite}`, and `tokio::sync` works unchanged, as it
//! needs no runtime. With the feature `hyper`, streams go into hyper as they are; with `serve`,
//! [`serve()`](serve::serve) takes axum's routers. Crates that call `tokio::spawn`, `tokio::net` or
//! `tokio::time` themselves need a Tokio runtime beside this one (feature `tokio-context`). The
//! chapter [Coming from Tokio](guide::coming_from_tokio) has the move step by step, what behaves
//! differently, and a table of names.
//!
//! # Features
//!
//! - `macros` (on by default): [`main`] and [`test`].
//! - `hyper`: hyper's I/O traits, executor and timer, in `evenkeel::hyper`.
//! - `serve`: [`serve()`](serve::serve), which serves axum's routers and other services over HTTP;
//!   with `hyper`.
//! - `client`: `hyper::Connector`, connections for the client of the crate hyper-util; with
//!   `hyper`. That crate then has Tokio's sockets compiled, and uses none.
//! - `futures-io`: the I/O traits of the futures family. With both families' extension traits in
//!   scope, method calls are ambiguous: import one.
//! - `tokio-context`: [`Builder::tokio_context`](runtime::Builder::tokio_context), a runtime of
//!   Tokio's beside this one.
//! - `hog-stacks` (on by default): stacks, by which hogs are named by function
//!   ([how](guide::hogs#what-it-was-doing)), and tasks that wait by
//!   [`Handle::dump`](runtime::Handle::dump).
//! - `tracing`: an event for each report of a hog.
//! - `console`: a span of `tracing` for each task and events of its wakers, by which tokio-console
//!   shows the tasks ([how](guide::watching)).
//!
//! # What it is not
//!
//! Not by itself a drop-in for crates that call Tokio's runtime; not real-time; no promise of
//! fairness across a task that never returns *and* holds a lock that others need. Linux first;
//! macOS builds without the Linux-only parts. 64-bit processors only.

// Locks and the clock pass through seams (`clippy.toml`); what tests use is their own.
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]
#![cfg_attr(
    evenkeel_loom,
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        reason = "models use only a part of what is compiled"
    )
)]

/// Compiles the README's programs as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(not(unix))]
compile_error!("evenkeel runs on Linux and macOS; other systems lack what its I/O stands on");

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "evenkeel runs on 64-bit systems: the kernel carries a slot of 32 bits and its generation in \
     one word (`io::slots`)"
);

#[cfg(not(evenkeel_loom))]
pub mod blocking;
mod class;
#[cfg(not(evenkeel_loom))]
mod clock;
mod counters;
#[cfg(not(evenkeel_loom))]
mod defaults;
#[cfg(all(feature = "drop-in", not(evenkeel_loom)))]
#[doc(hidden)]
pub mod drop_in;
#[cfg(not(evenkeel_loom))]
pub mod fs;
#[cfg(all(feature = "futures-io", not(evenkeel_loom)))]
mod futures_io;
#[cfg(not(evenkeel_loom))]
pub mod guide;
#[cfg(all(feature = "hyper", not(evenkeel_loom)))]
pub mod hyper;
pub mod io;
#[cfg(not(evenkeel_loom))]
pub mod net;
#[cfg(not(evenkeel_loom))]
pub mod runtime;
mod sched;
#[cfg(all(feature = "serve", not(evenkeel_loom)))]
pub mod serve;
#[cfg(not(evenkeel_loom))]
pub mod signal;
#[cfg(not(evenkeel_loom))]
pub mod stats;
mod sync;
#[cfg(not(evenkeel_loom))]
mod sys;
#[cfg(not(evenkeel_loom))]
pub mod task;
#[cfg(not(evenkeel_loom))]
pub mod time;
mod timer;

/// The parts of some modules that are modelled, or that modelled code needs.
#[cfg(evenkeel_loom)]
mod blocking {
    pub(crate) mod turns;
}
#[cfg(evenkeel_loom)]
mod fs {
    mod group_commit;
}
#[cfg(evenkeel_loom)]
mod sys {
    pub(crate) mod prefetch;
    mod stack {
        mod linux {
            mod slots;
        }
    }
}
#[cfg(evenkeel_loom)]
mod task {
    mod ready_list;
}

pub use class::{Class, ClassConfig, ClassError, ClassInfo};
#[cfg(all(feature = "macros", not(evenkeel_loom)))]
pub use evenkeel_macros::{main, test};
#[cfg(not(evenkeel_loom))]
pub use runtime::{block_in_place, spawn, spawn_blocking, spawn_in};
#[cfg(not(evenkeel_loom))]
pub use sched::HogReport;
pub use sched::{BusyWait, ParseBusyWaitError};
#[cfg(all(feature = "serve", not(evenkeel_loom)))]
pub use serve::serve;
