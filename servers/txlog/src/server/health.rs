//! Whether an append would be acknowledged in time, without storing a record.
//!
//! What can be known:
//!
//! - A store that says that it takes no records takes none.
//! - An append that is pending for longer than the limit shows that appends take longer now.
//! - If one is pending for less, its end, or that of another one, is waited for: then it is known.
//! - If none is pending, the last one tells, for a while.
//! - After that the log is looked at: see [`Store::look`]. A look that takes longer than the limit,
//!   or fails, shows that an append would. A log of this machine writes its mark and asks for the
//!   room on its disk; of a stream only what its connection knows is known.

use std::time::{Duration, Instant};

use evenkeel::time::sleep;
use txlog_client::frame::Response;

use super::Context;
use super::logs::OpenLog;
use super::looks::{Look, Looked};
use super::peers::{Evidence, Last, Peer};
use crate::store::Store;

/// For how long the last append says something about the next one.
const RECENT: Duration = Duration::from_secs(10);

/// How often a pending append is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The longest time that can be asked for.
const WITHIN_MAX: Duration = Duration::from_secs(60);

/// What is known.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Writable(String),
    Not(String),
    /// An append or a look is pending, and will show.
    Unknown,
}

/// Answers for a log when it is known, at the latest when a pending append has waited for `within`.
pub(super) async fn answer<S: Store>(
    context: &Context<S>,
    log: &OpenLog<S>,
    id: u64,
    within: Duration,
) -> Response {
    let (asked, within) = (Instant::now(), within.min(WITHIN_MAX));
    loop {
        let failure = log.store.failure().map(|failure| failure.text);
        let (evidence, now) = (context.peers.evidence(&log.past), Instant::now());
        if failure.is_none() && evidence.recent(now).is_none() {
            log.looks.begin(&log.store);
        }
        let known = (&evidence, &log.looks.read());
        let (writable, text) = match judge(failure, known, asked, now, within) {
            Verdict::Writable(text) => (true, text),
            Verdict::Not(text) => (false, text),
            Verdict::Unknown => {
                sleep(LOOK_EVERY).await;
                continue;
            }
        };
        let since = |then: Instant| now.saturating_duration_since(then);
        let last = evidence.last.as_ref();
        return Response::Health {
            id,
            writable,
            pending_ms: in_ms(evidence.oldest.map(since)),
            took_ms: in_ms(last.map(|last| last.took)),
            ago_ms: in_ms(last.map(|last| since(last.ended))),
            text,
        };
    }
}

/// Answers for all logs that are open, as far as the client may know of them: those that say that
/// they take no records.
pub(super) fn of_all<S: Store>(context: &Context<S>, peer: &Peer, id: u64) -> Response {
    let open = context.logs.open_ones();
    let failure = open.iter().find_map(|log| {
        let failure = log.store.failure().filter(|_| peer.may_know(&log.name))?;
        Some(format!("the log {}: {}", log.name, failure.text))
    });
    let usual = "no log that is open has failed; name one by --log NAME to ask about it alone";
    Response::Health {
        id,
        writable: failure.is_none(),
        pending_ms: in_ms(None),
        took_ms: in_ms(None),
        ago_ms: in_ms(None),
        text: failure.unwrap_or_else(|| usual.to_owned()),
    }
}

impl Evidence {
    /// The last append, as long as it says something.
    fn recent(&self, now: Instant) -> Option<&Last> {
        let last = self.last.as_ref();
        last.filter(|last| now.saturating_duration_since(last.ended) <= RECENT)
    }
}

fn judge(
    failure: Option<String>,
    (evidence, look): (&Evidence, &Look),
    asked: Instant,
    now: Instant,
    within: Duration,
) -> Verdict {
    if let Some(failure) = failure {
        return Verdict::Not(failure);
    }
    let Evidence { oldest, last } = evidence;
    let waited = oldest.map(|oldest| now.saturating_duration_since(oldest));
    if let Some(waited) = waited.filter(|waited| *waited > within) {
        return Verdict::Not(format!(
            "an append has waited for {} ms; see whether the disk or the store's server answers",
            waited.as_millis()
        ));
    }
    let news = last.as_ref().filter(|last| last.ended >= asked);
    if news.is_none() && oldest.is_some_and(|oldest| oldest <= asked) {
        return Verdict::Unknown;
    }
    match evidence.recent(now) {
        Some(last) => of_last(last, within),
        None => of_look(look, now, within),
    }
}

fn of_last(last: &Last, within: Duration) -> Verdict {
    let ms = last.took.as_millis();
    match &last.failure {
        Some(failure) => Verdict::Not(format!("the last append failed: {failure}")),
        None if last.took > within => Verdict::Not(format!(
            "the last append took {ms} ms; see whether the disk or the store's server is slow"
        )),
        None => Verdict::Writable(format!("the last append took {ms} ms")),
    }
}

fn of_look(look: &Look, now: Instant, within: Duration) -> Verdict {
    let waited = (look.since).map(|since| now.saturating_duration_since(since));
    if let Some(waited) = waited.filter(|waited| *waited > within) {
        return Verdict::Not(format!(
            "nothing was appended lately, and its disk has not taken a mark for {} ms; see whether \
             it hangs",
            waited.as_millis()
        ));
    }
    let Some(Looked { took, outcome, .. }) = look.known(now) else {
        return Verdict::Unknown;
    };
    let ms = took.as_millis();
    match outcome {
        Err(why) => Verdict::Not(format!("an append would fail: {why}")),
        Ok(true) if *took > within => Verdict::Not(format!(
            "nothing was appended lately, and its disk took {ms} ms for a mark; see whether it is \
             slow"
        )),
        Ok(true) => Verdict::Writable(format!(
            "nothing was appended lately; its disk has room, and took {ms} ms for a mark"
        )),
        Ok(false) => {
            Verdict::Writable("nothing was appended lately, and nothing failed".to_owned())
        }
    }
}

/// Milliseconds as they are sent.
fn in_ms(duration: Option<Duration>) -> u32 {
    duration.map_or(u32::MAX, |duration| {
        u32::try_from(duration.as_millis()).unwrap_or(u32::MAX - 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_millis(100);

    fn last(ended: Instant, took_ms: u64, failure: Option<&str>) -> Option<Last> {
        Some(Last {
            ended,
            took: Duration::from_millis(took_ms),
            failure: failure.map(str::to_owned),
        })
    }

    fn looked(ended: Instant, took_ms: u64, outcome: Result<bool, &str>) -> Look {
        let last = Some(Looked {
            ended,
            took: Duration::from_millis(took_ms),
            outcome: outcome.map_err(str::to_owned),
        });
        Look { since: None, last }
    }

    fn well(now: Instant) -> Look {
        looked(now, 1, Ok(true))
    }

    #[test]
    fn without_recent_appends_a_look_decides() {
        let begin = Instant::now();
        let now = begin + Duration::from_secs(20);
        let before = |ms| now - Duration::from_millis(ms);
        let judge_by = |look: Look| {
            let evidence = Evidence {
                oldest: None,
                last: last(before(10_001), 1, None),
            };
            judge(None, (&evidence, &look), now, now, WITHIN)
        };
        let pending = |since| Look {
            since: Some(since),
            last: None,
        };
        for look in [Look::default(), pending(now), pending(before(100))] {
            assert_eq!(judge_by(look), Verdict::Unknown);
        }
        // What was seen long ago says nothing.
        assert_eq!(
            judge_by(looked(before(1_000), 1, Ok(true))),
            Verdict::Unknown
        );
        for (look, said) in [
            (pending(before(101)), "has not taken a mark for 101 ms"),
            (looked(before(999), 1, Err("no room")), "no room"),
            (looked(now, 101, Ok(true)), "took 101 ms"),
        ] {
            let verdict = judge_by(look);
            assert!(
                matches!(&verdict, Verdict::Not(text) if text.contains(said)),
                "{verdict:?}"
            );
        }
        for look in [
            looked(before(999), 100, Ok(true)),
            looked(now, 1, Ok(false)),
        ] {
            let verdict = judge_by(look);
            assert!(matches!(verdict, Verdict::Writable(_)), "{verdict:?}");
        }
    }

    #[test]
    fn what_is_known_decides() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let asked = at(20_000);
        let judge_at = |now_ms, oldest: Option<u64>, last| {
            let oldest = oldest.map(at);
            let evidence = Evidence { oldest, last };
            judge(
                None,
                (&evidence, &well(at(now_ms))),
                asked,
                at(now_ms),
                WITHIN,
            )
        };
        let is_not = |verdict: Verdict, said: &str| match verdict {
            Verdict::Not(text) => assert!(text.contains(said), "{text}"),
            verdict => panic!("{verdict:?}"),
        };
        let is_writable = |verdict| assert!(matches!(verdict, Verdict::Writable(_)), "{verdict:?}");
        is_writable(judge_at(20_000, None, None));
        // A pending append is waited for, until it is older than the limit.
        assert_eq!(judge_at(20_000, Some(19_950), None), Verdict::Unknown);
        assert_eq!(judge_at(20_050, Some(19_950), None), Verdict::Unknown);
        is_not(judge_at(20_051, Some(19_950), None), "waited for 101 ms");
        // Until one has ended since: this one, or another.
        is_writable(judge_at(20_040, Some(19_950), last(at(20_030), 80, None)));
        is_not(
            judge_at(20_040, None, last(at(20_030), 101, None)),
            "took 101 ms",
        );
        // One that came after the question says nothing yet, and the last one does.
        is_writable(judge_at(20_010, Some(20_005), last(at(19_000), 5, None)));
        is_not(
            judge_at(20_010, None, last(at(19_000), 500, None)),
            "took 500 ms",
        );
        is_not(
            judge_at(20_010, None, last(at(19_000), 5, Some("no room"))),
            "no room",
        );
        // But not for ever.
        is_writable(judge_at(
            20_010,
            None,
            last(at(10_009), 500, Some("no room")),
        ));
    }

    #[test]
    fn a_store_that_says_that_it_failed_has_failed() {
        let now = Instant::now();
        let evidence = Evidence {
            oldest: None,
            last: last(now, 1, None),
        };
        let known = (&evidence, &Look::default());
        let verdict = judge(Some("full".to_owned()), known, now, now, WITHIN);
        assert_eq!(verdict, Verdict::Not("full".to_owned()));
    }
}
