//! The certificate of a listener that gets it by itself: another one takes its place while the
//! listener goes on.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::files::{self, Identity, TlsError};
use super::lifetime::lifetime;
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
    /// It is the one of the file, which nobody has taken over yet.
    is_read: bool,
}

impl State {
    fn set(&mut self, certified: Identity) {
        *self = Self {
            certified,
            is_makeshift: false,
            is_read: false,
        };
    }
}

impl Live {
    /// The certificate in this file, with its key; one that is made here if there is no such file.
    ///
    /// # Errors
    ///
    /// [`TlsError`]: there is one, and it cannot be used; or none can be made.
    pub fn read(path: &Path, names: &[String]) -> Result<Self, TlsError> {
        let is_there = path.try_exists();
        let is_makeshift = !is_there.map_err(|why| TlsError::new(path, why.to_string()))?;
        let certified = match is_makeshift {
            true => makeshift(names).map_err(|why| TlsError::new(path, why))?,
            false => files::identity(path, path)?,
        };
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::new(State {
                certified,
                is_makeshift,
                is_read: !is_makeshift,
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

    /// The one of the file, once: a configuration may be gone by again long after it was read, when
    /// another one has been issued.
    pub fn take_read(&self) -> Option<Identity> {
        let mut state = self.state();
        let is_read = std::mem::take(&mut state.is_read);
        is_read.then(|| Arc::clone(&state.certified))
    }

    /// Handshakes from here on have this one.
    pub fn set(&self, certified: Identity) {
        self.state().set(certified);
    }

    /// The same with one of the file, unless another one was issued since that was read.
    pub fn follow(&self, read: Identity) {
        let mut state = self.state();
        let begin = |certified: &Identity| lifetime(certified).map(|lifetime| lifetime.begin);
        if state.is_makeshift || begin(&read) >= begin(&state.certified) {
            state.set(read);
        }
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
        assert!(live.take_read().is_none(), "it was not in the file");
        // One of a file that was read before does not take its place.
        let older = authority.issue_within("old", &["a.example"], [1_990, 4_096]);
        let older = files::identity(&older.certificate, &older.key).unwrap();
        live.follow(Arc::clone(&older));
        assert!(Arc::ptr_eq(&live.own().unwrap(), &identity));
        let both = authority.path("both.pem");
        std::fs::copy(&issued.key, &both).unwrap();
        let text = [&issued.key, &issued.certificate].map(|path| std::fs::read(path).unwrap());
        std::fs::write(&both, text.concat()).unwrap();
        let read = Live::read(&both, &names).unwrap();
        let first = read.take_read().unwrap();
        live.follow(Arc::clone(&first));
        assert!(Arc::ptr_eq(&live.own().unwrap(), &first));
        assert!(read.take_read().is_none(), "once");
        // One that is there and cannot be used is not passed over.
        std::fs::write(authority.path("web.pem"), "no").unwrap();
        let error = Live::read(&authority.path("web.pem"), &names).unwrap_err();
        assert!(error.to_string().contains("web.pem"), "{error}");
    }
}
