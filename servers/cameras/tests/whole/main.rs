//! The whole program: its binary, with cameras and viewers of the tests around it.

mod ingest;
mod limits;
mod peers;
mod publish;
mod recorded;
mod reload;
mod support;
mod view;
