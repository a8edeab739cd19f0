//! Recording and watching: a server in this process, on real files, with cameras of the tests.

mod disks;
mod hls;
mod kills;
mod page;
mod real;
mod requests;
mod sockets;
mod support;
