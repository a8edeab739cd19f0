//! Addresses of cameras and of their tracks.

use rtsp_types::Url;

use crate::rtsp::auth::Credentials;

/// An address of a camera; `None` of any other.
pub(super) fn parse(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_ours = matches!(url.scheme(), "rtsp" | "rtsps") && url.has_host();
    is_ours.then_some(url)
}

/// A name and a password that stand in the address itself.
pub(super) fn credentials_of(url: &Url) -> Option<Credentials> {
    let user = decoded(url.username());
    (!user.is_empty()).then(|| Credentials {
        user,
        password: decoded(url.password().unwrap_or_default()),
    })
}

/// A text without its escapes of the form `%20`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let hex = (byte == b'%').then(|| after.get(..2)).flatten();
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            None => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The address of a track. Cameras mean their words as an end to be appended, not as a relative
/// address: what stands behind `?` stays.
pub(super) fn joined(base: &str, control: &str) -> String {
    if control.is_empty() || control == "*" {
        base.to_owned()
    } else if control.contains("://") {
        control.to_owned()
    } else if base.ends_with('/') || control.starts_with(['/', '?']) {
        format!("{base}{control}")
    } else {
        format!("{base}/{control}")
    }
}
