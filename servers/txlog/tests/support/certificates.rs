//! Certificates of a test's own, in files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tokio_rustls::rustls::ClientConfig;
use txlog::access::{Security, ServerTls, TlsFiles};
use txlog_client::{Connect, Tls};

/// An authority, with a directory for its certificates.
pub(crate) struct Authority {
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in files.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(directory.path().join("ca.pem"), certificate.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        Self { directory, issuer }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// A certificate for this name or address, in files of this name.
    pub(crate) fn issue(&self, file: &str, name: &str) -> Issued {
        self.issue_until(file, name, 4096)
    }

    /// One that is good until the beginning of this year.
    pub(crate) fn issue_until(&self, file: &str, name: &str, year: i32) -> Issued {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = |end: &str| self.directory.path().join(format!("{file}.{end}"));
        let issued = Issued {
            certificate: path("pem"),
            key: path("key"),
        };
        std::fs::write(&issued.certificate, certificate.pem()).unwrap();
        write_private(&issued.key, &key.serialize_pem());
        issued
    }

    /// A client that trusts this authority.
    pub(crate) fn connect(&self, own: Option<&Issued>) -> Connect {
        let files = txlog_client::TlsFiles {
            ca: self.ca(),
            certificate: own.map(|own| (own.certificate.clone(), own.key.clone())),
            server_name: None,
        };
        Connect::new().tls(Tls::read(&files).unwrap())
    }

    /// The same for a test that speaks TLS itself.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
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

/// A file that its owner alone can read.
pub(crate) fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

impl Issued {
    /// A server that has this certificate.
    pub(crate) fn security(&self, client_ca: Option<PathBuf>) -> Security {
        let files = TlsFiles {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            client_ca,
        };
        Security {
            tls: Some(Arc::new(ServerTls::read(files).unwrap())),
            ..Security::default()
        }
    }
}
