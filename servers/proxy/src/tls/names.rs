//! Which certificate is for which name: by the names in the certificates themselves.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

/// The names of hosts in a certificate, in lower case, some of which may begin with `*.`.
pub fn names(certified: &CertifiedKey) -> Vec<String> {
    let Some(certificate) = certified.cert.first() else {
        return Vec::new();
    };
    let Ok(certificate) = EndEntityCert::try_from(certificate) else {
        return Vec::new();
    };
    let names = certificate.valid_dns_names();
    names.map(str::to_ascii_lowercase).collect()
}

/// The certificates of a listener. The first one is for whoever asks for no name, or for another.
pub(super) struct ByName {
    certificates: Vec<Arc<CertifiedKey>>,
    names: Names,
}

impl ByName {
    /// There is at least one.
    pub(super) fn new(certificates: Vec<Arc<CertifiedKey>>) -> Self {
        let mut names = Names::default();
        for (index, certified) in certificates.iter().enumerate() {
            for name in self::names(certified) {
                names.add(&name, index);
            }
        }
        Self {
            certificates,
            names,
        }
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let of_name = hello.server_name().and_then(|name| self.names.find(name));
        let found = of_name.unwrap_or(&[0]);
        // One name may have a certificate for old clients and one for new ones.
        let can_sign = |index: &&usize| {
            let key = &self.certificates[**index].key;
            key.choose_scheme(hello.signature_schemes()).is_some()
        };
        let index = found.iter().find(can_sign).or(found.first())?;
        self.certificates.get(*index).map(Arc::clone)
    }
}

impl fmt::Debug for ByName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByName").field(&self.names).finish()
    }
}

/// Indices by names.
#[derive(Debug, Default)]
struct Names {
    whole: HashMap<String, Vec<usize>>,
    /// By what comes after `*.`, which stands for one label.
    below: HashMap<String, Vec<usize>>,
}

impl Names {
    fn add(&mut self, name: &str, index: usize) {
        let indices = match name.strip_prefix("*.") {
            Some(rest) => self.below.entry(rest.to_owned()).or_default(),
            None => self.whole.entry(name.to_owned()).or_default(),
        };
        indices.push(index);
    }

    fn find(&self, name: &str) -> Option<&[usize]> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let below = || self.below.get(name.split_once('.')?.1);
        self.whole.get(&name).or_else(below).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_go_before_wildcards_and_these_stand_for_one_label() {
        let mut names = Names::default();
        for (index, name) in ["a.example", "*.a.example", "b.a.example", "*.a.example"]
            .iter()
            .enumerate()
        {
            names.add(name, index);
        }
        for (name, found) in [
            ("a.example", Some(&[0][..])),
            ("A.Example.", Some(&[0][..])),
            ("b.a.example", Some(&[2][..])),
            ("c.A.example", Some(&[1, 3][..])),
            ("d.c.a.example", None),
            ("example", None),
            ("xa.example", None),
            ("", None),
        ] {
            assert_eq!(names.find(name), found, "{name}");
        }
    }
}
