//! The client with scripted servers.

use std::future::Future;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel::net::TcpListener;
use evenkeel::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use evenkeel::time::timeout;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::frame::{Batched, Produced, Trim, VERSION, VERSION_MIN};

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Long enough for a forbidden event to happen.
const WHILE: Duration = Duration::from_millis(50);

/// The server's side of a connection.
struct Served {
    frames: FrameReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
}

impl Served {
    async fn request(&mut self) -> Option<Request> {
        let frame = timeout(LIMIT, self.frames.next()).await.expect("in time");
        frame.unwrap().map(|frame| Request::decode(frame).unwrap())
    }

    async fn answer(&mut self, response: &Response) {
        let mut buffer = BytesMut::new();
        response.encode(&mut buffer);
        self.write.write_all(&buffer).await.unwrap();
    }

    async fn append(&mut self) -> u64 {
        match self.request().await {
            Some(Request::Append { id, .. }) => id,
            other => panic!("{other:?} is no append"),
        }
    }
}

fn welcome_with(appends_max: u32) -> Response {
    Response::Welcome {
        version: VERSION,
        record_bytes_max: 1 << 20,
        appends_max,
        first: 1,
        next: 1,
        of: Some(Identity { log: 1, epoch: 1 }),
        batch_bytes_max: Some(1_000),
    }
}

/// A client and its server, in a runtime of their own.
fn connected<F: Future<Output = ()>>(appends_max: u32, test: impl FnOnce(Client, Served) -> F) {
    connected_by(&welcome_with(appends_max), test);
}

/// The same, with a server that says this of itself.
fn connected_by<F: Future<Output = ()>>(
    welcome: &Response,
    test: impl FnOnce(Client, Served) -> F,
) {
    let runtime = evenkeel::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let all = async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let client = evenkeel::spawn(Client::connect(address));
            let (read, write) = listener.accept().await.unwrap().0.into_split();
            let frames = FrameReader::new(read, 16 << 20);
            let mut served = Served { frames, write };
            assert!(matches!(
                served.request().await,
                Some(Request::Hello { .. })
            ));
            served.answer(welcome).await;
            test(client.await.unwrap().unwrap(), served).await;
        };
        timeout(LIMIT, all).await.expect("an end in time");
    });
}

/// The result of connecting to a server that answers so.
fn connecting_to(answer: &'static [u8]) -> ClientError {
    let runtime = evenkeel::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let client = evenkeel::spawn(Client::connect(address));
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(answer).await.unwrap();
        stream.shutdown().await.unwrap();
        let connected = timeout(LIMIT, client).await.expect("in time").unwrap();
        connected.expect_err("that is no server")
    })
}

fn waiting(client: &Client) -> usize {
    client.inner.answers.lock().by_id.len()
}

#[test]
fn no_more_appends_are_under_way_than_the_server_takes() {
    connected(2, |client, mut served| async move {
        let mut submitted = Vec::new();
        for _ in 0..2 {
            submitted.push(client.submit("taken").await.unwrap());
        }
        let third = timeout(WHILE, client.submit("too many")).await;
        assert!(third.is_err(), "it waits");
        // Each that ends, by its answer or by a drop, makes room for one more.
        let id = served.append().await;
        served.answer(&Response::Appended { id, sequence: 1 }).await;
        assert_eq!(submitted.remove(0).await.unwrap(), 1);
        for _ in 0..10 {
            let more = timeout(LIMIT, client.submit("more")).await.expect("room");
            assert!(timeout(WHILE / 10, client.submit("beyond")).await.is_err());
            drop(more.unwrap());
        }
    });
}

#[test]
fn an_append_that_was_answered_is_not_under_way_though_nobody_has_asked() {
    connected(2, |client, mut served| async move {
        let mut submitted = Vec::new();
        for sequence in 1..=10 {
            let submit = timeout(LIMIT / 4, client.submit("one of many")).await;
            submitted.push(submit.expect("all before it were answered").unwrap());
            let id = served.append().await;
            served.answer(&Response::Appended { id, sequence }).await;
        }
        for (sequence, submitted) in (1..).zip(submitted) {
            assert_eq!(submitted.await.unwrap(), sequence);
        }
        assert_eq!(client.inner.appends.available_permits(), 2);
    });
}

#[test]
fn what_is_given_up_is_forgotten_and_its_answer_goes_to_nobody() {
    connected(100, |client, mut served| async move {
        let given_up = client.submit("given up").await.unwrap();
        let kept = client.submit("kept").await.unwrap();
        assert_eq!(waiting(&client), 2);
        drop(given_up);
        assert_eq!(waiting(&client), 1);
        for sequence in 1..=2 {
            let id = served.append().await;
            served.answer(&Response::Appended { id, sequence }).await;
        }
        assert_eq!(kept.await.unwrap(), 2);
        assert_eq!(waiting(&client), 0);
    });
}

#[test]
fn the_first_reason_is_what_all_hear_who_wait_or_come_later() {
    connected(100, |client, mut served| async move {
        let before = client.submit("before").await.unwrap();
        served.append().await;
        // More than the system's buffers hold: writing fails later than reading.
        let mut unread = Vec::new();
        for _ in 0..32 {
            unread.push(client.submit(vec![0; 1 << 20]).await.unwrap());
        }
        let code = Code::TooSlow;
        let text = "because".to_owned();
        served.answer(&Response::Fault { code, text }).await;
        let error = before.await.unwrap_err();
        assert_eq!(error.code(), Some(Code::TooSlow), "{error}");
        drop(served);
        for submitted in unread {
            assert_eq!(submitted.await.unwrap_err().code(), Some(Code::TooSlow));
        }
        // By now writing has failed.
        for _ in 0..3 {
            let error = client.append("after").await.unwrap_err();
            assert_eq!(error.code(), Some(Code::TooSlow), "{error}");
            evenkeel::time::sleep(WHILE * 3).await;
        }
        assert_eq!(waiting(&client), 0);
    });
}

#[test]
fn an_answer_of_another_kind_is_an_error() {
    connected(100, |client, mut served| async move {
        let asked = client.clone();
        let ping = evenkeel::spawn(async move { asked.ping().await });
        let Some(Request::Ping { id }) = served.request().await else {
            panic!("no ping")
        };
        served.answer(&Response::Appended { id, sequence: 1 }).await;
        let error = ping.await.unwrap().unwrap_err();
        assert!(error.to_string().contains("unexpected answer"), "{error}");
    });
}

#[test]
fn a_second_welcome_and_nonsense_end_the_connection() {
    let mut welcome = BytesMut::new();
    welcome_with(1).encode(&mut welcome);
    let cut = welcome.len() - 5;
    for (bytes, reason) in [
        (welcome.clone().freeze(), "unexpected answer"),
        (Bytes::from_static(&[1, 0, 0, 0, 0x33]), "unknown kind"),
        (Bytes::from_static(&[0xff; 4]), "at most"),
        (welcome.freeze().slice(..cut), "within a frame"),
        (Bytes::new(), "closed it"),
    ] {
        connected(100, |client, mut served| async move {
            let before = client.submit("before").await.unwrap();
            served.append().await;
            served.write.write_all(&bytes).await.unwrap();
            served.write.shutdown().await.unwrap();
            let error = before.await.unwrap_err();
            assert!(error.to_string().contains(reason), "{error}, not {reason}");
        });
    }
}

#[test]
fn a_batch_is_one_frame_and_one_answer() {
    let producer = Some(Produced {
        producer: 7,
        number: 3,
    });
    let records: Batched = ["a", "bc"].iter().collect();
    let batch = Batch {
        records: records.clone(),
        expected: Some(12),
        producer,
        not_before: Some(9),
    };
    connected(100, |client, mut served| async move {
        let submitted = client.submit_batch(batch).await.unwrap();
        let Some(Request::Batch {
            id,
            expected: Some(12),
            producer: sent,
            not_before: Some(9),
            records: same,
        }) = served.request().await
        else {
            panic!("no batch")
        };
        assert_eq!((sent, same), (producer, records));
        let (first, count, repeated) = (12, 2, true);
        let stored = Response::Stored {
            id,
            first,
            count,
            repeated,
        };
        served.answer(&stored).await;
        let stored = submitted.await.unwrap();
        assert_eq!((stored.first, stored.count, stored.repeated), (12, 2, true));
        // One that is too long for the server is not sent.
        let long = Batch::new([vec![0; 1_000 - 3]]);
        let error = client.submit_batch(long).await.unwrap_err();
        assert!(matches!(error, ClientError::TooLong { .. }), "{error}");
        let long = Batch::new([vec![0; 1_000 - 4]]);
        drop(client.submit_batch(long).await.unwrap());
        assert!(matches!(
            served.request().await,
            Some(Request::Batch { .. })
        ));
    });
}

#[test]
fn the_largest_answer_is_taken() {
    connected(100, |client, mut served| async move {
        let reading = evenkeel::spawn(async move { client.read(0, Duration::ZERO).await });
        let Some(Request::Read { id, .. }) = served.request().await else {
            panic!("no read")
        };
        let record = |sequence| Record {
            sequence,
            time_ms: 1,
            payload: Bytes::from(vec![7; if sequence == 1 { 1 << 20 } else { 0 }]),
        };
        let most = u64::from(READ_RECORDS_MAX);
        let records: Vec<Record> = (1..=most).map(record).collect();
        let next = most + 1;
        served
            .answer(&Response::Records { id, next, records })
            .await;
        let (records, next) = reading.await.unwrap().unwrap();
        assert_eq!((records.len() as u64, next), (most, most + 1));
    });
}

#[test]
fn the_last_clone_closes_the_connection() {
    connected(100, |client, mut served| async move {
        let other = client.clone();
        drop(client);
        let submitted = other.submit("sent all the same").await.unwrap();
        drop((submitted, other));
        served.append().await;
        assert_eq!(served.request().await, None);
    });
}

#[test]
fn who_is_no_server_is_told_from_one() {
    for (answer, reason) in [
        (&b""[..], "closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "at most"),
        (&[9, 0, 0, 0, 0x84, 1, 0, 0, 0, 0, 0, 0, 0], "begins with"),
    ] {
        let error = connecting_to(answer);
        assert!(
            matches!(&error, ClientError::NotTxlog { reason: said, .. } if said.contains(reason)),
            "{error}"
        );
    }
    let error = connecting_to(&[4, 0, 0, 0, 0x86, 2, 0, b'!']);
    assert_eq!(error.code(), Some(Code::Version), "{error}");
}

#[test]
fn an_old_server_is_read_and_what_it_cannot_say_is_not_asked() {
    // `welcome_with` has no log, and here it is of version 1.
    let mut welcome = BytesMut::new();
    Response::Welcome {
        version: VERSION_MIN,
        record_bytes_max: 100,
        appends_max: 1,
        first: 1,
        next: 1,
        of: None,
        batch_bytes_max: None,
    }
    .encode(&mut welcome);
    assert_eq!(welcome.len(), 4 + 1 + 26, "as before there was version 2");
    let runtime = evenkeel::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let client = evenkeel::spawn(Client::connect(address));
        let (read, mut write) = listener.accept().await.unwrap().0.into_split();
        write.write_all(&welcome).await.unwrap();
        let client = timeout(LIMIT, client).await.unwrap().unwrap().unwrap();
        let cursor = "1-1-1".parse().unwrap();
        let refused = [
            client.resume(cursor).unwrap_err(),
            client.health(LIMIT).await.unwrap_err(),
        ];
        for error in refused {
            assert!(
                matches!(error, ClientError::OldServer { version: 1, .. }),
                "{error}"
            );
        }
        let mut follower = client.follow(crate::ReadFrom::Oldest);
        assert_eq!(follower.cursor(), None);
        let following = evenkeel::spawn(async move { follower.try_next().await });
        let frames = FrameReader::new(read, 1_000);
        let mut served = Served { frames, write };
        assert!(matches!(
            served.request().await,
            Some(Request::Hello {
                min: VERSION_MIN,
                max: VERSION,
                access: None
            })
        ));
        let Some(Request::Read { id, of: None, .. }) = served.request().await else {
            panic!("no read")
        };
        let (next, records) = (1, Vec::new());
        let none = Response::Records { id, next, records };
        served.answer(&none).await;
        assert_eq!(following.await.unwrap().unwrap(), None);
    });
}

/// A client with a server of version 3, which is the last one without trims.
#[test]
fn an_earlier_server_is_not_asked_to_trim_and_the_error_says_that_it_is_older() {
    let welcome = Response::Welcome {
        version: 3,
        record_bytes_max: 100,
        appends_max: 1,
        first: 1,
        next: 9,
        of: Some(Identity { log: 1, epoch: 1 }),
        batch_bytes_max: Some(1_000),
    };
    connected_by(&welcome, |client, mut served| async move {
        let error = client.trim(Trim::before(4)).await.unwrap_err();
        let said = error.to_string();
        assert!(
            matches!(error, ClientError::OldServer { version: 3, .. }),
            "{said}"
        );
        assert!(said.contains("start a newer"), "{said}");
        // The next thing that it hears is this.
        let pinged = evenkeel::spawn(async move { client.ping().await });
        let Some(Request::Ping { id }) = served.request().await else {
            panic!("no ping")
        };
        served.answer(&Response::Pong { id }).await;
        pinged.await.unwrap().unwrap();
    });
}

#[test]
fn a_trim_is_asked_for_as_it_was_said_and_refused_with_both_ends() {
    connected(1, |client, mut served| async move {
        let trim = Trim::before(4).dry_run(true).force(true);
        let trimming = client.clone();
        let trimmed = evenkeel::spawn(async move { trimming.trim(trim).await });
        let Some(Request::Trim { id, trim: asked }) = served.request().await else {
            panic!("no trim")
        };
        assert_eq!(asked, trim);
        served.answer(&Response::Trimmed { id, first: 3 }).await;
        assert_eq!(trimmed.await.unwrap().unwrap(), 3);
        let trimmed = evenkeel::spawn(async move { client.trim(Trim::before(99)).await });
        let Some(Request::Trim { id, trim: asked }) = served.request().await else {
            panic!("no trim")
        };
        assert_eq!(asked, Trim::before(99));
        let refused = Response::RefusedAt {
            id,
            code: Code::OutOfRange,
            numbers: [3, 9],
            text: "too far".to_owned(),
        };
        served.answer(&refused).await;
        let error = trimmed.await.unwrap().unwrap_err();
        let ClientError::OutOfRange { first, next, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((first, next), (3, 9));
    });
}

#[test]
fn a_version_that_was_not_offered_is_not_spoken() {
    let mut welcome = BytesMut::new();
    Response::Welcome {
        version: VERSION + 1,
        record_bytes_max: 100,
        appends_max: 1,
        first: 1,
        next: 1,
        of: None,
        batch_bytes_max: None,
    }
    .encode(&mut welcome);
    let error = connecting_to(Vec::leak(welcome.to_vec()));
    assert!(matches!(error, ClientError::NotTxlog { .. }), "{error}");
}
