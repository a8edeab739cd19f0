//! Times as NATS writes them.

/// Milliseconds since 1970 of `2026-11-21T18:48:21.123456789Z`.
pub(super) fn millis_of(stamp: &str) -> Option<u64> {
    let (date, time) = stamp.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<u64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut clock = clock.splitn(3, ':').map(str::parse::<u64>);
    let (hour, minute, second) = (
        clock.next()?.ok()?,
        clock.next()?.ok()?,
        clock.next()?.ok()?,
    );
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) || year > 9_999 {
        return None;
    }
    // Other publishers may send a header of this name.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days up to the month in a year that begins with March, so that leap days come last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = (365 * year + leap_days + (153 * month + 2) / 5 + day).checked_sub(719_469)?;
    let millis = format!("{fraction:0<3}").get(..3)?.parse::<u64>().ok()?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + millis)
}

#[cfg(test)]
mod tests {
    use super::millis_of;

    #[test]
    fn times_of_nats_are_understood() {
        assert_eq!(millis_of("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(millis_of("2000-02-29T12:34:56.5Z"), Some(951_827_696_500));
        assert_eq!(
            millis_of("2026-11-21T18:48:21.123456789Z"),
            Some(1_795_286_901_123)
        );
        for nonsense in [
            "",
            "Z",
            "2026-13-01T00:00:00Z",
            "2026-11-21",
            "x-y-zT1:2:3Z",
            "2026-11-21T18446744073709551615:00:00Z",
            "2026-11-21T00:60:00Z",
            "2026-11-21T00:00:61Z",
        ] {
            assert_eq!(millis_of(nonsense), None, "{nonsense}");
        }
    }
}
