//! Whom a pool trusts, and as whom the proxy comes to its servers.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::MinVersion;
use super::files::Authorities;
use super::own::Own;
use crate::socket::Address;

/// How many sessions with a server are kept, to be resumed. Each connection brings one or two.
const SESSIONS_MAX: usize = 64;

/// How a server shows who it is.
#[derive(Debug)]
pub enum Verify {
    /// By a certificate of one of these, for its name, that has not expired.
    By(Authorities),
    /// By any certificate: what is sent is encrypted, and nobody knows for whom.
    Nothing,
}

/// TLS of a pool, as its files were when it was made. Two are equal if their files were.
#[derive(Clone)]
pub struct ClientSide {
    config: ClientConfig,
    /// The name of all servers, in place of each one's own.
    name: Option<ServerName<'static>>,
    own: Option<Arc<Own>>,
    digest: u64,
}

impl PartialEq for ClientSide {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl fmt::Debug for ClientSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSide")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl ClientSide {
    /// Makes it, for servers that speak one of these protocols, if any are given.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub fn new(
        verify: Verify,
        own: Option<Arc<Own>>,
        name: Option<ServerName<'static>>,
        min_version: MinVersion,
        protocols: Vec<Vec<u8>>,
    ) -> Result<Self, String> {
        let mut hasher = DefaultHasher::new();
        (&name, min_version, &protocols).hash(&mut hasher);
        let provider = Arc::new(default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(min_version.versions())
            .map_err(|why| why.to_string())?;
        let builder = match verify {
            Verify::By(authorities) => {
                authorities.digest.hash(&mut hasher);
                builder.with_root_certificates(authorities.roots)
            }
            Verify::Nothing => {
                let trusting = Arc::new(Trusting::new(&provider));
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(trusting)
            }
        };
        let mut config = match &own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                for certificate in &own.identity.cert {
                    certificate.as_ref().hash(&mut hasher);
                }
                let shown = SingleCertAndKey::from(Arc::clone(&own.identity));
                builder.with_client_cert_resolver(Arc::new(shown))
            }
        };
        config.alpn_protocols = protocols;
        Ok(Self {
            config,
            name,
            own,
            digest: hasher.finish(),
        })
    }

    /// The certificate with which the proxy comes.
    pub fn own(&self) -> Option<&Arc<Own>> {
        self.own.as_ref()
    }

    /// What connects to a server at this address, with sessions of its own.
    ///
    /// # Errors
    ///
    /// As [`server_name`].
    pub fn connector(&self, address: &Address) -> Result<Connector, String> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => server_name(address)?,
        };
        let (mut config, mut check) = (self.config.clone(), self.config.clone());
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        check.resumption = Resumption::disabled();
        Ok(Connector {
            config: Arc::new(config),
            check: Arc::new(check),
            name,
        })
    }
}

/// The name that is to be in the certificate of a server at this address.
///
/// # Errors
///
/// There is none.
pub fn server_name(address: &Address) -> Result<ServerName<'static>, String> {
    let wrong = || format!("{address} has no name that a certificate could have");
    let Address::Tcp(text) = address else {
        return Err(wrong());
    };
    let host = text
        .rsplit_once(':')
        .map_or(text.as_str(), |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).map_err(|_| wrong())
}

/// What connects to a server.
#[derive(Clone)]
pub struct Connector {
    pub(super) config: Arc<ClientConfig>,
    /// The same without resumption.
    pub(super) check: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Takes any certificate, from whoever has its key.
#[derive(Debug)]
struct Trusting(WebPkiSupportedAlgorithms);

impl Trusting {
    fn new(provider: &CryptoProvider) -> Self {
        Self(provider.signature_verification_algorithms)
    }
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_server_is_its_host() {
        for (address, name) in [
            ("a.example:1", "a.example"),
            ("10.0.0.1:1", "10.0.0.1"),
            ("[::1]:1", "::1"),
        ] {
            let expected = ServerName::try_from(name).unwrap();
            assert_eq!(server_name(&address.parse().unwrap()), Ok(expected));
        }
        for address in ["unix:/run/a", "a..b:1"] {
            assert!(server_name(&address.parse().unwrap()).is_err(), "{address}");
        }
    }
}
