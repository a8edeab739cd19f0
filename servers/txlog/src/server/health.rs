//! Whether an append would be acknowledged in time, without writing one.
//!
//! What can be known:
//!
//! - A store that says that it takes no records takes none.
//! - An append that is pending for longer than the limit shows that appends take longer now.
//! - If one is pending for less, its end, or that of another one, is waited for: then it is known.
//! - If none is pending, the last one tells, for a while. After that nothing is known against it:
//!   otherwise a server to which nobody sends records any more, as it was slow once, would be
//!   called slow for ever.

use std::time::{Duration, Instant};

use evenkeel::time::sleep;
use txlog_client::frame::Response;

use super::Context;
use super::logs::OpenLog;
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
    /// An append is pending, and will show.
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
        let (writable, text) = match judge(failure, &evidence, asked, now, within) {
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

fn judge(
    failure: Option<String>,
    Evidence { oldest, last }: &Evidence,
    asked: Instant,
    now: Instant,
    within: Duration,
) -> Verdict {
    if let Some(failure) = failure {
        return Verdict::Not(failure);
    }
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
    match last {
        Some(last) if now.saturating_duration_since(last.ended) <= RECENT => of_last(last, within),
        _ => Verdict::Writable("nothing was appended lately, and nothing failed".to_owned()),
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

    #[test]
    fn what_is_known_decides() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let asked = at(20_000);
        let judge_at = |now_ms, oldest: Option<u64>, last| {
            let oldest = oldest.map(at);
            judge(None, &Evidence { oldest, last }, asked, at(now_ms), WITHIN)
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
        let verdict = judge(Some("full".to_owned()), &evidence, now, now, WITHIN);
        assert_eq!(verdict, Verdict::Not("full".to_owned()));
    }
}
