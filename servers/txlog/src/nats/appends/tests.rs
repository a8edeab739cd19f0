//! What becomes of records when connections break and answers come late.

use serde_json::json;
use tokio::sync::Semaphore;
use txlog_client::frame::MAY_PASS;

use super::*;
use crate::log::gaps::Gaps;
use crate::nats::stream::Info;

const LONG: Duration = Duration::from_secs(600);

fn appends(repeat_max: Duration, answer_max: Duration) -> Appends {
    let info = json!({
        "config": {},
        "created": "2026-11-21T18:48:21Z",
        "state": { "first_seq": 1, "last_seq": 0 },
    });
    let info: Info = serde_json::from_value(info).unwrap();
    let history = Arc::new(History::new("a", &info));
    Appends::new("a", history, answer_max, 2 * repeat_max)
}

fn room() -> Room {
    let permit = || Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    Room {
        _place: permit(),
        _bytes: [permit(), permit()],
    }
}

fn add(appends: &Appends, payload: &'static str) -> oneshot::Receiver<Outcome> {
    let payload = Bytes::from_static(payload.as_bytes());
    appends.add(payload, (None, None), None, room()).unwrap()
}

fn numbered(producer: u128, number: u64, gaps: &Gaps) -> Option<Numbered> {
    Some(Numbered {
        produced: Produced { producer, number },
        gaps: Some(gaps.clone()),
    })
}

/// Sends all that are to be sent over a connection.
fn send(appends: &Appends, generation: u64) -> Vec<Bytes> {
    let (mut sent, mut last) = (Vec::new(), 0);
    while let Some(Sendable { id, payload, .. }) = appends.next_after(last, generation) {
        sent.push(payload);
        last = id;
    }
    sent
}

fn answer(text: &str) -> Message {
    Message {
        subject: "inbox.a1".into(),
        reply: None,
        payload: Bytes::copy_from_slice(text.as_bytes()),
        headers: None,
        status: None,
        description: None,
        length: 0,
    }
}

const REFUSAL: &str = "{\"error\":{\"code\":503,\"err_code\":10077,\"description\":\"full\"}}";

#[test]
fn records_are_sent_again_in_their_order_and_before_new_ones() {
    let appends = appends(LONG, LONG);
    let mut all: Vec<_> = ["a", "b", "c"].map(|name| add(&appends, name)).into();
    assert_eq!(send(&appends, 1), ["a", "b", "c"]);
    appends.answered(2, 1, &answer("{\"stream\":\"a\",\"seq\":2}"));
    all.push(add(&appends, "d"));
    assert_eq!(send(&appends, 2), ["a", "c", "d"]);
    assert_eq!(all[1].try_recv().unwrap().unwrap().0, 2);
    // It was stored the first time, and only its answer was lost.
    appends.answered(
        1,
        2,
        &answer("{\"stream\":\"a\",\"seq\":1,\"duplicate\":true}"),
    );
    assert_eq!(all[0].try_recv().unwrap().unwrap().0, 1);
    assert_eq!(appends.history.known().next, 3);
}

#[test]
fn a_late_refusal_says_nothing_of_the_copy_that_is_under_way() {
    let appends = appends(LONG, LONG);
    let mut one = add(&appends, "one");
    send(&appends, 1);
    send(&appends, 2);
    appends.answered(1, 1, &answer(REFUSAL));
    one.try_recv().unwrap_err();
    // But stored is stored.
    appends.answered(1, 1, &answer("{\"stream\":\"a\",\"seq\":1}"));
    assert_eq!(one.try_recv().unwrap().unwrap().0, 1);
    let mut two = add(&appends, "two");
    send(&appends, 2);
    appends.answered(2, 2, &answer(REFUSAL));
    let error = two.try_recv().unwrap().unwrap_err().text;
    assert!(
        error.contains("did not store the record") && error.contains("full"),
        "{error}"
    );
}

#[test]
fn a_record_is_not_sent_again_when_nats_may_have_forgotten_it() {
    let appends = appends(Duration::ZERO, LONG);
    let mut sent = add(&appends, "sent");
    assert_eq!(send(&appends, 1), ["sent"]);
    std::thread::sleep(Duration::from_millis(1));
    let mut new = add(&appends, "new");
    assert_eq!(send(&appends, 2), ["new"]);
    let error = sent.try_recv().unwrap().unwrap_err().text;
    assert!(error.contains("may be stored or not"), "{error}");
    new.try_recv().unwrap_err();
}

#[test]
fn who_is_given_up_hears_whether_the_record_may_be_stored() {
    let appends = appends(LONG, Duration::ZERO);
    let mut sent = add(&appends, "sent");
    send(&appends, 1);
    let mut unsent = add(&appends, "unsent");
    assert_eq!(appends.expire(), None);
    let error = |outcome: &mut oneshot::Receiver<Outcome>| outcome.try_recv().unwrap().unwrap_err();
    let (sent, unsent) = (error(&mut sent), error(&mut unsent));
    assert!(sent.text.contains("may be stored or not"), "{sent}");
    assert_eq!((sent.code, sent.numbers), (Code::LogFailed, Some(MAY_PASS)));
    assert!(unsent.text.contains("the record is not stored"), "{unsent}");
    let surely = (Code::LogFailedBefore, Some(MAY_PASS));
    assert_eq!((unsent.code, unsent.numbers), surely);
}

/// A refusal speaks of one copy, and the first one may be stored.
#[test]
fn what_was_sent_before_is_not_said_to_be_refused_for_good() {
    let appends = appends(LONG, LONG);
    for again in [false, true] {
        let mut ends = ["refused", "too large", "nobody"].map(|name| add(&appends, name));
        let ids = send(&appends, 1).len() as u64;
        let last = appends.lock().id_last;
        if again {
            send(&appends, 2);
        }
        let generation = 1 + u64::from(again);
        appends.answered(last + 1 - ids, generation, &answer(REFUSAL));
        appends.too_large(last + 2 - ids);
        let mut nobody = answer("");
        nobody.status = Some(StatusCode::NO_RESPONDERS);
        appends.answered(last + 3 - ids, generation, &nobody);
        let errors = ends
            .each_mut()
            .map(|end| end.try_recv().unwrap().unwrap_err());
        let codes = errors.each_ref().map(|error| error.code);
        if again {
            assert_eq!(codes, [Code::LogFailed; 3]);
            for error in errors {
                assert!(error.text.contains("may be stored or not"), "{error}");
            }
        } else {
            // A leader's refusal does not speak for the others of its cluster.
            let surely = [Code::RecordTooLarge, Code::LogFailedBefore];
            assert_eq!(codes, [Code::LogFailed, surely[0], surely[1]]);
        }
    }
}

#[test]
fn a_record_that_was_to_get_another_number_hears_of_the_next_one() {
    let appends = appends(LONG, LONG);
    let payload = Bytes::from_static(b"fifth");
    let end = appends.add(payload, (None, Some(5)), None, room());
    let mut end = end.unwrap();
    assert_eq!(appends.next_after(0, 1).unwrap().expected, Some(5));
    let refusal = "{\"error\":{\"code\":400,\"err_code\":10071,\
        \"description\":\"wrong last sequence: 7\"}}";
    appends.answered(1, 1, &answer(refusal));
    let error = end.try_recv().unwrap().unwrap_err();
    assert_eq!(
        (error.code, error.numbers),
        (Code::NotExpected, Some([8, 0]))
    );
}

/// Its earlier copy was sent by somebody else, and NATS may have forgotten that one by now.
#[test]
fn what_a_producer_repeats_is_not_sent_when_nats_may_have_forgotten_it() {
    let appends = appends(Duration::ZERO, LONG);
    let copies = Copies {
        at: Instant::now() - Duration::from_millis(1),
        age_max: Duration::ZERO,
    };
    let payload = Bytes::from_static(b"again");
    let produced = numbered(7, 0, &Gaps::default());
    let repeated = appends.add(payload, (produced, None), Some(copies), room());
    let mut repeated = repeated.unwrap();
    let mut first = add(&appends, "first");
    assert_eq!(send(&appends, 1), ["first"]);
    let error = repeated.try_recv().unwrap().unwrap_err();
    assert_eq!(error.numbers, Some(MAY_PASS));
    assert_eq!(error.code, Code::LogFailedBefore, "this attempt is as none");
    assert!(error.text.contains("append it again"), "{}", error.text);
    assert!(first.try_recv().is_err(), "it waits for its answer");
}

/// Records wait for a connection meanwhile.
#[test]
fn what_waits_is_not_sent_when_nats_knows_ids_for_a_shorter_time_than_it_did() {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    let appends = appends(minutes(10), LONG);
    let gaps = Gaps::default();
    let repeated = |producer, age_max| {
        let at = Instant::now();
        let payload = Bytes::from_static(b"again");
        let copies = Some(Copies { at, age_max });
        let added = appends.add(
            payload,
            (numbered(producer, 0, &gaps), None),
            copies,
            room(),
        );
        added.unwrap()
    };
    let mut sent = add(&appends, "sent");
    send(&appends, 1);
    let mut old = repeated(0, minutes(5));
    let mut young = repeated(1, minutes(1));
    let mut new = add(&appends, "new");
    appends.see_window(minutes(4));
    assert_eq!(send(&appends, 2), ["sent", "again", "new"]);
    let error = old.try_recv().unwrap().unwrap_err();
    assert_eq!(error.code, Code::LogFailedBefore, "this attempt is as none");
    // It does not learn again what it has forgotten.
    appends.see_window(Duration::ZERO);
    appends.see_window(minutes(20));
    assert!(appends.reach() < minutes(1));
    std::thread::sleep(Duration::from_millis(1));
    let mut newest = add(&appends, "newest");
    assert_eq!(send(&appends, 3), ["newest"]);
    for gone in [&mut sent, &mut young, &mut new] {
        let error = gone.try_recv().unwrap().unwrap_err();
        assert_eq!(error.code, Code::LogFailed, "it may be stored");
    }
    newest.try_recv().unwrap_err();
}

/// Records of one connection, and of another.
struct Lines {
    appends: Appends,
    here: Gaps,
    elsewhere: Gaps,
}

impl Lines {
    fn new(repeat_max: Duration, answer_max: Duration) -> Self {
        Self {
            appends: appends(repeat_max, answer_max),
            here: Gaps::default(),
            elsewhere: Gaps::default(),
        }
    }

    fn add(&self, producer: u128, number: u64) -> oneshot::Receiver<Outcome> {
        self.try_add(producer, number, &self.here).unwrap()
    }

    fn try_add(
        &self,
        producer: u128,
        number: u64,
        gaps: &Gaps,
    ) -> Result<oneshot::Receiver<Outcome>, StoreError> {
        let numbered = numbered(producer, number, gaps);
        let payload = Bytes::from(format!("{producer}.{number}"));
        self.appends.add(payload, (numbered, None), None, room())
    }

    /// What comes now behind a record that has to come again.
    fn refuses(&self, producer: u128, number: u64) {
        let error = self.try_add(producer, number, &self.here).unwrap_err();
        assert_eq!(error.code, Code::ProducerGap, "{}", error.text);
        self.try_add(producer, number, &self.elsewhere).unwrap();
    }
}

fn given_up(mut outcome: oneshot::Receiver<Outcome>) -> StoreError {
    outcome.try_recv().unwrap().unwrap_err()
}

#[test]
fn what_a_producer_sent_behind_a_record_that_is_given_up_is_given_up_as_well() {
    let lines = Lines::new(LONG, Duration::from_millis(50));
    let first = lines.add(1, 0);
    std::thread::sleep(Duration::from_millis(60));
    let (second, other) = (lines.add(1, 1), lines.add(2, 1));
    let elsewhere = lines.try_add(1, 0, &lines.elsewhere).unwrap();
    assert!(lines.appends.expire().is_some(), "others are waited for");
    assert!(given_up(first).text.contains("did not acknowledge"));
    let error = given_up(second);
    assert!(
        error.text.contains("before it was given up"),
        "{}",
        error.text
    );
    assert_eq!(error.code, Code::LogFailedBefore, "it was not sent");
    lines.refuses(1, 2);
    assert_eq!(send(&lines.appends, 1), ["2.1", "1.0", "1.2"]);
    drop((other, elsewhere));
}

#[test]
fn what_is_behind_a_record_that_nats_may_have_forgotten_is_not_sent_before_it() {
    let lines = Lines::new(Duration::ZERO, LONG);
    let first = lines.add(1, 0);
    assert_eq!(send(&lines.appends, 1), ["1.0"]);
    std::thread::sleep(Duration::from_millis(1));
    let behind = [lines.add(1, 1), lines.add(1, 2)];
    let other = lines.add(2, 1);
    let last = lines.add(1, 3);
    assert_eq!(send(&lines.appends, 2), ["2.1"]);
    assert_eq!(given_up(first).code, Code::LogFailed);
    for outcome in behind.into_iter().chain([last]) {
        assert_eq!(given_up(outcome).code, Code::LogFailedBefore);
    }
    lines.refuses(1, 4);
    drop(other);
}

#[test]
fn what_is_behind_a_record_that_nats_refused_is_not_sent_unless_it_was() {
    let lines = Lines::new(LONG, LONG);
    let (first, sent) = (lines.add(1, 0), lines.add(1, 1));
    assert_eq!(send(&lines.appends, 1), ["1.0", "1.1"]);
    let (other, unsent) = (lines.add(2, 1), lines.add(1, 2));
    lines.appends.answered(1, 1, &answer(REFUSAL));
    assert_eq!(given_up(first).code, Code::LogFailed);
    assert_eq!(given_up(unsent).code, Code::LogFailedBefore);
    lines.refuses(1, 3);
    // NATS may have it by now.
    assert_eq!(send(&lines.appends, 2), ["1.1", "2.1", "1.3"]);
    drop((sent, other));
}
