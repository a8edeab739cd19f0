//! Names of headers that a configuration may change.
//!
//! Those that say where a message ends, or whose it is, are the proxy's own: changing them could
//! make two programs read the same bytes differently.

use serde::Deserialize;

/// The name of a header that may be changed, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct EditName(String);

/// Headers that concern one connection, or say what the body is.
const FRAMING: [&str; 12] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "expect",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl EditName {
    /// The name, in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for EditName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if !is_token(&text) {
            return Err(format!(
                "{text:?} is no name of a header: take letters, digits and `-`"
            ));
        }
        let name = text.to_ascii_lowercase();
        // Some programs take `_` and `-` for the same.
        let read = name.replace('_', "-");
        if FRAMING.contains(&read.as_str()) {
            return Err(format!(
                "{text} cannot be set, added or removed: it says how a message is sent, which the \
                 proxy writes itself"
            ));
        }
        match read.as_str() {
            "host" => Err("host cannot be set as a header: use the key `host`".to_owned()),
            "x-forwarded-for" | "x-forwarded-proto" => Err(format!(
                "{text} is the proxy's own: use the listener's key `forwarded_for`"
            )),
            _ => Ok(Self(name)),
        }
    }
}

/// Whether it is a token of HTTP.
fn is_token(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=256).contains(&text.len()) && text.bytes().all(is_of_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_cannot_be_changed() {
        for name in [
            "Content-Length",
            "transfer_encoding",
            "CONNECTION",
            "host",
            "X_Forwarded-For",
            "te",
            "a b",
            "a:",
            "",
            "a\r\nb",
        ] {
            assert!(EditName::try_from(name.to_owned()).is_err(), "{name:?}");
        }
        let name = EditName::try_from("X-Mine".to_owned()).unwrap();
        assert_eq!(name.as_str(), "x-mine");
    }
}
