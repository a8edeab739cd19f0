//! The two directions of a Unix stream.

use std::os::unix::net::SocketAddr;

use super::UnixStream;

crate::net::halves::halves!(UnixStream, SocketAddr);
