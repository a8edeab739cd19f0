//! The server over its sockets, as clients and strangers use it.

#[path = "../support/mod.rs"]
mod support;

mod batches;
mod cursors;
mod health;
mod limits;
mod logs;
mod lookups;
mod places;
mod serving;
