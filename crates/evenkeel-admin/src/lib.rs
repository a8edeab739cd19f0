//! Where the time of an [`evenkeel`] runtime went, over HTTP: one line in `main`.
//!
//! ```
//! # #[evenkeel::main]
//! # async fn main() -> Result<(), evenkeel_admin::AdminError> {
//! let admin = evenkeel_admin::listen("127.0.0.1:0").await?;
//! println!("admin page: http://{}/", admin.address());
//! # Ok(())
//! # }
//! ```
//!
//! The server runs in [`Class::URGENT`](evenkeel::Class::URGENT), so it answers beside hogs.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | a page with live plots |
//! | `GET /healthz` | `ok`, for probes, or 503 by [`Builder::health`]; no token is asked for |
//! | `GET /metrics` | OpenMetrics text, for Prometheus; [`metrics::page`] lists them all, and a program adds its own by [`Builder::metrics`] |
//! | `GET /stats` | a [`Snapshot`] as JSON: [`Stats`](evenkeel::stats::Stats) and the process; times are nanoseconds |
//! | `GET /stats.txt` | the same for people, on a screen |
//! | `GET /hogs.txt` | what hogs were doing, by function; `/stats` has the same as JSON |
//! | `GET /hogs.folded` | stacks of hogs, as tools for flame graphs read them |
//! | `GET /tasks` | what tasks have cost, and what they do, as JSON |
//! | `GET /dump` | where tasks wait, as stacks of async functions, as JSON |
//! | `GET /tasks.txt`, `GET /dump.txt` | the same for people |
//! | `GET /settings` | what can be changed: the classes, with their shares and latency targets, and what follows |
//! | `PUT /settings/classes/NAME` | changes a class: `{"share": 70, "latency_target_us": 500}` |
//! | `PUT /settings/busy_wait` | how long workers without work stay awake: `{"level": "short"}`, or another [level](evenkeel::BusyWait) |
//! | `PUT /settings/hand_off` | how long a poll may last: `{"after_us": 1000}`; `null` switches hand-off off |
//! | `PUT /settings/delivery` | how readers of new streams are woken: `{"mode": "immediate"}`, `{"mode": "coalesce", "bytes": 65536, "delay_us": 20000}` or `{"mode": "adaptive", "max_delay_us": 20000}`; the server's own connections deliver at once |
//!
//! `/tasks` and `/dump` show tasks that have been polled once and have not completed. The list has
//! the first 100 or `?limit=N`, with the most run time first, or by `?sort=blocked`, `longest`
//! (poll), `polls` or `since` (in the present state). A dump has the 1 000 that have been in their
//! states for longest, or `?limit=N`; it waits for them one second, or `?timeout_ms=N`. As text it
//! has the functions that users name; with `?long=true`, all. It costs a poll of each task that it
//! shows ([`Handle::dump`](evenkeel::runtime::Handle::dump)). One is made at a time: while it is
//! being made, who asks for another one gets status 429.
//!
//! A request that cannot be met gets a status and `{"error": "..."}`.
//!
//! # Who may ask
//!
//! Without a token, whoever can connect. So only a loopback address or a Unix socket may then be
//! listened on; the socket's file can be opened by its owner alone. Anything else needs a
//! [`token`](Builder::token), which requests carry as `Authorization: Bearer TOKEN`. There is no
//! TLS: across a network that others can read, put a proxy in front.
//!
//! A web page of somebody else, open in a browser on the same machine, can read and change nothing:
//! requests to a loopback address have to name one in `Host`, and changes have to be
//! `application/json` from the page of this server or from no page.
//!
//! # What is limited
//!
//! [`CONNECTIONS_MAX`] connections, more wait in the backlog; [`REQUEST_TIMEOUT`] for the head of a
//! request, for its body, and for each step of taking the answer, so that a client which is stuck
//! holds its connection no longer; [`BODY_BYTES_MAX`] for a body; [`TASKS_MAX`] tasks in an answer;
//! [`DUMP_TIMEOUT_MAX`] for the tasks of a dump. HTTP/1 is served alone: over HTTP/2 a client that
//! takes no data could keep its connection for as long as it answers pings.

mod access;
mod address;
mod admin;
mod error;
pub mod metrics;
mod routes;
mod settings;
mod snapshot;
mod tasks;
mod timed;

pub use admin::{Admin, Builder, listen};
pub use error::AdminError;
pub use snapshot::{Process, Snapshot};

use std::time::Duration;

/// How many connections are served at once.
pub const CONNECTIONS_MAX: usize = 64;
/// How long a client may take for the head of a request, for its body, and without taking any of an
/// answer that does not fit the socket.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest body of a request.
pub const BODY_BYTES_MAX: usize = 16 * 1024;
/// How many tasks an answer shows at most.
pub const TASKS_MAX: usize = 10_000;
/// How long a dump may wait for the tasks.
pub const DUMP_TIMEOUT_MAX: Duration = Duration::from_secs(5);
