//! The program as it is called in a shell.

#[path = "../support/mod.rs"]
mod support;

mod again;
mod calls;
mod consumers;
