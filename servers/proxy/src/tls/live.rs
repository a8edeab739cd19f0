//! The certificate of a listener that gets it by itself: another one takes its place while the
//! listener goes on.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::files::{self, Identity, TlsError};
use super::made::makeshift;

/// The certificate at the moment.
pub struct Live {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    certified: Identity,
    /// It was made here, for as long as there is none of an authority: handshakes are served, and
    /// clients refuse it.
    is_makeshift: bool,
}

impl Live {
    /// The certificate in this file, with its key; one that is made here if there is no such file.
    ///
    /// # Errors
    ///
    /// [`TlsError`]: there is one, and it cannot be used; or none can be made.
    pub fn read(path: &Path, names: &[String]) -> Result<Self, TlsError> {
        let is_makeshift = !path.exists();
        let certified = match is_makeshift {
            true => makeshift(names).map_err(|why| TlsError::new(path, why))?,
            false => files::identity(path, path)?,
        };
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::new(State {
                certified,
                is_makeshift,
            }),
        })
    }

    /// Where it is kept.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The one that an authority has issued, if there is one.
    pub fn own(&self) -> Option<Identity> {
        let state = self.state();
        (!state.is_makeshift).then(|| Arc::clone(&state.certified))
    }

    /// Handshakes from here on have this one.
    pub fn set(&self, certified: Identity) {
        *self.state() = State {
            certified,
            is_makeshift: false,
        };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is made whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for Live {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.state().certified))
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use servers_common::testing::Authority;

    use super::*;

    #[test]
    fn a_makeshift_certificate_is_not_taken_for_one_of_an_authority() {
        let authority = Authority::new("one");
        let names = ["a.example".to_owned()];
        let live = Live::read(&authority.path("web.pem"), &names).unwrap();
        assert!(live.own().is_none());
        let issued = authority.issue("own", &["a.example"]);
        let identity = files::identity(&issued.certificate, &issued.key).unwrap();
        live.set(Arc::clone(&identity));
        assert!(Arc::ptr_eq(&live.own().unwrap(), &identity));
        // One that is there and cannot be used is not passed over.
        std::fs::write(authority.path("web.pem"), "no").unwrap();
        let error = Live::read(&authority.path("web.pem"), &names).unwrap_err();
        assert!(error.to_string().contains("web.pem"), "{error}");
    }
}
