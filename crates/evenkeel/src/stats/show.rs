//! Numbers for people: three digits and a unit. For programs that show statistics as
//! [`Stats`](super::Stats) does.
//!
//! Each has at most eight characters, apart from percentages above 99 999 %, and ten of [`AtMost`],
//! and takes a width and an alignment.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// A part of a whole, which is 1; prints as a percentage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(pub f64);

impl Display for Percent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.0;
        let digits = if percent < 9.95 { 1 } else { 0 };
        f.pad(&format!("{percent:.digits$} %"))
    }
}

/// A time, in the unit that suits it, from nanoseconds to hours; `None` prints as a dash.
///
/// # Examples
///
/// ```
/// use evenkeel::stats::show::Time;
/// use std::time::Duration;
///
/// assert_eq!(Time::of(Duration::from_nanos(1_234_567)).to_string(), "1.23 ms");
/// assert_eq!(Time(None).to_string(), "-");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Option<Duration>);

impl Time {
    /// A time that is known.
    pub fn of(time: Duration) -> Self {
        Self(Some(time))
    }
}

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(time) = self.0 else {
            return f.pad("-");
        };
        let nanos = time.as_nanos() as f64;
        let (value, unit) = match nanos {
            nanos if nanos < 999.5 => (nanos, "ns"),
            nanos if nanos < 999.5e3 => (nanos / 1e3, "us"),
            nanos if nanos < 999.5e6 => (nanos / 1e6, "ms"),
            nanos if nanos < 600e9 => (nanos / 1e9, "s"),
            nanos if nanos < 36_000e9 => (nanos / 60e9, "min"),
            nanos => (nanos / 3_600e9, "h"),
        };
        let digits = if unit == "ns" { 0 } else { digits(value) };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
}

/// A time that what was measured does not exceed, such as the end of a bucket of a histogram.
///
/// # Examples
///
/// ```
/// use evenkeel::stats::show::AtMost;
/// use std::time::Duration;
///
/// assert_eq!(AtMost(Some(Duration::from_millis(2))).to_string(), "<=2.00 ms");
/// assert_eq!(AtMost(None).to_string(), "-");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtMost(pub Option<Duration>);

impl Display for AtMost {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(_) => f.pad(&format!("<={}", Time(self.0))),
            None => f.pad("-"),
        }
    }
}

/// A count: exact up to 99 999, and from there on in thousands, millions and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

impl Display for Count {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 < 100_000 {
            return f.pad(&self.0.to_string());
        }
        let (mut value, mut unit) = (self.0 as f64 / 1e3, 0);
        while value >= 999.5 && unit < 5 {
            value /= 1e3;
            unit += 1;
        }
        let digits = digits(value);
        f.pad(&format!(
            "{value:.digits$} {}",
            ["k", "M", "G", "T", "P", "E"][unit]
        ))
    }
}

/// How many digits behind the point make three.
fn digits(value: f64) -> usize {
    match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    }
}

/// A text of a program's, as a part of a line: cut where it is too long, and without control
/// characters.
pub(super) struct Cut<'a>(pub(super) &'a str, pub(super) usize);

impl Display for Cut<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Cut(text, max) = *self;
        let text = text.replace(char::is_control, " ");
        match text.char_indices().nth(max) {
            None => f.pad(&text),
            Some(_) => {
                let kept: String = text.chars().take(max - 2).collect();
                f.pad(&format!("{kept}.."))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_the_right_unit() {
        let time = |nanos| Time::of(Duration::from_nanos(nanos)).to_string();
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (9_994, "9.99 us"),
            (9_996, "10.0 us"),
            (99_949, "99.9 us"),
            (99_951, "100 us"),
            (999_499, "999 us"),
            (999_501, "1.00 ms"),
            (59_900_000_000, "59.9 s"),
            (600_000_000_000, "10.0 min"),
            (36_000_000_000_000, "10.0 h"),
        ] {
            assert_eq!(time(nanos), text, "{nanos}");
        }
        for (count, text) in [
            (0, "0"),
            (99_999, "99999"),
            (100_000, "100 k"),
            (999_499, "999 k"),
            (999_501, "1.00 M"),
            (u64::MAX, "18.4 E"),
        ] {
            assert_eq!(Count(count).to_string(), text, "{count}");
        }
        for (part, text) in [
            (0.0, "0.0 %"),
            (0.0994, "9.9 %"),
            (0.0996, "10 %"),
            (1.0, "100 %"),
        ] {
            assert_eq!(Percent(part).to_string(), text, "{part}");
        }
    }
}
