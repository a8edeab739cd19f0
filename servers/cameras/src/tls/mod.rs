//! TLS: for browsers, programs, viewers and publishers by the server's certificate, and with
//! cameras and programs that it connects to itself.
//!
//! - `certificate`: the server's own, from files; `stream`: a connection.
//! - `trust`: which certificates of others are good.

mod certificate;
mod stream;
mod trust;

pub use certificate::{Certificate, Files, TlsError};
pub use stream::Stream;
pub use trust::{Fingerprint, NoAuthorities, connect, trusting};
