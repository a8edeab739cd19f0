//! Certificates of a test's own, in files.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, IsCa, Issuer,
    KeyPair, date_time_ymd,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer};
use tempfile::TempDir;

/// An authority, with a directory for its certificates.
pub struct Authority {
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in files.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// Of this name.
    pub fn new(name: &str) -> Self {
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

    /// Its own certificate.
    pub fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// A file in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A certificate for these names or addresses, in files of this name.
    pub fn issue(&self, file: &str, names: &[&str]) -> Issued {
        self.issue_until(file, names, 4096)
    }

    /// A certificate for who comes with this request, good from and until the beginning of these
    /// years.
    pub fn sign(&self, request: &[u8], [from, until]: [i32; 2]) -> String {
        let request = CertificateSigningRequestDer::from(request);
        let mut request = CertificateSigningRequestParams::from_der(&request).unwrap();
        request.params.not_before = date_time_ymd(from, 1, 1);
        request.params.not_after = date_time_ymd(until, 1, 1);
        request.signed_by(&self.issuer).unwrap().pem()
    }

    /// One that is good until the beginning of this year.
    pub fn issue_until(&self, file: &str, names: &[&str], year: i32) -> Issued {
        self.issue_within(file, names, [2000, year])
    }

    /// One that is good from and until the beginning of these years.
    pub fn issue_within(&self, file: &str, names: &[&str], [from, until]: [i32; 2]) -> Issued {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let issued = Issued {
            certificate: self.path(&format!("{file}.pem")),
            key: self.path(&format!("{file}.key")),
        };
        std::fs::write(&issued.certificate, certificate.pem()).unwrap();
        write_private(&issued.key, &key.serialize_pem());
        issued
    }
}

impl Issued {
    /// The certificate, as TLS sends it.
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.certificate).unwrap()
    }

    /// How it stands in a configuration, under these keys.
    pub fn config(&self, certificate: &str) -> String {
        let Self {
            certificate: file,
            key,
        } = self;
        format!("{certificate} = {file:?}\nkey = {key:?}\n")
    }
}

/// A file that its owner alone can read.
pub fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
