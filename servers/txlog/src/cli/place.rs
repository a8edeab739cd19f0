//! Where `txlog read` begins.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use txlog_client::{Client, ClientError, Cursor, Follower, ReadFrom};

/// Where to begin; one of these at most.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct PlaceArguments {
    /// The number of the first record; by default the oldest.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,
    /// Only records that are appended from now on.
    #[arg(long)]
    from_end: bool,
    /// Begin with the last COUNT records.
    #[arg(long, value_name = "COUNT")]
    tail: Option<u64>,
    /// Begin with the first record that the server took at this time or later.
    ///
    /// A time as in `2026-11-25T09:30:00Z` or `2026-11-25T10:30:00+01:00` (RFC 3339), or how long
    /// ago, as in `10m`, `2h` or `1d12h` (a day is 24 hours). It is the server's clock that counts.
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<SystemTime>,
    /// Resume from this cursor, in the log that it names and in no other.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<Cursor>,
    /// Begin behind the records that were read before with this name, and remember it.
    ///
    /// The server keeps, durably, how far they were printed. Each record is printed at least once:
    /// when the command ends without time to say so, as when it is killed, those of its last second
    /// are printed again. With a new name it begins with the oldest record. `txlog cursors` lists
    /// and removes names.
    #[arg(long, value_name = "NAME")]
    pub(crate) consumer: Option<String>,
}

impl PlaceArguments {
    /// A follower that begins there.
    pub(crate) async fn follower(&self, client: &Client) -> Result<Follower, ClientError> {
        if let Some(cursor) = self.cursor {
            return client.resume(cursor);
        }
        let info = client.info();
        let from = match (self.since, self.tail) {
            (Some(since), _) => client.seek(since).await?,
            (_, Some(count)) => info.next.saturating_sub(count).max(info.first),
            _ if self.from_end => info.next,
            _ => self.from,
        };
        Ok(client.follow(ReadFrom::Sequence(from)))
    }
}

/// A time, or how long ago it is.
fn since(text: &str) -> Result<SystemTime, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        // Before 1970 there are no records.
        let since = u64::try_from(time.as_millisecond()).unwrap_or(0);
        return Ok(UNIX_EPOCH + Duration::from_millis(since));
    }
    // Of a day the library asks which one it is; here it has 24 hours.
    let (days, rest) = match text.split_once('d') {
        Some((days, rest)) => (days.trim().parse().ok(), rest.trim()),
        None => (Some(0), text),
    };
    let rest = match rest {
        "" if text.contains('d') => Some(SignedDuration::ZERO),
        rest => rest.parse::<SignedDuration>().ok(),
    };
    let ago = days
        .zip(rest)
        .and_then(|(days, rest): (i64, _)| days.checked_mul(24).map(|hours| (hours, rest)))
        .and_then(|(hours, rest)| SignedDuration::try_from_hours(hours)?.checked_add(rest))
        .filter(|ago| !ago.is_negative());
    let then = ago.and_then(|ago| SystemTime::now().checked_sub(ago.unsigned_abs()));
    then.ok_or_else(|| {
        "give a time with its zone, as in 2026-11-25T09:30:00Z, or how long ago, as in 10m, 2h or \
         1d12h"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_how_long_ago_are_told_from_other_texts() {
        let at = |seconds| Ok(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(since("2026-11-25T09:30:00Z"), at(1_795_599_000));
        assert_eq!(since("2026-11-25T10:30:00+01:00"), at(1_795_599_000));
        assert_eq!(since("1970-01-01 00:00:01Z"), at(1));
        for (text, seconds) in [
            ("10m", 600),
            ("2h", 7_200),
            ("1h30m", 5_400),
            ("1d", 86_400),
            ("1d12h", 129_600),
            ("0s", 0),
            ("90s", 90),
        ] {
            let before = SystemTime::now();
            let then = since(text).unwrap() + Duration::from_secs(seconds);
            assert!(before <= then && then <= SystemTime::now(), "{text}");
        }
        for text in [
            "",
            "yesterday",
            "2026-11-25",
            "2026-11-25T09:30:00",
            "10",
            "-5m",
            "m",
            "d",
            "1x",
            "99999999999999999d",
            "9999999999999999999h",
        ] {
            assert!(since(text).is_err(), "{text}");
        }
    }
}
