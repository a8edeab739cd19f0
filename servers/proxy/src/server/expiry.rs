//! Certificates: whose they are, and that operators are told before they end, when they are read
//! and once a day.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use evenkeel::time::sleep;
use jiff::{SignedDuration, Timestamp};
use tracing::{error_span, warn};

use super::{Context, Site};
use crate::config::Config;
use crate::tls::Own;

/// How often all of them are looked at: one that holds for days comes to its last hours soon.
const LOOK: Duration = Duration::from_secs(3_600);

/// How often operators are told of one.
const AGAIN: SignedDuration = SignedDuration::from_hours(24);

/// Whose a certificate is, of which file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whose {
    /// The listener; if it is of none, it is with this that the proxy comes to servers.
    pub listener: Option<String>,
    /// The pool of these servers.
    pub pool: Option<String>,
    /// The file.
    pub file: PathBuf,
}

/// A certificate in use.
#[derive(Clone, Debug)]
pub struct InUse {
    /// The certificate.
    pub own: Arc<Own>,
    /// How long before its end operators want to know.
    pub warning: Option<Duration>,
    /// Whether the proxy renews it.
    pub is_of_acme: bool,
}

/// Certificates that end soon, and when operators were told of each.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<Whose, Timestamp>);

impl Site {
    /// All certificates in use.
    pub fn certificates(&self) -> BTreeMap<Whose, InUse> {
        let mut all = BTreeMap::new();
        for front in self.fronts.values() {
            let Some(tls) = front.config.tls.as_ref().map(|tls| tls.get_ref()) else {
                continue;
            };
            let read = tls.side.iter().flat_map(|side| side.certificates());
            let live = front.tls.as_ref().and_then(|tls| tls.live.as_ref());
            let live = live.and_then(|live| Some(Arc::new(Own::new(live.path(), live.own()?))));
            let (read, live) = (
                read.cloned().map(|own| (own, false)),
                live.map(|own| (own, true)),
            );
            for (own, is_of_acme) in read.chain(live) {
                let whose = Whose {
                    listener: Some(front.name.to_string()),
                    pool: None,
                    file: own.file.clone(),
                };
                let warning = tls.expiry_warning;
                let in_use = InUse {
                    own,
                    warning,
                    is_of_acme,
                };
                all.insert(whose, in_use);
            }
        }
        all.extend(of_pools(&self.config));
        all
    }
}

/// Those with which the proxy comes to servers.
fn of_pools(config: &Config) -> impl Iterator<Item = (Whose, InUse)> {
    config.pools.iter().filter_map(|(name, pool)| {
        let tls = pool.get_ref().tls.as_ref()?.get_ref();
        let own = tls.side.as_ref()?.own()?;
        let whose = Whose {
            listener: None,
            pool: Some(name.clone()),
            file: own.file.clone(),
        };
        let in_use = InUse {
            own: Arc::clone(own),
            warning: tls.expiry_warning,
            is_of_acme: false,
        };
        Some((whose, in_use))
    })
}

/// What is to be told of the certificates in the files of a configuration: those that have ended,
/// or end soon.
pub fn warnings(config: &Config) -> Vec<String> {
    let of_listeners = config.listeners.iter().flat_map(|(name, listener)| {
        let tls = listener.get_ref().tls.as_ref().map(|tls| tls.get_ref());
        let sides = tls.and_then(|tls| Some((tls.expiry_warning, tls.side.as_ref()?)));
        sides.into_iter().flat_map(move |(warning, side)| {
            side.certificates().iter().map(move |own| {
                let whose = Whose {
                    listener: Some(name.clone()),
                    pool: None,
                    file: own.file.clone(),
                };
                let in_use = InUse {
                    own: Arc::clone(own),
                    warning,
                    is_of_acme: false,
                };
                (whose, in_use)
            })
        })
    });
    let all = of_listeners.chain(of_pools(config)).collect();
    let due = Told::default().due(all, Timestamp::now());
    let said = |(whose, in_use, left): &(Whose, InUse, SignedDuration)| {
        format!("{}: {}", whose.named(), text(in_use, *left))
    };
    due.iter().map(said).collect()
}

impl Whose {
    fn named(&self) -> String {
        match (&self.listener, &self.pool) {
            (Some(name), _) => format!("listener {name}"),
            (None, name) => format!("pool {}", name.as_deref().unwrap_or_default()),
        }
    }
}

impl Context {
    /// Tells of certificates that end soon or have ended, but for those that were told of within a
    /// day, unless it is `anew`.
    pub(super) fn tell_expiry(&self, site: &Site, anew: bool) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if anew {
            *told = Told::default();
        }
        let due = told.due(site.certificates(), Timestamp::now());
        drop(told);
        for (whose, in_use, left) in due {
            let span = match (&whose.listener, &whose.pool) {
                (Some(name), _) => error_span!("listener", listener = name),
                (None, pool) => error_span!("pool", pool),
            };
            let (name, text) = (whose.named(), text(&in_use, left));
            span.in_scope(|| warn!("{name}: {text}"));
        }
    }
}

/// Looks at all certificates for as long as the proxy serves.
pub(super) async fn watch(context: Weak<Context>) {
    loop {
        sleep(LOOK).await;
        let Some(context) = context.upgrade() else {
            return;
        };
        // Another process tells of them then.
        if *context.leaving.borrow() {
            return;
        }
        context.tell_expiry(&context.site(), false);
    }
}

impl Told {
    /// Those to be told of now, with the time that each has left.
    fn due(
        &mut self,
        all: BTreeMap<Whose, InUse>,
        now: Timestamp,
    ) -> Vec<(Whose, InUse, SignedDuration)> {
        let before = std::mem::take(&mut self.0);
        let mut due = Vec::new();
        for (whose, in_use) in all {
            let Some(left) = in_use.own.warned(in_use.warning, now) else {
                continue;
            };
            // A clock may have been set back.
            let is_known = |at: &&Timestamp| **at <= now && now.duration_since(**at) < AGAIN;
            let known = before.get(&whose).filter(is_known);
            self.0.insert(whose.clone(), known.copied().unwrap_or(now));
            if known.is_none() {
                due.push((whose, in_use, left));
            }
        }
        due
    }
}

/// What is told of a certificate that has so much time left.
fn text(in_use: &InUse, left: SignedDuration) -> String {
    let hours = left.as_hours();
    let when = match hours {
        _ if left.is_negative() || left.is_zero() => "has expired".to_owned(),
        48.. => format!("expires in {} days", hours / 24),
        2.. => format!("expires in {hours} hours"),
        _ => format!("expires in {} minutes", left.as_mins()),
    };
    let own = &in_use.own;
    let file = own.file.display();
    let end = own.lifetime.map(|lifetime| lifetime.end.to_string());
    let (names, end) = (&own.names, end.unwrap_or_default());
    match in_use.is_of_acme {
        true => format!(
            "its certificate {when}: {names}, until {end}; {file} has not been renewed, see what \
             was said of its authority"
        ),
        false => format!(
            "its certificate {when}: {names}, until {end}; put a new one into {file} and reload"
        ),
    }
}

#[cfg(test)]
mod tests {
    use servers_common::testing::Authority;

    use super::*;
    use crate::tls::{self, Lifetime};

    fn in_use(end: Timestamp) -> InUse {
        let authority = Authority::new("one");
        let issued = authority.issue("own", &["a.example"]);
        let identity = tls::identity(&issued.certificate, &issued.key).unwrap();
        let begin = end - SignedDuration::from_hours(90 * 24);
        let own = Own {
            lifetime: Some(Lifetime { begin, end }),
            file: "own.pem".into(),
            ..Own::new(&issued.certificate, identity)
        };
        InUse {
            own: Arc::new(own),
            warning: None,
            is_of_acme: false,
        }
    }

    fn of(listener: &str, in_use: &InUse) -> (Whose, InUse) {
        let whose = Whose {
            listener: Some(listener.to_owned()),
            pool: None,
            file: in_use.own.file.clone(),
        };
        (whose, in_use.clone())
    }

    #[test]
    fn each_certificate_that_ends_soon_is_told_of_once_a_day() {
        let end = Timestamp::from_second(1_800_000_000).unwrap();
        let hours = SignedDuration::from_hours;
        let (soon, later) = (in_use(end), in_use(end + hours(24 * 100)));
        let all = || BTreeMap::from([of("web", &soon), of("other", &later)]);
        let mut told = Told::default();
        let mut due = |now: Timestamp, all| {
            let due = told.due(all, now);
            due.iter()
                .map(|(_, _, left)| left.as_hours())
                .collect::<Vec<_>>()
        };
        let none: [i64; 0] = [];
        assert_eq!(due(end - hours(337), all()), none);
        assert_eq!(due(end - hours(336), all()), [336]);
        assert_eq!(due(end - hours(313), all()), none);
        assert_eq!(due(end - hours(312), all()), [312]);
        assert_eq!(due(end - hours(311), all()), none);
        // The clock was set back.
        assert_eq!(due(end - hours(320), all()), [320]);
        // Another one came, and went again.
        let renewed = BTreeMap::from([of("web", &later)]);
        assert_eq!(due(end - hours(319), renewed), none);
        assert_eq!(due(end - hours(318), all()), [318]);
    }

    #[test]
    fn what_is_told_says_how_long_it_is_and_what_to_do() {
        let end = Timestamp::from_second(1_800_000_000).unwrap();
        let mut in_use = in_use(end);
        let minutes = SignedDuration::from_mins;
        for (left, when) in [
            (minutes(14 * 24 * 60), "expires in 14 days"),
            (minutes(48 * 60 - 1), "expires in 47 hours"),
            (minutes(119), "expires in 119 minutes"),
            (minutes(0), "has expired"),
            (minutes(-1), "has expired"),
        ] {
            let said = format!(
                "its certificate {when}: a.example, until {end}; put a new one into own.pem and \
                 reload"
            );
            assert_eq!(text(&in_use, left), said);
        }
        in_use.is_of_acme = true;
        let text = text(&in_use, minutes(60));
        assert!(text.contains("has not been renewed"), "{text}");
    }
}
