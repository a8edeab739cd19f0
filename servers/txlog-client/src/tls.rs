//! TLS to a server: whom the client trusts, and as whom it comes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, RootCertStore, crypto,
};

use crate::error::ClientError;

/// The files of a client's TLS, each in the PEM format.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Certificates of the authorities that are trusted to say who a server is, and no others.
    pub ca: PathBuf,
    /// The client's own certificate, with those that lead to its authority, and its private key;
    /// if the server asks for one.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The name that has to be in the server's certificate; by default the host that is connected
    /// to.
    pub server_name: Option<String>,
}

/// TLS to a server. Clones share it, with what makes later connections shorter.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files. It blocks.
    ///
    /// # Errors
    ///
    /// [`ClientError::Unusable`]: which file, and why.
    pub fn read(files: &TlsFiles) -> Result<Self, ClientError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&files.ca)? {
            let added = roots.add(certificate);
            added.map_err(|error| unusable(&files.ca, &error.to_string()))?;
        }
        let provider = Arc::new(crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder
            .map_err(|error| unusable(&files.ca, &error.to_string()))?
            .with_root_certificates(roots);
        let config = match &files.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let read = PrivateKeyDer::from_pem_file(key);
                let read = read.map_err(|error| unusable(key, &error.to_string()))?;
                let config = builder.with_client_auth_cert(certificates(certificate)?, read);
                config.map_err(|error| {
                    let why = format!("it does not fit the key in {}: {error}", key.display());
                    unusable(certificate, &why)
                })?
            }
        };
        Ok(Self {
            config: Arc::new(config),
            server_name: files.server_name.clone(),
        })
    }

    /// Shakes hands over a stream to this address.
    pub(crate) async fn over<S>(
        &self,
        stream: S,
        address: &str,
    ) -> Result<TlsStream<S>, ClientError>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let host = self.server_name.as_deref().unwrap_or(host(address));
        let name = ServerName::try_from(host.to_owned()).map_err(|_| ClientError::Unusable {
            what: format!("{host:?} is no name that a server's certificate can have").into(),
        })?;
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let shaken = connector.connect(name, stream).await;
        shaken.map_err(|error| failed(address, &error).unwrap_or_else(|| cut(address, error)))
    }
}

/// Host and port without the port.
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| unusable(path, &error.to_string()))?;
    match read.is_empty() {
        true => Err(unusable(path, "there is no certificate in it")),
        false => Ok(read),
    }
}

fn unusable(path: &Path, why: &str) -> ClientError {
    let what = format!("cannot use {} for TLS: {why}", path.display());
    ClientError::Unusable { what: what.into() }
}

/// What went wrong in TLS, if it was that.
pub(crate) fn failed(address: &str, error: &io::Error) -> Option<ClientError> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(ClientError::Tls {
        address: address.to_owned(),
        what: said(error).into(),
    })
}

/// The connection broke before anything was agreed on, which may pass.
fn cut(address: &str, error: io::Error) -> ClientError {
    ClientError::Connect {
        address: address.to_owned(),
        source: Arc::new(error),
    }
}

/// The error, and what to do.
fn said(error: &Error) -> String {
    let advice = match error {
        Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is from none of the authorities that are trusted: see whether \
                 --tls-ca is the right file, and this the right server"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired: have the server's operator renew it"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name: connect to that one, or say it by \
                 --tls-server-name"
            }
            _ => "its certificate cannot be trusted",
        },
        Error::InvalidMessage(_) => {
            "it does not speak TLS: leave TLS out here, or give that server --tls-cert"
        }
        Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                "it asks for a client's certificate: give one by --tls-cert and --tls-key"
            }
            AlertDescription::HandshakeFailure => {
                "it asks for a client's certificate, or offers no cipher that this client knows"
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::DecryptError => {
                "it does not accept this client's certificate: see whether it is from the \
                 authority in the server's --tls-client-ca, and has not expired"
            }
            _ => "it refused",
        },
        _ => "the handshake failed",
    };
    format!("{advice} ({error})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_what_is_before_the_port() {
        for (address, expected) in [
            ("localhost:7010", "localhost"),
            ("10.0.0.1:1", "10.0.0.1"),
            ("[::1]:7010", "::1"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(host(address), expected);
        }
    }
}
