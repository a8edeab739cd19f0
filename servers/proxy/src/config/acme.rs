//! Certificates that a listener gets by itself, from an authority that speaks ACME.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use super::tls::Reader;
use crate::acme::{Challenge, Wanted, certificate_path, is_allowed};
use crate::tls::{self, ClientSide, Live, MinVersion, Verify};

/// The names of a certificate; the public authorities take no more.
const NAMES_MAX: usize = 100;

/// Whom an authority may ask, at most.
const CONTACTS_MAX: usize = 10;

/// A certificate to be had.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerAcme {
    /// The URL of the authority's directory.
    pub directory: Spanned<String>,
    /// Whom the authority may ask, such as `mailto:somebody@example.org`.
    #[serde(default = "no_contacts")]
    pub contacts: Spanned<Vec<String>>,
    /// The names of the certificate.
    pub names: Spanned<Vec<String>>,
    /// How the authority sees whose they are.
    #[serde(default)]
    pub challenge: Challenge,
    /// That the authority's terms were read, and are agreed to.
    pub terms_agreed: Spanned<bool>,
    /// The directory with the account and the certificates.
    pub state: Spanned<PathBuf>,
    /// Whose certificate the authority's server has; those that the system trusts, if it is not
    /// given.
    pub ca: Option<Spanned<PathBuf>>,
    /// What comes of it.
    #[serde(skip)]
    pub wanted: Option<Wanted>,
    /// The certificate, as it was when this was read.
    #[serde(skip)]
    pub live: Option<Arc<Live>>,
}

/// As it was written: what the certificate is at the moment makes no other configuration.
impl PartialEq for ListenerAcme {
    fn eq(&self, other: &Self) -> bool {
        self.wanted == other.wanted
    }
}

fn no_contacts() -> Spanned<Vec<String>> {
    Spanned::new(0..0, Vec::new())
}

impl Reader<'_> {
    /// Reads what is there of a listener's certificate, and says what is wrong with what is asked
    /// for. `has_answers` says whether any listener could answer the authority.
    pub(super) fn acme(
        &mut self,
        name: &str,
        has_answers: bool,
        acme: &mut ListenerAcme,
        at: &Range<usize>,
    ) {
        if !has_answers && acme.challenge == Challenge::Http {
            let said = format!(
                "the authority asks by HTTP for the names of listener {name}, and no listener has \
                 mode \"http\" without tls: add one, on port 80, or take challenge = \
                 \"tls-alpn-01\""
            );
            self.say(at.clone(), said);
        }
        self.said_of_acme(acme);
        let verify = match &acme.ca {
            Some(ca) => {
                let read = tls::authorities(&self.path(ca.get_ref()));
                self.good(ca.span(), read.map_err(|why| why.to_string()))
            }
            None => self.good(at.clone(), tls::system_authorities()),
        };
        let trust = verify.and_then(|by| {
            let (verify, version) = (Verify::By(by), MinVersion::default());
            let side = ClientSide::new(verify, None, None, version, Vec::new());
            self.good(at.clone(), side)
        });
        let state = self.path(acme.state.get_ref());
        let live = Live::read(&certificate_path(&state, name), acme.names.get_ref());
        let live = self.good(acme.state.span(), live.map_err(|why| why.to_string()));
        acme.live = live.map(Arc::new);
        acme.wanted = trust.map(|trust| Wanted {
            directory: acme.directory.get_ref().clone(),
            contacts: acme.contacts.get_ref().clone(),
            names: acme.names.get_ref().clone(),
            challenge: acme.challenge,
            state,
            trust,
        });
    }

    fn said_of_acme(&mut self, acme: &ListenerAcme) {
        let url = acme.directory.get_ref();
        if !url.parse().is_ok_and(|uri| is_allowed(&uri)) {
            let said = format!("{url:?} is no URL of an authority: it begins with https://");
            self.say(acme.directory.span(), said);
        }
        let names = acme.names.get_ref();
        if names.is_empty() || names.len() > NAMES_MAX {
            let said = format!("a certificate has from 1 to {NAMES_MAX} names");
            self.say(acme.names.span(), said);
        }
        if let Some(name) = names.iter().find(|name| !is_name(name)) {
            let said = format!(
                "no certificate for {name:?} can be had like this: take names of hosts, in small \
                 letters, without `*`"
            );
            self.say(acme.names.span(), said);
        }
        let contacts = acme.contacts.get_ref();
        let is_contact = |contact: &String| contact.starts_with("mailto:") && contact.len() < 300;
        if contacts.len() > CONTACTS_MAX || !contacts.iter().all(is_contact) {
            let said = format!(
                "contacts are up to {CONTACTS_MAX} addresses, such as \"mailto:a@example.org\""
            );
            self.say(acme.contacts.span(), said);
        }
        if !acme.terms_agreed.get_ref() {
            let said = "the authority gives certificates to those who agree to its terms: read \
                        them, and set terms_agreed = true";
            self.say(acme.terms_agreed.span(), said);
        }
    }
}

/// Whether a certificate for this name can be had by HTTP or TLS: it is of a host, and stands for
/// one.
pub(super) fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_of_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| is_of_label(byte) || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_hosts() {
        for name in ["a.example", "xn--bcher-kva.example", "a-1.b", "localhost"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "*.a.example",
            "A.example",
            "a..b",
            "-a.b",
            "a.b.",
            "a b",
        ] {
            assert!(!is_name(name), "{name}");
        }
    }
}
