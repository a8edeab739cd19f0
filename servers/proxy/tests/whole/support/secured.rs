//! Clients and servers of tests that speak TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind, RootCertStore,
    ServerConfig, ServerConnection, SignatureScheme, StreamOwned, SupportedProtocolVersion,
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{Authority, Client, Issued, connected};

/// A client over TLS.
pub(crate) type Secured = Client<StreamOwned<ClientConnection, TcpStream>>;

/// Whom a client trusts, and how it speaks. It knows the sessions of its connections.
#[derive(Clone)]
pub(crate) struct Trust(Arc<ClientConfig>);

impl Trust {
    pub(crate) fn of(authority: &Authority) -> Self {
        Self::with(authority, rustls::ALL_VERSIONS, None)
    }

    /// With these versions, and a certificate of the client.
    pub(crate) fn with(
        authority: &Authority,
        versions: &[&'static SupportedProtocolVersion],
        own: Option<&Issued>,
    ) -> Self {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots(authority));
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let (chain, key) = read(own);
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        Self(Arc::new(config))
    }

    /// The same with these protocols.
    pub(crate) fn speaking(&self, protocols: &[&str]) -> Self {
        let mut config = (*self.0).clone();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().into())
            .collect();
        Self(Arc::new(config))
    }

    /// A connection, of which the handshake is still to come.
    pub(crate) fn begin(&self, stream: TcpStream, name: &str) -> Secured {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let connection = ClientConnection::new(Arc::clone(&self.0), name).unwrap();
        Client::over(StreamOwned::new(connection, stream))
    }

    /// A connection to this name at this address.
    pub(crate) fn connect(&self, address: &str, name: &str) -> Secured {
        self.begin(connected(address), name)
    }
}

impl Secured {
    /// Says that nothing more comes.
    pub(crate) fn finish(&mut self) {
        self.stream.conn.send_close_notify();
        self.stream.flush().unwrap();
    }

    /// What the server has shown.
    pub(crate) fn certificate(&mut self) -> CertificateDer<'static> {
        while self.stream.conn.is_handshaking() {
            self.stream.conn.complete_io(&mut self.stream.sock).unwrap();
        }
        self.stream.conn.peer_certificates().unwrap()[0].clone()
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }
}

/// A server's side of a connection, with this certificate, which asks for one of these clients.
pub(crate) fn secured(
    own: &Issued,
    clients: Option<&Authority>,
) -> impl Fn(TcpStream) -> StreamOwned<ServerConnection, TcpStream> + Send + Sync + 'static {
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let roots = Arc::new(roots(authority));
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let (chain, key) = read(own);
    let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
    move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        StreamOwned::new(connection, stream)
    }
}

/// Asks by TLS for a name, as an authority does (RFC 8737), and looks at what is shown.
pub(super) fn asked_by_acme(proxy: &str, name: &str, _token: &str, expected: &str) {
    let provider = Arc::new(default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let anyone = Arc::new(Anyone(provider.signature_verification_algorithms));
    let builder = builder.dangerous().with_custom_certificate_verifier(anyone);
    let trust = Trust(Arc::new(builder.with_no_client_auth())).speaking(&["acme-tls/1"]);
    let mut client = trust.connect(proxy, name);
    let shown = client.certificate();
    assert_eq!(client.stream.conn.alpn_protocol(), Some(&b"acme-tls/1"[..]));
    let (_, shown) = X509Certificate::from_der(&shown).unwrap();
    let names = shown.subject_alternative_name().unwrap().unwrap();
    assert_eq!(names.value.general_names, [GeneralName::DNSName(name)]);
    let acme = shown.extensions().iter();
    let mut acme = acme.filter(|one| one.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
    let digest = ring::digest::digest(&ring::digest::SHA256, expected.as_bytes());
    let acme = acme.next().unwrap();
    assert!(acme.critical);
    // A string of 32 bytes.
    assert_eq!(acme.value, [&[4, 32][..], digest.as_ref()].concat());
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "nothing more is said: {rest:?}");
}

/// Takes any certificate: one for an authority has what others have to refuse.
#[derive(Debug)]
struct Anyone(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anyone {
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
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

fn roots(authority: &Authority) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(authority.ca()).unwrap())
        .unwrap();
    roots
}

fn read(own: &Issued) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    (
        vec![own.der()],
        PrivateKeyDer::from_pem_file(&own.key).unwrap(),
    )
}
