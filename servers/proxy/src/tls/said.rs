//! What errors of TLS mean, and what to do.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// Of a handshake with a client.
pub fn of_client(error: &Error) -> String {
    let advice = match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not speak TLS: have it use TLS here, or another listener"
        }
        Error::NoCertificatesPresented => {
            "it came without a certificate, and tls.client_ca asks for one"
        }
        Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is from none of the authorities in tls.client_ca"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired: have it renewed"
            }
            _ => "its certificate cannot be trusted",
        },
        Error::NoApplicationProtocol => {
            "it speaks none of the protocols of this listener over TLS (ALPN)"
        }
        Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered) => {
            "it knows neither TLS 1.2 nor 1.3"
        }
        Error::PeerIncompatible(_) => {
            "it has no version or cipher in common with this listener: see tls.min_version"
        }
        Error::AlertReceived(alert) => match alert {
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired => {
                "it does not trust the certificate of this listener: see whether that is for the \
                 right name, has not expired, and comes with those that lead to its authority"
            }
            _ => "it refused",
        },
        _ => "the handshake failed",
    };
    format!("{advice} ({error})")
}

/// Of a handshake with a server.
pub fn of_server(error: &Error) -> String {
    let advice = match error {
        Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is from none of the authorities that are trusted: see whether \
                 tls.ca is the right file, and this the right server"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired: have it renewed"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name: give that as tls.server_name, if this is the \
                 right server"
            }
            _ => "its certificate cannot be trusted",
        },
        Error::InvalidMessage(_) => "it does not speak TLS: leave tls out for its pool",
        Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                "it asks for a certificate: give tls.certificate and tls.key"
            }
            AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion => {
                "it asks for a certificate, or has no version or cipher in common with the proxy"
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::DecryptError => "it does not accept tls.certificate",
            AlertDescription::UnrecognisedName => {
                "it does not know its name: give the right one as tls.server_name"
            }
            _ => "it refused",
        },
        _ => "the handshake failed",
    };
    format!("no TLS: {advice} ({error})")
}
