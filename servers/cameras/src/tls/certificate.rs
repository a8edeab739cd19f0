//! The server's certificate, from files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;

/// No certificate and no key is longer.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where the certificate is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The chain, in PEM, beginning with the server's own certificate.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// Why there is no TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {why}")]
pub struct TlsError {
    /// The file.
    file: String,
    /// What is wrong with it.
    why: String,
}

/// A certificate, which may be changed while it is in use. A clone is the same.
#[derive(Clone, Debug)]
pub struct Certificate(Arc<Mutex<Configs>>);

/// The certificate for each protocol that is spoken over TLS.
#[derive(Clone, Debug)]
struct Configs {
    http: Arc<ServerConfig>,
    rtsp: Arc<ServerConfig>,
}

impl Certificate {
    /// Reads it. This blocks.
    ///
    /// # Errors
    ///
    /// [`TlsError`]: which file is wrong, and how.
    pub fn read(files: &Files) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(Mutex::new(configs(files)?))))
    }

    /// Is another one, for connections to come.
    pub fn become_like(&self, other: &Self) {
        let other = other.configs();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = other;
    }

    /// For HTTP.
    pub(super) fn http(&self) -> Arc<ServerConfig> {
        self.configs().http
    }

    /// For RTSP.
    pub(super) fn rtsp(&self) -> Arc<ServerConfig> {
        self.configs().rtsp
    }

    fn configs(&self) -> Configs {
        let configs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        configs.clone()
    }
}

fn configs(files: &Files) -> Result<Configs, TlsError> {
    let text = read(&files.certificate)?;
    let chain = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let chain = chain.unwrap_or_default();
    if chain.is_empty() {
        return Err(wrong(
            &files.certificate,
            "there is no certificate in it, in PEM",
        ));
    }
    let text = read(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&text);
    let key = key.map_err(|_| wrong(&files.key, "there is no private key in it, in PEM"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&files.certificate, error))?;
    let rtsp = builder
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&files.key, error))?;
    let mut http = rtsp.clone();
    http.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Configs {
        http: Arc::new(http),
        rtsp: Arc::new(rtsp),
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| wrong(path, error))?;
    let mut file = io::Read::take(file, FILE_BYTES_MAX);
    io::Read::read_to_end(&mut file, &mut bytes).map_err(|error| wrong(path, error))?;
    Ok(bytes)
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> TlsError {
    TlsError {
        file: path.display().to_string(),
        why: why.to_string(),
    }
}
