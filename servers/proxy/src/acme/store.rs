//! The files: an account for each authority, and a certificate with its key for each listener.
//! Nobody else may read them, and each is there whole or as it was before.

use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use instant_acme::AccountCredentials;
use ring::digest::{SHA256, digest};

/// What others may do with the directory: nothing.
const OTHERS: u32 = 0o077;

/// An account, and a certificate with its chain and its key twice, are less.
const ROOM: usize = 64 * 1_024;

/// Why the state cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system says so.
    #[error("{}: {error}; see whether the path and the user are right", .path.display())]
    System {
        /// Of what.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
    /// Others can read or change what is in the directory.
    #[error(
        "others can use {}, and it has keys (its mode is {mode:03o}): `chmod 700` it; if somebody \
         may have read them, remove what is in it", .path.display()
    )]
    Open {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is no account.
    #[error("{} is no account ({error}): remove it, and another one is made", .path.display())]
    NoAccount {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: serde_json::Error,
    },
}

impl StoreError {
    fn system(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::System { path, error }
    }
}

/// The file of a listener's certificate.
pub fn certificate_path(directory: &Path, listener: &str) -> PathBuf {
    directory.join(format!("{listener}.pem"))
}

/// A certificate's file begins with who has issued it, which those who read PEM pass over.
const ISSUED_BY: &str = "# Issued by ";

/// What is kept of a certificate.
pub(super) fn certificate(authority: &str, chain: &str, key: &str) -> String {
    format!("{ISSUED_BY}{authority}\n{}\n{key}", chain.trim_end())
}

/// The directory of the authority that has issued what is in this file, if the file says so.
pub(super) fn authority(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let authority = text.lines().next()?.strip_prefix(ISSUED_BY)?;
    Some(authority.to_owned())
}

/// Makes the directory, unless it is there and nobody else can use it.
pub(super) fn prepare(directory: &Path) -> Result<(), StoreError> {
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(directory);
    made.map_err(StoreError::system(directory))?;
    let metadata = std::fs::metadata(directory).map_err(StoreError::system(directory))?;
    let mode = metadata.mode() & 0o777;
    if mode & OTHERS != 0 {
        let path = directory.to_owned();
        return Err(StoreError::Open { path, mode });
    }
    Ok(())
}

/// Whether there is room for what an authority will give, of which it may not give much more.
pub(super) fn probe(directory: &Path) -> Result<(), StoreError> {
    let path = directory.join("probe");
    write(&path, &[b'\n'; ROOM])?;
    std::fs::remove_file(&path).map_err(StoreError::system(&path))
}

/// The account with the authority that has this directory, if there is one.
pub(super) fn account(
    directory: &Path,
    authority: &str,
) -> Result<Option<AccountCredentials>, StoreError> {
    let path = account_path(directory, authority);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::System { path, error }),
    };
    let read = serde_json::from_slice(&text);
    read.map(Some)
        .map_err(|error| StoreError::NoAccount { path, error })
}

/// Keeps an account.
pub(super) fn keep_account(
    directory: &Path,
    authority: &str,
    account: &AccountCredentials,
) -> Result<(), StoreError> {
    let path = account_path(directory, authority);
    let text = serde_json::to_vec(account);
    let text = text.map_err(|error| StoreError::NoAccount {
        path: path.clone(),
        error,
    })?;
    write(&path, &text)
}

/// Each authority has an account of its own, so that one can be tried beside another. Its name is
/// the same in every build, as std's hashes need not be: the next one would make another account.
fn account_path(directory: &Path, authority: &str) -> PathBuf {
    let whole = digest(&SHA256, authority.as_bytes());
    let bytes = whole.as_ref().iter().take(8);
    let number = bytes.fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    directory.join(format!("account-{number:016x}.json"))
}

/// Writes a file that only its owner can read, in one step for whoever reads.
pub(super) fn write(path: &Path, text: &[u8]) -> Result<(), StoreError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let written = || {
        // One that was left there may have another mode.
        match std::fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    written().map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        StoreError::system(path)(error)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_name_of_an_account_is_that_of_other_builds() {
        let path = account_path(Path::new("state"), "https://ca.example/directory");
        assert_eq!(path, Path::new("state/account-0d5eb258bf2bed96.json"));
    }

    #[test]
    fn files_are_for_their_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("a/own");
        prepare(&own).unwrap();
        assert_eq!(std::fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        let path = certificate_path(&own, "web");
        std::fs::write(own.join("web.pem.new"), "left by another one").unwrap();
        for text in ["one", "two"] {
            write(&path, text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        }
        assert_eq!(std::fs::read_dir(&own).unwrap().count(), 1);
        let open = std::fs::Permissions::from_mode(0o750);
        std::fs::set_permissions(&own, open).unwrap();
        let error = prepare(&own).unwrap_err().to_string();
        assert!(
            error.contains("750") && error.contains("chmod 700"),
            "{error}"
        );
    }

    #[test]
    fn an_account_belongs_to_its_authority() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (
            "https://one.example/directory",
            "https://other.example/directory",
        );
        assert!(account(directory.path(), one).unwrap().is_none());
        let key = rcgen::KeyPair::generate().unwrap().serialize_der();
        let key = base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, key);
        let text = format!("{{\"id\":\"x\",\"key_pkcs8\":\"{key}\",\"directory\":\"{one}\"}}");
        let credentials = serde_json::from_str(&text).unwrap();
        keep_account(directory.path(), one, &credentials).unwrap();
        assert!(account(directory.path(), one).unwrap().is_some());
        assert!(account(directory.path(), other).unwrap().is_none());
        std::fs::write(account_path(directory.path(), other), "{}").unwrap();
        let error = account(directory.path(), other).err().unwrap().to_string();
        assert!(error.contains("is no account"), "{error}");
    }
}
