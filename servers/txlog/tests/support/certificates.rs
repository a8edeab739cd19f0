//! Certificates of a test's own, for servers and clients of the log.

use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use servers_common::testing::{Authority, Issued};
use tokio_rustls::rustls::ClientConfig;
use txlog::access::{Security, ServerTls, TlsFiles};
use txlog_client::{Connect, Tls};

/// What an authority is to clients.
pub(crate) trait Trusted {
    /// A client that trusts this authority.
    fn connect(&self, own: Option<&Issued>) -> Connect;

    /// The same for a test that speaks TLS itself.
    fn config(&self) -> Arc<ClientConfig>;
}

impl Trusted for Authority {
    fn connect(&self, own: Option<&Issued>) -> Connect {
        let files = txlog_client::TlsFiles {
            ca: self.ca(),
            certificate: own.map(|own| (own.certificate.clone(), own.key.clone())),
            server_name: None,
        };
        Connect::new().tls(Tls::read(&files).unwrap())
    }

    fn config(&self) -> Arc<ClientConfig> {
        use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
        use tokio_rustls::rustls::{RootCertStore, crypto};
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.ca()).unwrap())
            .unwrap();
        let provider = Arc::new(crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
    }
}

/// A server that has this certificate.
pub(crate) fn security(issued: &Issued, client_ca: Option<PathBuf>) -> Security {
    let files = TlsFiles {
        certificate: issued.certificate.clone(),
        key: issued.key.clone(),
        client_ca,
    };
    Security {
        tls: Some(Arc::new(ServerTls::read(files).unwrap())),
        ..Security::default()
    }
}
