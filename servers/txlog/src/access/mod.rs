//! Who may use a server, and for what.
//!
//! - [`Tokens`]: secrets with permissions, from a file.
//! - [`ServerTls`]: encryption, and certificates of clients.
//! - [`Security`]: both, and on which addresses a server then listens.
//!
//! A server without tokens lets everybody who can connect do everything, and one without TLS can be
//! overheard. So it listens on other than loopback addresses only with both, unless somebody says
//! explicitly that it is to do without.
// The files: `rights` is what may be done (pure), `tokens` the file and who is in it, `adding`
// how one gets into it, `secret` how a secret is made and hashed, `tls` the certificates, `private`
// which files are read at all.

mod adding;
mod private;
mod rights;
mod secret;
mod tls;
mod tokens;

use std::net::SocketAddr;
use std::sync::Arc;

pub use self::private::read_private;
pub use self::rights::{Permission, Rights};
pub use self::secret::{Digest, new_secret};
pub use self::tls::{ServerTls, TlsError, TlsFiles};
pub use self::tokens::{LoginError, Token, Tokens, TokensError};

/// How a server is protected. By default not at all, and then it listens on loopback addresses
/// only.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// Encryption; without, all is sent in the clear.
    pub tls: Option<Arc<ServerTls>>,
    /// Who may do what; without, everybody may do everything.
    pub tokens: Option<Arc<Tokens>>,
    /// Whether addresses may be listened on that others than this machine's users can reach, though
    /// everybody may do everything.
    pub insecure_no_tokens: bool,
    /// Whether such addresses may be listened on though all can be overheard, tokens among it.
    pub insecure_no_tls: bool,
}

/// What a server lacks to listen on an address that others can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lack {
    /// Everybody could do everything.
    Tokens,
    /// All could be overheard.
    Tls,
    /// Both.
    Both,
}

impl Lack {
    /// What would be possible, and what to do.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Lack::Tokens => {
                "everybody who reaches it could read and append: give --tokens FILE (`txlog token \
                 new` makes one) or --tls-client-ca FILE, listen on 127.0.0.1, or accept that by \
                 --insecure-no-tokens"
            }
            Lack::Tls => {
                "everybody on the way could read records and tokens: give --tls-cert FILE and \
                 --tls-key FILE, listen on 127.0.0.1, or accept that by --insecure-no-tls"
            }
            Lack::Both => {
                "everybody who reaches it could read and append, and everybody on the way could \
                 listen: give --tls-cert, --tls-key and --tokens (`txlog token new` makes one), \
                 listen on 127.0.0.1, or accept that by --insecure-no-tls and --insecure-no-tokens"
            }
        }
    }
}

impl Security {
    /// What is lacking to listen there.
    pub(crate) fn lacks(&self, address: SocketAddr) -> Option<Lack> {
        if address.ip().to_canonical().is_loopback() {
            return None;
        }
        let asks = self.tls.as_ref().is_some_and(|tls| tls.asks_clients());
        let tokens = self.tokens.is_some() || asks || self.insecure_no_tokens;
        let tls = self.tls.is_some() || self.insecure_no_tls;
        match (tokens, tls) {
            (true, true) => None,
            (false, true) => Some(Lack::Tokens),
            (true, false) => Some(Lack::Tls),
            (false, false) => Some(Lack::Both),
        }
    }
}
