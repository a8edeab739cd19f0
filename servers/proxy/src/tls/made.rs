//! Certificates that are made here, and that nobody trusts.

use std::sync::Arc;

use rcgen::{Certificate, CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::files::Identity;

/// What an authority speaks that asks by TLS whether a name is ours, and nobody else.
pub(super) const ACME_TLS: &[u8] = b"acme-tls/1";

/// One for these names, until there is one that clients trust.
pub(super) fn makeshift(names: &[String]) -> Result<Identity, String> {
    let made = rcgen::generate_simple_self_signed(names).map_err(|why| why.to_string())?;
    of(&made.cert, &made.signing_key)
}

/// How an authority is answered that asks for this name: by a certificate for it with this digest
/// (RFC 8737, section 3).
///
/// # Errors
///
/// What is wrong.
pub fn challenge(name: &str, digest: &[u8; 32]) -> Result<Arc<ServerConfig>, String> {
    let wrong = |why: rcgen::Error| why.to_string();
    let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(wrong)?;
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate().map_err(wrong)?;
    let made = params.self_signed(&key).map_err(wrong)?;
    let identity = of(&made, &key)?;
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .map_err(|why| why.to_string())?;
    let resolver = Arc::new(SingleCertAndKey::from(identity));
    let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
    config.alpn_protocols = vec![ACME_TLS.to_vec()];
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn of(certificate: &Certificate, key: &KeyPair) -> Result<Identity, String> {
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let loaded = default_provider().key_provider;
    let loaded = loaded.load_private_key(PrivateKeyDer::Pkcs8(key));
    let loaded = loaded.map_err(|why| why.to_string())?;
    let chain = vec![certificate.der().clone()];
    Ok(Arc::new(CertifiedKey::new(chain, loaded)))
}
