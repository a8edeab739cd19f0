//! Which certificates of others are good: those that an authority vouches for which the system
//! trusts, or one by its fingerprint, as cameras make their certificates themselves.

use std::io;
use std::sync::Arc;

use evenkeel::net::TcpStream;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use serde::{Deserialize, Deserializer, de};
use sha2::{Digest, Sha256};
use tokio_rustls::TlsConnector;

use super::Stream;

/// Certificates of others cannot be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("TLS needs the authorities that the system trusts, and there are none")]
pub struct NoAuthorities;

/// The SHA-256 of a certificate, as `openssl x509 -fingerprint -sha256` prints it, with colons or
/// without.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Fingerprint {
    /// Reads one.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: String = text.chars().filter(|&letter| letter != ':').collect();
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            let said = "this is no fingerprint: write the 64 digits of the certificate's SHA-256, \
                        as `openssl x509 -fingerprint -sha256` prints them";
            de::Error::custom(said)
        })
    }
}

/// A client that trusts whom the system trusts, or the one whose certificate has this fingerprint.
///
/// # Errors
///
/// [`NoAuthorities`].
pub fn trusting(fingerprint: Option<Fingerprint>) -> Result<Arc<ClientConfig>, NoAuthorities> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|_| NoAuthorities)?;
    if let Some(wanted) = fingerprint {
        let pinned = Arc::new(Pinned { wanted, provider });
        let builder = builder.dangerous().with_custom_certificate_verifier(pinned);
        return Ok(Arc::new(builder.with_no_client_auth()));
    }
    let mut roots = RootCertStore::empty();
    let (added, _) =
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        return Err(NoAuthorities);
    }
    let builder = builder.with_root_certificates(roots);
    Ok(Arc::new(builder.with_no_client_auth()))
}

/// Shakes hands with a server of this name.
///
/// # Errors
///
/// The name is none, or the handshake failed.
pub async fn connect(
    config: Arc<ClientConfig>,
    host: &str,
    socket: TcpStream,
) -> io::Result<Stream> {
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let connected = TlsConnector::from(config).connect(name, socket).await?;
    Ok(Stream::connected(connected))
}

/// Takes one certificate, whatever it says of names and times.
#[derive(Debug)]
struct Pinned {
    wanted: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = Fingerprint::of(end_entity);
        if shown == self.wanted {
            return Ok(ServerCertVerified::assertion());
        }
        // What is shown, so that a camera whose certificate was renewed can be looked into.
        let said = format!("the certificate has the fingerprint {shown:?}, which is not expected");
        let said = io::Error::other(said);
        Err(CertificateError::Other(rustls::OtherError(Arc::new(said))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_as_they_are_printed() {
        let digits = "0aFF".repeat(16);
        let mut colons: String = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| format!("{}:", String::from_utf8_lossy(pair)))
            .collect();
        colons.pop();
        let read = Fingerprint::parse(&digits).unwrap();
        assert_eq!(Fingerprint::parse(&colons), Some(read));
        assert_eq!(format!("{read:?}"), digits.to_lowercase());
        for wrong in [
            "",
            "0a",
            &digits[1..],
            &format!("{digits}00"),
            &"zz".repeat(32),
        ] {
            assert_eq!(Fingerprint::parse(wrong), None, "{wrong}");
        }
    }
}
