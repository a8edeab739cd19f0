//! The whole program: its binary, with cameras and viewers of the tests around it.

mod events;
mod ingest;
mod limits;
#[path = "../shared/mounted.rs"]
mod mounted;
mod peers;
mod publish;
mod recorded;
mod reload;
mod secured;
mod soak;
mod support;
mod users;
mod view;
