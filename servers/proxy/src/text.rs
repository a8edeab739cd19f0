//! Numbers, addresses and times of day as text, without the machinery of format strings: heads and
//! a line of the log are written for each request.

use std::cell::RefCell;
use std::io::Write;
use std::net::IpAddr;

use jiff::Timestamp;

/// Adds a number.
pub(crate) fn number(mut number: u64, out: &mut Vec<u8>) {
    // As many digits as the largest has.
    let mut digits = [0; 20];
    let mut begin = digits.len();
    loop {
        begin -= 1;
        // Below 10.
        digits[begin] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[begin..]);
        }
    }
}

/// Adds a number with three digits or more.
pub(crate) fn status(status: u16, out: &mut Vec<u8>) {
    for below in [100, 10] {
        if status < below {
            out.push(b'0');
        }
    }
    number(status.into(), out);
}

/// Adds an address.
pub(crate) fn address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            for (index, part) in address.octets().into_iter().enumerate() {
                if index > 0 {
                    out.push(b'.');
                }
                number(part.into(), out);
            }
        }
        // Writing to memory cannot fail.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

/// How a second is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// As web servers do: `26/Nov/2026:13:05:33 +0000`.
    Common,
    /// `2026-11-26T13:05:33`, to be followed by a part of a second.
    Iso,
}

/// A second that was written before.
struct Last {
    second: i64,
    style: Style,
    text: String,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// Adds the second of a time, and returns the microseconds after it.
pub(crate) fn second(time: Timestamp, style: Style, out: &mut Vec<u8>) -> i64 {
    const MILLION: i64 = 1_000_000;
    let us = time.as_microsecond();
    let (second, us) = (us.div_euclid(MILLION), us.rem_euclid(MILLION));
    let written = || {
        let format = match style {
            Style::Common => "%d/%b/%Y:%H:%M:%S +0000",
            Style::Iso => "%Y-%m-%dT%H:%M:%S",
        };
        time.strftime(format).to_string()
    };
    let known = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        let is_it = |last: &&mut Last| last.second == second && last.style == style;
        match last.as_mut().filter(is_it) {
            Some(last) => out.extend_from_slice(last.text.as_bytes()),
            None => {
                let text = written();
                out.extend_from_slice(text.as_bytes());
                *last = Some(Last {
                    second,
                    style,
                    text,
                });
            }
        }
    });
    // A thread whose locals are gone keeps none.
    if known.is_err() {
        out.extend_from_slice(written().as_bytes());
    }
    us
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_and_addresses_are_as_others_write_them() {
        for of in [0, 9, 10, 1_234_567_890, u64::MAX] {
            assert_eq!(text(|out| number(of, out)), of.to_string());
        }
        for of in [0, 7, 42, 200, 65_535] {
            assert_eq!(text(|out| status(of, out)), format!("{of:03}"));
        }
        for of in ["0.0.0.0", "10.20.255.1", "::1", "2001:db8::7"] {
            let parsed: IpAddr = of.parse().unwrap();
            assert_eq!(text(|out| address(parsed, out)), of);
        }
    }

    #[test]
    fn a_second_is_the_one_that_was_asked_for() {
        for (time, us) in [
            ("2026-11-26T13:05:33.25Z", 250_000),
            ("2026-11-26T13:05:33.000007Z", 7),
            ("2026-11-26T13:05:32.999999Z", 999_999),
            ("1969-12-31T23:59:59.5Z", 500_000),
        ] {
            let parsed: Timestamp = time.parse().unwrap();
            for style in [Style::Iso, Style::Common, Style::Iso, Style::Iso] {
                let written = text(|out| assert_eq!(second(parsed, style, out), us));
                let iso = time.split('.').next().unwrap();
                let expected = match style {
                    Style::Iso => iso.to_owned(),
                    Style::Common => parsed.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string(),
                };
                assert_eq!(written, expected);
            }
        }
    }
}
