//! A new process takes over from an old one, without a connection being refused.
//!
//! ```text
//!   old                                            new
//!    │  starts it, with one end of a Unix socket    │
//!    │  as its standard input                       │
//!    │ ───────────────────────────────────────────▶ │ reads the configuration
//!    │  1  estate: what there is, and the sockets   │
//!    │ ───────────────────────────────────────────▶ │ binds what is new, checks servers
//!    │  2  prepared, or failed and why              │
//!    │ ◀─────────────────────────────────────────── │
//!    │  3  go                                       │
//!    │ ───────────────────────────────────────────▶ │ accepts
//!    │  4  serving                                  │
//!    │ ◀─────────────────────────────────────────── │
//!    │ accepts no more, finishes what it has, ends  │
//! ```
//!
//! Both hold the same sockets, with the same backlog, so that a connection is taken by one of them.
//! Up to step 3 the new process takes none, so that whatever becomes of it, nothing is lost: if it
//! fails, ends or does not answer, the old one ends it and goes on. If the old one ends, the new
//! one does.
//!
//! - `wire`: what they say to each other.
//! - `successor`: the old process's side.
//! - `predecessor`: the new process's side.

mod predecessor;
mod successor;
mod wire;

pub use predecessor::{Inherited, Predecessor, SUCCESSOR, ended};
pub use successor::{Successor, UpgradeError};
pub use wire::{Estate, Known, Left, Passing, PidLeft, VERSION};

/// How many earlier processes may still be finishing their connections. Each has its memory and
/// its connections, so that whoever upgrades again and again would fill the machine.
pub const ANCESTORS_MAX: u32 = 4;
