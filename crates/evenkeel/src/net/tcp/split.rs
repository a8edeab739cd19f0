//! The two directions of a TCP stream.

use std::net::SocketAddr;

use super::TcpStream;

crate::net::halves::halves!(TcpStream, SocketAddr);
