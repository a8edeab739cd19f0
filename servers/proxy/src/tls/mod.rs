//! TLS on both sides, by rustls.
//!
//! - `files`: certificates and keys, as they stand in files.
//! - `lifetime`: how long a certificate holds.
//! - `own`: a certificate with its file and its end, and when operators are told of that.
//! - `live`: a certificate whose place another one takes.
//! - `made`: certificates that are made here.
//! - `names`: which certificate is for which name.
//! - `server_side`: what a listener is to its clients.
//! - `client_side`: whom a pool trusts, and as whom the proxy comes to its servers.
//! - `tickets`: what clients resume their sessions by.
//! - `places`: who may shake hands, and who has to go when that are too many.
//! - `handshake`: the beginning of a connection, on both sides.
//! - `hello`: the name that a client asks for, where TLS is passed on.
//! - `session`: a socket with TLS over it.
//! - `said`: what errors mean, and what to do.

mod client_side;
mod files;
mod handshake;
mod hello;
mod lifetime;
mod live;
mod made;
mod names;
mod own;
mod places;
mod said;
mod server_side;
mod session;
mod tickets;

pub use client_side::{ClientSide, Connector, Verify, server_name};
pub use files::{
    Authorities, Identity, TlsError, authorities, identity, secret, system_authorities,
};
pub use handshake::{Failure, accept, asked};
pub use hello::{Hello, Said};
pub use lifetime::{Lifetime, described, lifetime};
pub use live::Live;
pub use made::challenge;
pub use names::names;
pub use own::Own;
pub use places::{Handshakes, Place, Shed};
pub use said::{of_client, of_server};
pub use server_side::{Listening, Offer, ServerSide};
pub use session::{CutOff, Session};
pub use tickets::TicketKeys;

use serde::Deserialize;

/// The name of HTTP/2 over TLS.
pub const H2: &[u8] = b"h2";

/// The oldest version that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum MinVersion {
    /// TLS 1.2, and 1.3.
    #[default]
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3 alone.
    #[serde(rename = "1.3")]
    Tls13,
}

impl MinVersion {
    fn versions(self) -> &'static [&'static rustls::SupportedProtocolVersion] {
        static TLS13: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
        match self {
            Self::Tls12 => rustls::DEFAULT_VERSIONS,
            Self::Tls13 => &TLS13,
        }
    }
}
