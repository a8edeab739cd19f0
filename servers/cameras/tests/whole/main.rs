//! The whole program: its binary, with cameras and viewers of the tests around it.

mod copied;
mod demo;
mod events;
mod ingest;
mod limits;
#[path = "../shared/mounted.rs"]
mod mounted;
mod onvif;
mod peers;
mod prompt;
mod publish;
mod recorded;
mod reload;
mod secured;
mod soak;
#[path = "../shared/store.rs"]
mod store;
mod support;
mod users;
mod view;
