//! A load balancer for TCP, HTTP/1.1 and HTTP/2 on Evenkeel.
//!
//! - [`compress`]: answers that are compressed for those who take that.
//! - [`config`]: what the operator wrote, and what is wrong with it.
//! - [`server`]: listeners, connections, reload and the end.
//! - [`socket`]: TCP and Unix sockets behind one type; [`listener`] takes them, with the
//!   [`congestion`] control that the operator wants.
//! - [`tls`]: encrypts what they send.
//! - [`stream`]: a connection of either sort; [`relay`] moves bytes between two of them, until all
//!   have come or there is [`silence`].
//! - [`tcp`]: connections that are passed on as they are.
//! - [`proxy_protocol`]: whose connection it is, told from one proxy to the next.
//! - [`http`]: heads, bodies and their forwarding.
//! - [`route`]: which pool a request goes to.
//! - [`policy`]: what is done with requests beside: limits, changes, answers of the proxy itself.
//! - [`pool`]: which server of it, and who waits for one; [`check`] finds out which of them are up,
//!   and [`within`] says what connections to those on this machine are given.
//! - [`access_log`]: a line for each request.
//! - [`discovery`]: servers by name.
//! - [`admin`]: the socket that answers operators.
//! - [`convert`]: configurations of HAProxy as ones of this proxy.
//! - [`runtimes`]: where tasks run.
//! - [`sessions`], [`refusals`] and [`counters`]: who is connected, what was refused, and what was
//!   counted.
//! - [`upgrade`]: another process takes over; [`supervisor`]: what systemd is told.
//! - [`cli`]: the command line of the program.
//! - [`timer`] and [`spare`]: one timer for all the waits of a connection, and buffers that are
//!   used again; `text` writes numbers and times.

pub mod access_log;
pub mod acme;
pub mod admin;
pub mod check;
pub mod cli;
pub mod compress;
pub mod config;
pub mod congestion;
pub mod convert;
pub mod counters;
pub mod discovery;
pub mod events;
pub mod http;
pub mod listener;
mod place;
pub mod policy;
pub mod pool;
pub mod proxy_protocol;
pub mod refusals;
pub mod relay;
pub mod route;
pub mod runtimes;
pub mod server;
pub mod sessions;
pub mod silence;
pub mod socket;
pub mod spare;
pub mod stream;
pub mod supervisor;
pub mod tcp;
mod text;
pub mod timer;
pub mod tls;
pub mod upgrade;
pub mod within;
