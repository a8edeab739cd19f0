//! Where a body ends, by the headers that say it.
//!
//! RFC 9112, section 6, lets receivers repair some contradictions. None is repaired here: a length
//! beside chunks, two lengths even if they are equal, a length that is no plain number, and codings
//! other than `chunked` alone are refused.

use httparse::Header;

use super::head::BadHead;

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    None,
    /// After so many bytes.
    Length(u64),
    /// After the last chunk.
    Chunked,
    /// At the end of the connection; answers only.
    Close,
}

impl Framing {
    /// What the headers say; `None` if they say nothing.
    ///
    /// # Errors
    ///
    /// [`BadHead`]: they contradict each other, or can be read in several ways.
    pub fn said(headers: &[Header<'_>], minor_version: u8) -> Result<Option<Self>, BadHead> {
        let mut length = None;
        let mut is_chunked = false;
        for header in headers {
            if header.name.eq_ignore_ascii_case("content-length") {
                if length.replace(number(header.value)?).is_some() {
                    return Err(BadHead::bad("there are two Content-Length headers"));
                }
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                if is_chunked {
                    return Err(BadHead::bad("there are two Transfer-Encoding headers"));
                }
                if !header.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(BadHead::bad(
                        "Transfer-Encoding is something else than \"chunked\"",
                    ));
                }
                is_chunked = true;
            }
        }
        match (length, is_chunked) {
            (Some(_), true) => Err(BadHead::bad(
                "there is a Content-Length beside Transfer-Encoding",
            )),
            (None, true) if minor_version == 0 => {
                Err(BadHead::bad("HTTP/1.0 has no Transfer-Encoding"))
            }
            (None, true) => Ok(Some(Self::Chunked)),
            (length, false) => Ok(length.map(Self::Length)),
        }
    }
}

/// A plain number: digits, and so few that it cannot overflow.
fn number(value: &[u8]) -> Result<u64, BadHead> {
    const DIGITS_MAX: usize = 18;
    let is_plain = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    if !is_plain || value.len() > DIGITS_MAX {
        return Err(BadHead::bad("Content-Length is no plain number"));
    }
    let digit = |number: u64, digit: &u8| number * 10 + u64::from(digit - b'0');
    Ok(value.iter().fold(0, digit))
}
