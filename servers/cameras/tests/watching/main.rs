//! Recording and watching: a server in this process, on real files, with cameras of the tests.

mod browser;
mod disks;
mod hls;
mod kills;
#[path = "../shared/mounted.rs"]
mod mounted;
mod page;
mod real;
mod requests;
mod sockets;
#[path = "../shared/store.rs"]
mod store;
mod stores;
mod support;
mod whep;
