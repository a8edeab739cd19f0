//! The files by which a configuration goes.

use std::path::{Path, PathBuf};

use toml::Spanned;

use super::Config;
use super::tls::Certificates;

/// Itself and all that it names, of which the paths that do not begin with a `/` are from its
/// directory on. What is no file of its own, such as a key beside its certificate, is there once.
pub(super) fn files(file: &Path, config: &Config) -> Vec<PathBuf> {
    let directory = file.parent().unwrap_or(Path::new(""));
    let mut files = vec![file.to_owned()];
    let mut add = |path: Option<&Spanned<PathBuf>>| {
        files.extend(path.map(|path| directory.join(path.get_ref())));
    };
    for listener in config.listeners.values() {
        let Some(tls) = &listener.get_ref().tls else {
            continue;
        };
        let tls = tls.get_ref();
        match tls.certificate.as_ref().map(|it| (it.span(), it.get_ref())) {
            None => {}
            Some((at, Certificates::One(path))) => add(Some(&Spanned::new(at, path.clone()))),
            Some((_, Certificates::Many(several))) => {
                for certificate in several {
                    add(Some(&certificate.file));
                    add(certificate.key.as_ref());
                }
            }
        }
        add(tls.key.as_ref());
        add(tls.client_ca.as_ref());
        add(tls
            .acme
            .as_ref()
            .and_then(|acme| acme.get_ref().ca.as_ref()));
    }
    for pool in config.pools.values() {
        let Some(tls) = &pool.get_ref().tls else {
            continue;
        };
        let tls = tls.get_ref();
        for path in [&tls.ca, &tls.certificate, &tls.key] {
            add(path.as_ref());
        }
    }
    files.sort();
    files.dedup();
    files
}
