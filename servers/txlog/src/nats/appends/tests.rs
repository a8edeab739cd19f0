//! What becomes of records when connections break and answers come late.

use serde_json::json;
use tokio::sync::Semaphore;

use super::*;
use crate::nats::stream::Info;

const LONG: Duration = Duration::from_secs(600);

fn appends(repeat_max: Duration, answer_max: Duration) -> Appends {
    let info = json!({
        "config": {},
        "created": "2026-11-21T18:48:21Z",
        "state": { "first_seq": 1, "last_seq": 0 },
    });
    let info: Info = serde_json::from_value(info).unwrap();
    let patience = Patience {
        answer_max,
        repeat_max,
    };
    Appends::new("a", Arc::new(History::new("a", &info)), patience)
}

fn room() -> Room {
    let permit = || Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    Room {
        _place: permit(),
        _bytes: permit(),
    }
}

fn add(appends: &Appends, payload: &'static str) -> oneshot::Receiver<Outcome> {
    appends.add(Bytes::from_static(payload.as_bytes()), None, room())
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
    let error =
        |outcome: &mut oneshot::Receiver<Outcome>| outcome.try_recv().unwrap().unwrap_err().text;
    assert!(error(&mut sent).contains("may be stored or not"));
    assert!(error(&mut unsent).contains("the record is not stored"));
}
