//! Certificates and keys, as they stand in files in the PEM format.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// How many bytes a file may have.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The bits of a file's mode by which its group may change it, or others may do anything.
const NOT_PRIVATE: u32 = 0o027;

/// Why a file cannot be used for TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot use {} for TLS: {what}", .path.display())]
pub struct TlsError {
    /// The file.
    pub path: PathBuf,
    /// Why, and what to do.
    pub what: String,
}

impl TlsError {
    pub(super) fn new(path: &Path, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}

/// A certificate and its key.
pub type Identity = Arc<CertifiedKey>;

/// Who may say who somebody is.
#[derive(Clone, Debug)]
pub struct Authorities {
    pub(super) roots: Arc<RootCertStore>,
    /// Says whether they are others than before.
    pub(super) digest: u64,
}

/// A certificate, with those that lead to its authority, and its key.
///
/// # Errors
///
/// [`TlsError`]: a file cannot be read, has not what it has to have, or others can read the key; or
/// they do not belong together.
pub fn identity(certificate: &Path, key: &Path) -> Result<Identity, TlsError> {
    let chain = certificates(certificate)?;
    let text = read_private(key)?;
    let private = PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        let is_encrypted = text.windows(9).any(|part| part == b"ENCRYPTED");
        TlsError::new(
            key,
            match is_encrypted {
                true => "its private key is encrypted: write it without a passphrase",
                false => "there is no private key in it",
            },
        )
    })?;
    let provider = default_provider();
    let private = provider.key_provider.load_private_key(private);
    let private = private
        .map_err(|why| TlsError::new(key, format!("its private key is of no use: {why}")))?;
    let certified = CertifiedKey::new(chain, private);
    match certified.keys_match() {
        Ok(()) => Ok(Arc::new(certified)),
        Err(why) => {
            let key = key.display();
            let what = format!("it does not fit the key in {key}: {why}");
            Err(TlsError::new(certificate, what))
        }
    }
}

/// Those of a file.
///
/// # Errors
///
/// [`TlsError`]: it cannot be read, or has no certificate of an authority.
pub fn authorities(path: &Path) -> Result<Authorities, TlsError> {
    let mut roots = RootCertStore::empty();
    for root in certificates(path)? {
        let added = roots.add(root);
        added.map_err(|why| TlsError::new(path, why.to_string()))?;
    }
    Ok(Authorities::new(roots))
}

/// Those of the system.
///
/// # Errors
///
/// There are none.
pub fn system_authorities() -> Result<Authorities, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems have some that nobody can read, and they are not needed for the others.
    let (good, _) = roots.add_parsable_certificates(found.certs);
    if good > 0 {
        return Ok(Authorities::new(roots));
    }
    let why = found.errors.first().map(ToString::to_string);
    Err(format!(
        "the system has no authorities to verify servers by{}: install its package \
         ca-certificates, or give ca = FILE",
        why.map(|why| format!(" ({why})")).unwrap_or_default()
    ))
}

impl Authorities {
    fn new(roots: RootCertStore) -> Self {
        let mut hasher = DefaultHasher::new();
        for root in &roots.roots {
            (&*root.subject, &*root.subject_public_key_info).hash(&mut hasher);
        }
        Self {
            digest: hasher.finish(),
            roots: Arc::new(roots),
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = text(path, &open(path)?)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let read = read.map_err(|why| TlsError::new(path, why.to_string()))?;
    if read.is_empty() {
        return Err(TlsError::new(path, "there is no certificate in it"));
    }
    Ok(read)
}

/// A text of one line that others cannot read, such as a token.
///
/// # Errors
///
/// [`TlsError`]: the file cannot be read, others can read it, or it is no text.
pub fn secret(path: &Path) -> Result<String, TlsError> {
    let text = String::from_utf8(read_private(path)?);
    let text = text.map_err(|_| TlsError::new(path, "it is no text"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads a file which others cannot read, and the group cannot change. The group may read it, as
/// where a secret is mounted for a container's group.
fn read_private(path: &Path) -> Result<Vec<u8>, TlsError> {
    let file = open(path)?;
    let metadata = file.metadata().map_err(|error| said(path, &error))?;
    let mode = metadata.mode() & 0o777;
    if mode & NOT_PRIVATE != 0 {
        let what = format!(
            "others can read or change it, and it has a secret (its mode is {mode:03o}): \
             `chmod 600` it; if somebody may have read it, make a new one"
        );
        return Err(TlsError::new(path, what));
    }
    text(path, &file)
}

fn open(path: &Path) -> Result<File, TlsError> {
    File::open(path).map_err(|error| said(path, &error))
}

fn text(path: &Path, file: &File) -> Result<Vec<u8>, TlsError> {
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(TlsError::new(path, "it is no file"));
    }
    let mut text = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text);
    read.map_err(|error| said(path, &error))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let what = format!("it has more than {FILE_BYTES_MAX} bytes");
        return Err(TlsError::new(path, what));
    }
    Ok(text)
}

fn said(path: &Path, error: &io::Error) -> TlsError {
    let what = format!("{error}; see whether the path and the user are right");
    TlsError::new(path, what)
}
