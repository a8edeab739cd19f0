//! A server's TLS: its certificate, and those of its clients.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto};

use super::private::{read_file, read_private};

/// How many bytes a file may have.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The files of a server's TLS, each in the PEM format.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// The server's certificate, with those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key, which others must not be able to read.
    pub key: PathBuf,
    /// The authorities of clients: if there are some, each client has to come with a certificate of
    /// theirs.
    pub client_ca: Option<PathBuf>,
}

/// A server's TLS, from files that can be read again.
pub struct ServerTls {
    files: TlsFiles,
    config: Mutex<Arc<ServerConfig>>,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// Why a file cannot be used for TLS.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot use {} for TLS: {what}", .path.display())]
#[non_exhaustive]
pub struct TlsError {
    /// The file.
    pub path: PathBuf,
    /// Why, and what to do.
    pub what: String,
}

impl ServerTls {
    /// Reads the files. It blocks.
    ///
    /// # Errors
    ///
    /// [`TlsError`]: a file cannot be read, has not what it has to have, or others can read the
    /// key.
    pub fn read(files: TlsFiles) -> Result<Self, TlsError> {
        let config = Mutex::new(config(&files)?);
        Ok(Self { files, config })
    }

    /// Reads the files again, for connections to come. It blocks.
    ///
    /// # Errors
    ///
    /// As [`read`](ServerTls::read); then all stays as it was.
    pub fn read_again(&self) -> Result<(), TlsError> {
        let config = config(&self.files)?;
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Whether clients have to come with a certificate.
    pub fn asks_clients(&self) -> bool {
        self.files.client_ca.is_some()
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let TlsFiles {
        certificate,
        key,
        client_ca,
    } = files;
    let chain = certificates(certificate)?;
    let text = read_private(key, FILE_BYTES_MAX).map_err(|what| error(key, what))?;
    let private = PrivateKeyDer::from_pem_slice(text.as_bytes());
    let private = private.map_err(|_| error(key, "there is no private key in it"))?;
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|why| error(certificate, why.to_string()))?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                let added = roots.add(root);
                added.map_err(|why| error(path, why.to_string()))?;
            }
            let roots = Arc::new(roots);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.map_err(|why| error(path, why.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(chain, private).map_err(|why| {
        let what = format!("it does not fit the key in {}: {why}", key.display());
        error(certificate, what)
    })?;
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read_file(path, FILE_BYTES_MAX).map_err(|what| error(path, what))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let read = read.map_err(|why| error(path, why.to_string()))?;
    match read.is_empty() {
        true => Err(error(path, "there is no certificate in it")),
        false => Ok(read),
    }
}

fn error(path: &Path, what: impl Into<String>) -> TlsError {
    TlsError {
        path: path.to_owned(),
        what: what.into(),
    }
}
