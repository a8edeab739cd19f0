//! When a certificate begins and ends to hold, and what operators are told of it.

use jiff::Timestamp;
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::names;

/// The names that are shown of a certificate with many.
const SHOWN_MAX: usize = 8;

/// From when to when a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Its first second.
    pub begin: Timestamp,
    /// Its last one.
    pub end: Timestamp,
}

/// That of a certificate, if it says one that a calendar has.
pub fn lifetime(certified: &CertifiedKey) -> Option<Lifetime> {
    let (_, certificate) = X509Certificate::from_der(certified.cert.first()?).ok()?;
    let validity = certificate.validity();
    Some(Lifetime {
        begin: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
        end: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
    })
}

/// A certificate for people: its names, and until when it holds.
pub fn described(certified: &CertifiedKey) -> String {
    let shown = shown_names(certified);
    match lifetime(certified) {
        Some(lifetime) => format!("{shown}, until {}", lifetime.end),
        None => shown,
    }
}

/// The names of a certificate for people.
pub(super) fn shown_names(certified: &CertifiedKey) -> String {
    let names = names(certified);
    let mut shown = names[..names.len().min(SHOWN_MAX)].join(", ");
    if names.is_empty() {
        "no name of a host".clone_into(&mut shown);
    } else if names.len() > SHOWN_MAX {
        shown += &format!(" and {} more", names.len() - SHOWN_MAX);
    }
    shown
}

#[cfg(test)]
mod tests {
    use servers_common::testing::Authority;

    use super::*;

    #[test]
    fn a_certificate_says_how_long_it_holds() {
        let authority = Authority::new("one");
        let issued = authority.issue_until("own", &["a.example", "b.example"], 2099);
        let identity = crate::tls::identity(&issued.certificate, &issued.key).unwrap();
        let lifetime = lifetime(&identity).unwrap();
        assert!(lifetime.begin < Timestamp::now());
        assert!(lifetime.end.to_string().starts_with("2099-"));
        let end = lifetime.end;
        assert_eq!(
            described(&identity),
            format!("a.example, b.example, until {end}")
        );
    }
}
