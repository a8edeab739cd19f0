//! A certificate of the proxy, with the file that it was read of, and when it ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::files::Identity;
use super::lifetime::{Lifetime, lifetime, shown_names};

/// So long before a certificate ends operators are told, unless it does not hold for long.
const WARNED_BEFORE: SignedDuration = SignedDuration::from_hours(14 * 24);

/// The part of a lifetime that is not too early for a warning: certificates that hold for days are
/// renewed when two thirds of these are over, and one that is still there a sixth later is late.
const WARNED_PART: i32 = 6;

/// A certificate, and where it is from.
#[derive(Clone, Debug)]
pub struct Own {
    /// The file.
    pub file: PathBuf,
    /// The certificate with its key.
    pub identity: Identity,
    /// From when to when it holds, if it says so.
    pub lifetime: Option<Lifetime>,
    /// Its names, for people.
    pub names: String,
}

impl Own {
    /// One that was read of this file.
    pub fn new(file: &Path, identity: Identity) -> Self {
        Self {
            file: file.to_owned(),
            lifetime: lifetime(&identity),
            names: shown_names(&identity),
            identity,
        }
    }

    /// How long it still holds, which is less than nothing when it has ended, if operators are to
    /// be told: so long before the end, or as long as is usual.
    pub fn warned(&self, before: Option<Duration>, now: Timestamp) -> Option<SignedDuration> {
        let lifetime = self.lifetime?;
        let left = lifetime.end.duration_since(now);
        let before = match before {
            // Longer than any certificate holds.
            Some(before) => SignedDuration::try_from(before).unwrap_or(SignedDuration::MAX),
            None => {
                let whole = lifetime.end.duration_since(lifetime.begin);
                WARNED_BEFORE.min(whole / WARNED_PART)
            }
        };
        (left <= before).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use servers_common::testing::Authority;

    use super::*;

    fn own(begin: Timestamp, days: i64) -> Own {
        let authority = Authority::new("one");
        let issued = authority.issue("own", &["a.example"]);
        let identity = crate::tls::identity(&issued.certificate, &issued.key).unwrap();
        let end = begin + SignedDuration::from_hours(24 * days);
        let lifetime = Some(Lifetime { begin, end });
        Own {
            lifetime,
            ..Own::new(&issued.certificate, identity)
        }
    }

    #[test]
    fn operators_are_told_two_weeks_before_the_end_or_in_the_last_sixth() {
        let begin = Timestamp::from_second(1_800_000_000).unwrap();
        let hours = SignedDuration::from_hours;
        for (days, last) in [(365, 14 * 24), (90, 14 * 24), (47, 188), (6, 24)] {
            let own = own(begin, days);
            let end = own.lifetime.unwrap().end;
            let before = end - hours(last);
            assert_eq!(own.warned(None, before - hours(1)), None, "{days}");
            assert_eq!(own.warned(None, before), Some(hours(last)), "{days}");
            assert_eq!(own.warned(None, end + hours(1)), Some(hours(-1)), "{days}");
        }
    }

    #[test]
    fn who_asks_for_a_time_is_told_then() {
        let begin = Timestamp::from_second(1_800_000_000).unwrap();
        let own = own(begin, 6);
        let asked = Some(Duration::from_secs(5 * 24 * 3_600));
        let hours = SignedDuration::from_hours;
        assert_eq!(own.warned(asked, begin + hours(23)), None);
        assert_eq!(own.warned(asked, begin + hours(24)), Some(hours(120)));
        assert!(own.warned(Some(Duration::MAX), begin).is_some());
    }
}
