//! The name that a client asks for in its first message of TLS, which is passed on as it came.

use std::fmt;

use rustls::server::Acceptor;

use super::made::ACME_TLS;

/// The longest first message that is looked at; browsers' have two kilobytes.
const HELLO_BYTES_MAX: usize = 32 * 1_024;

/// What is known of a first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It is not whole yet.
    More,
    /// It asks for this name, or for none, or is none of TLS.
    Name(Option<String>),
}

/// A first message that comes.
#[derive(Default)]
pub struct Hello {
    acceptor: Acceptor,
    taken: usize,
    is_of_acme: bool,
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello")
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

impl Hello {
    /// Looks at all that has come so far; what was looked at before is not looked at again.
    pub fn read(&mut self, bytes: &[u8]) -> Said {
        let mut rest = bytes.get(self.taken..).unwrap_or_default();
        self.taken = bytes.len();
        while !rest.is_empty() {
            if !matches!(self.acceptor.read_tls(&mut rest), Ok(1..)) {
                return Said::Name(None);
            }
            match self.acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let hello = accepted.client_hello();
                    let mut protocols = hello.alpn().into_iter().flatten();
                    self.is_of_acme = protocols.next() == Some(ACME_TLS);
                    return Said::Name(hello.server_name().map(str::to_owned));
                }
                Err(_) => return Said::Name(None),
            }
        }
        match self.taken < HELLO_BYTES_MAX {
            true => Said::More,
            false => Said::Name(None),
        }
    }

    /// Whether it is from an authority that asks for the name, which no other client speaks.
    pub fn is_of_acme(&self) -> bool {
        self.is_of_acme
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    fn hello(name: &'static str) -> Vec<u8> {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from(name).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_name_is_known_with_the_last_byte_of_the_message() {
        let bytes = hello("a.example");
        let (mut slow, mut whole) = (Hello::default(), Hello::default());
        for end in 0..bytes.len() {
            assert_eq!(slow.read(&bytes[..end]), Said::More, "{end}");
        }
        let name = Said::Name(Some("a.example".to_owned()));
        assert_eq!(slow.read(&bytes), name);
        assert_eq!(whole.read(&bytes), name);
        // An address is no name.
        assert_eq!(Hello::default().read(&hello("192.0.2.1")), Said::Name(None));
    }

    #[test]
    fn what_is_no_tls_or_without_end_asks_for_no_name() {
        let none = Said::Name(None);
        assert_eq!(Hello::default().read(b"GET / HTTP/1.1\r\n"), none);
        assert_eq!(Hello::default().read(b"SSH-2.0-x\r\n"), none);
        // Records that hold the beginning of a message of 16 megabytes.
        let mut long = Vec::new();
        while long.len() < HELLO_BYTES_MAX {
            long.extend_from_slice(&[22, 3, 1, 0, 4, 1, 255, 255, 255]);
        }
        assert_eq!(Hello::default().read(&long), none);
    }
}
