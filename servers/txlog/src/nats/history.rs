//! Which records the stream has, and whether that is still the history that was acknowledged.
//!
//! The numbers of a stream only grow. When they do not, NATS has lost records that it had
//! acknowledged, as a host does that crashed before it synced, or whose store directory was put
//! back; or the stream is another one of the same name. That is a new *epoch*: the numbers begin
//! anew, and a position in the history before means nothing.
//!
//! Three things show it. An answer says that the stream ends before a record that was known when
//! the question was sent; a new record gets a number that was known when the record was sent; and a
//! record that was looked at before was stored at another time. What was known is noted before a
//! question or a record is sent, as answers cross each other.
//!
//! The epoch is kept in the stream's settings, so that it is there when the stream is opened again.
//! An answer with a later epoch says that another server of the stream has noticed a loss.

use std::future::Future;

use tokio::sync::watch;

use super::stream::Info;
use crate::log::now_ms;

/// What is known of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Grows when records were lost. It begins with what the stream has, which is the time of its
    /// creation until a loss was noticed, so that all servers of a stream begin with the same.
    pub(super) epoch: u64,
    /// The number of the oldest record.
    pub(super) first: u64,
    /// The number of the next record.
    pub(super) next: u64,
    /// When the stream was created, in milliseconds since 1970.
    created_ms: u64,
}

/// What is known of the stream, for all who use it.
#[derive(Debug)]
pub(super) struct History {
    stream: String,
    known: watch::Sender<Known>,
}

impl History {
    pub(super) fn new(stream: &str, info: &Info) -> Self {
        let (first, next) = info.bounds();
        let created_ms = info.created_ms();
        Self {
            stream: stream.to_owned(),
            known: watch::Sender::new(Known {
                epoch: info.epoch(),
                first,
                next,
                created_ms,
            }),
        }
    }

    pub(super) fn known(&self) -> Known {
        *self.known.borrow()
    }

    /// JetStream described the stream in this way. `before` was known when it was asked. Returns
    /// the epoch to which that belongs, if it is the present one.
    pub(super) fn described(&self, before: Known, info: &Info) -> Option<u64> {
        self.change(before, |known| known.described(before, info))
    }

    /// A record was stored under this number. `before` was known when it was sent.
    pub(super) fn stored(&self, before: Known, sequence: u64, is_duplicate: bool) {
        self.change(before, |known| known.stored(before, sequence, is_duplicate));
    }

    /// A record that was known before is another one now. `before` was known when it was asked for.
    /// Returns the epoch that begins.
    pub(super) fn replaced(&self, before: Known, sequence: u64) -> Option<u64> {
        self.change(before, |known| {
            known.begin(known.first, known.next);
            Some(format!("record {sequence} is another one than it was"))
        })
    }

    /// Waits until there may be a record of this number. Ends as well when the epoch changes, and
    /// when the number is far from the end: then whoever waits has to hear of it.
    pub(super) fn wait_for(&self, sequence: u64) -> impl Future<Output = ()> + Send + use<> {
        let mut known = self.known.subscribe();
        async move {
            let epoch = known.borrow().epoch;
            let comes = |known: &Known| known.next != sequence || known.epoch != epoch;
            // It fails when the store is gone, and then nobody waits.
            let _ = known.wait_for(comes).await;
        }
    }

    /// Applies what an answer says, unless the question is older than the epoch, and reports it on
    /// standard error if it begins an epoch. Returns the epoch then.
    fn change(
        &self,
        before: Known,
        change: impl FnOnce(&mut Known) -> Option<String>,
    ) -> Option<u64> {
        let (mut lost, mut epoch) = (None, None);
        self.known.send_if_modified(|known| {
            if known.epoch != before.epoch {
                return false;
            }
            let old = *known;
            lost = change(known);
            epoch = Some(known.epoch);
            *known != old
        });
        if let Some(lost) = lost {
            let stream = &self.stream;
            eprintln!(
                "txlog: the stream {stream} has lost records that it had acknowledged: {lost}. \
                 Readers are told, and go on in what is there now. Find out whether NATS's store \
                 directory was put back or its host crashed; `sync_interval: always` or replicas \
                 keep records through a crash"
            );
        }
        epoch
    }
}

/// The id of the log that a stream is: the same for all servers of the stream, which have nothing
/// but its name in common.
pub(super) fn log_of(stream: &str) -> u64 {
    crc32fast::hash(stream.as_bytes()).into()
}

impl Known {
    /// Returns what was lost, if an epoch begins.
    fn described(&mut self, before: Known, info: &Info) -> Option<String> {
        let (first, next) = info.bounds();
        let created_ms = info.created_ms();
        if created_ms != self.created_ms {
            let epoch = self.epoch;
            self.created_ms = created_ms;
            self.begin(first, next);
            // As other servers have it that connect now.
            self.epoch = info.epoch().max(epoch.saturating_add(1));
            return Some(format!("it was created anew, and its next is {next}"));
        }
        if info.epoch() > self.epoch {
            self.begin(first, next);
            self.epoch = info.epoch();
            return Some(format!(
                "another server has noticed that, and its next is {next}"
            ));
        }
        if next < before.next {
            self.begin(first, next);
            let (had, has) = (before.next - 1, next - 1);
            return Some(format!("it had record {had}, and ends with record {has}"));
        }
        self.next = self.next.max(next);
        self.first = self.first.max(first).min(self.next);
        None
    }

    /// As `described`.
    fn stored(&mut self, before: Known, sequence: u64, is_duplicate: bool) -> Option<String> {
        let next = sequence.saturating_add(1);
        // A record that was sent twice has the number that it got the first time.
        if sequence < before.next && !is_duplicate {
            self.begin(self.first.min(sequence), next);
            let had = before.next - 1;
            return Some(format!("it had record {had}, and a new one got {sequence}"));
        }
        self.next = self.next.max(next);
        None
    }

    fn begin(&mut self, first: u64, next: u64) {
        self.epoch = now_ms().max(self.epoch.saturating_add(1));
        self.first = first;
        self.next = next;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_epoch_that_another_server_has_begun_is_taken_over() {
        let history = History::new("a", &info(EARLY, 1, 20));
        let old = history.known();
        let mut later = info(EARLY, 1, 30);
        let epoch = old.epoch + 5;
        later.config.metadata = Some(json!({ "txlog-epoch": epoch.to_string() }));
        assert_eq!(history.described(old, &later), Some(epoch));
        let new = history.known();
        assert_eq!((new.epoch, new.next), (epoch, 31));
        assert_eq!(History::new("a", &later).known(), new);
        // What was not written yet is no step back.
        history.described(new, &info(EARLY, 1, 30));
        assert_eq!(history.known(), new);
    }

    fn info(created: &str, first: u64, last: u64) -> Info {
        let state = json!({ "first_seq": first, "last_seq": last });
        let info = json!({ "config": {}, "created": created, "state": state });
        serde_json::from_value(info).unwrap()
    }

    const EARLY: &str = "2026-11-21T18:48:21.123Z";
    const LATE: &str = "2026-11-21T18:48:22Z";

    #[test]
    fn bounds_of_any_stream_are_numbers() {
        for (first, last, bounds) in [
            (0, 0, (1, 1)),
            (1, 0, (1, 1)),
            (3, 7, (3, 8)),
            (9, 8, (9, 9)),
            (u64::MAX, u64::MAX, (u64::MAX, u64::MAX)),
        ] {
            assert_eq!(info(EARLY, first, last).bounds(), bounds);
        }
    }

    #[test]
    fn servers_of_a_stream_begin_with_the_same_epoch() {
        let (one, other) = (
            History::new("a", &info(EARLY, 1, 7)),
            History::new("a", &info(EARLY, 2, 9)),
        );
        assert_eq!(one.known().epoch, other.known().epoch);
        assert_eq!(one.known().epoch, 1_795_286_901_123);
    }

    #[test]
    fn a_stream_that_ends_earlier_begins_an_epoch() {
        let history = History::new("a", &info(EARLY, 1, 20));
        let old = history.known();
        history.described(old, &info(EARLY, 1, 10));
        let new = history.known();
        assert!(new.epoch > old.epoch);
        assert_eq!((new.first, new.next), (1, 11));
        // Those that were on their way speak of the time before.
        history.described(old, &info(EARLY, 1, 20));
        history.stored(old, 21, false);
        history.replaced(old, 15);
        assert_eq!(history.known(), new);
    }

    #[test]
    fn an_answer_that_crossed_an_acknowledgement_is_no_loss() {
        let history = History::new("a", &info(EARLY, 1, 20));
        let asked = history.known();
        history.stored(asked, 21, false);
        history.described(asked, &info(EARLY, 1, 20));
        let known = history.known();
        assert_eq!((known.epoch, known.next), (asked.epoch, 22));
    }

    #[test]
    fn a_number_that_is_given_twice_begins_an_epoch_but_for_a_record_sent_twice() {
        let history = History::new("a", &info(EARLY, 1, 20));
        let sent = history.known();
        history.stored(sent, 21, false);
        history.stored(sent, 22, false);
        let again = history.known();
        history.stored(again, 22, true);
        assert_eq!(history.known(), again);
        history.stored(again, 22, false);
        assert!(history.known().epoch > again.epoch);
    }

    #[test]
    fn a_stream_that_was_made_anew_begins_an_epoch_though_it_is_longer() {
        let history = History::new("a", &info(EARLY, 1, 20));
        let old = history.known();
        history.described(old, &info(LATE, 1, 30));
        let new = history.known();
        assert_eq!((new.epoch, new.next), (1_795_286_902_000, 31));
        history.described(new, &info(LATE, 1, 30));
        assert_eq!(history.known(), new);
        // Also if its creation was long ago, by the clock of its server.
        history.described(new, &info(EARLY, 1, 40));
        let newest = history.known();
        assert_eq!((newest.epoch, newest.next), (new.epoch + 1, 41));
    }
}
