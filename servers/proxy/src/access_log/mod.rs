//! A line for each request, or connection that is passed on as it is: who asked for
//! what, what it was answered with, and how long that took.
//!
//! - `note`: what is noted of a request while it is served; its end is the line.
//! - `cause`: why it was not served as it was asked.
//! - `format`: how a line is written.
//! - `queue`: lines that wait to be written, up to a number of bytes.
//! - `sink`: files, standard output and the system's log; `log` writes there, in a lane.
//!
//! ```text
//!  requests ── a line each, never waiting ──▶ queue ── all at once ──▶ lane ──▶ sink
//!                                              │ full
//!                                              └──▶ dropped, counted and said
//! ```

mod cause;
mod format;
mod log;
mod note;
mod queue;
mod sink;

pub use cause::Cause;
pub use format::{Format, Record};
pub use log::{Log, Logs};
pub use note::{Note, Recorder, Timed};
pub use sink::{Facility, Target};
