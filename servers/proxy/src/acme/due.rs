//! When a certificate is to be renewed, and when what has failed is tried again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustls::sign::CertifiedKey;

use crate::tls::{self, Lifetime};

/// The first time after a failure, and the longest one. Authorities count what fails: the public
/// ones allow five in an hour, within which this comes to five.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(12 * 3_600));

/// By what the time grows.
const GROWTH: u32 = 4;

/// When this certificate is to be renewed; `None`: now, as it does not have these names, or does
/// not say how long it holds.
pub(super) fn due(certificate: &CertifiedKey, names: &[String], jitter: f64) -> Option<Timestamp> {
    let has = tls::names(certificate);
    let has_all = names.iter().all(|name| has.contains(name));
    has_all
        .then(|| tls::lifetime(certificate))?
        .map(|lifetime| of_lifetime(lifetime, jitter))
}

/// When two thirds of a lifetime are over, or a thirtieth later at most.
fn of_lifetime(lifetime: Lifetime, jitter: f64) -> Timestamp {
    let whole = lifetime.end.duration_since(lifetime.begin);
    let share = 2.0 / 3.0 + jitter / 30.0;
    let after = SignedDuration::try_from_secs_f64(whole.as_secs_f64() * share);
    let due = after
        .ok()
        .and_then(|after| lifetime.begin.checked_add(after).ok());
    // A lifetime that no calendar has.
    due.unwrap_or(lifetime.begin)
}

/// How long to wait after so many failures in a row, and up to a half longer.
pub(super) fn backoff(failures: u32, jitter: f64) -> Duration {
    let (first, max) = BACKOFF;
    let grown = GROWTH.saturating_pow(failures.saturating_sub(1));
    first
        .saturating_mul(grown)
        .min(max)
        .mul_f64(1.0 + jitter / 2.0)
}

#[cfg(test)]
mod tests {
    use servers_common::testing::Authority;

    use super::*;

    #[test]
    fn a_certificate_is_renewed_when_two_thirds_of_its_time_are_over() {
        let day = SignedDuration::from_hours(24);
        let begin = Timestamp::from_second(1_800_000_000).unwrap();
        let lifetime = Lifetime {
            begin,
            end: begin + day * 90,
        };
        assert_eq!(of_lifetime(lifetime, 0.0), begin + day * 60);
        assert_eq!(of_lifetime(lifetime, 1.0), begin + day * 63);
    }

    #[test]
    fn one_with_other_names_is_renewed_now() {
        let authority = Authority::new("one");
        let issued = authority.issue("own", &["a.example", "b.example"]);
        let own = tls::identity(&issued.certificate, &issued.key).unwrap();
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        // From the year 2000 to 4096.
        let due_of_fewer = due(&own, &names(&["b.example"]), 0.0).unwrap();
        assert!(
            due_of_fewer.to_string().starts_with("339"),
            "{due_of_fewer}"
        );
        assert_eq!(due(&own, &names(&["a.example", "c.example"]), 0.0), None);
    }

    #[test]
    fn what_fails_is_tried_again_later_and_later() {
        let seconds: Vec<u64> = (1..=8).map(|n| backoff(n, 0.0).as_secs()).collect();
        assert_eq!(
            seconds,
            [30, 120, 480, 1_920, 7_680, 30_720, 43_200, 43_200]
        );
        assert_eq!(backoff(1, 1.0), Duration::from_secs(45));
        assert_eq!(backoff(u32::MAX, 0.0).as_secs(), 43_200);
    }
}
