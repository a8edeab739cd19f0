//! The log itself, on a disk and on one made of memory.

#[path = "../support/mod.rs"]
mod support;

mod batches;
mod copies;
mod cursors;
mod faults;
mod forged;
mod mark;
mod place;
mod producers;
mod recovery;
mod repair;
mod seek;
mod upkeep;
mod versions;
