//! What is forwarded of requests that programs read differently: nothing that two readings differ
//! on.
//!
//! Each request of the [corpus] is sent on a connection of its own, and a server behind records the
//! bytes that come. [Readers](reader) of many sorts then say which requests these bytes are.

mod beside;
pub(crate) mod corpus;
pub(crate) mod reader;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::thread;

use corpus::Case;
use reader::{Reading, readings};

use super::support::{LIMIT, Origin, Proxy, web};

/// Cases that are sent at the same time.
const AT_ONCE: usize = 8;

/// Answers when a strict reader has a whole request, and records all that comes until the end.
fn record(mut stream: TcpStream, records: &Mutex<Vec<Vec<u8>>>) {
    let mut bytes = Vec::new();
    let mut part = [0; 4_096];
    let mut is_answered = false;
    loop {
        match stream.read(&mut part) {
            Ok(0) | Err(_) => break,
            Ok(came) => bytes.extend_from_slice(&part[..came]),
        }
        if !is_answered && Reading::STRICT.first_is_whole(&bytes) {
            is_answered = true;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            if stream.write_all(answer).is_err() || stream.shutdown(Shutdown::Write).is_err() {
                break;
            }
        }
    }
    records.lock().unwrap().push(bytes);
}

/// Sends a case, and returns the status of the first answer.
fn send(address: &str, case: &Case) -> Option<u16> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(&case.bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    // What is refused may end with a reset.
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    text.get(9..12)?.parse().ok()
}

#[test]
fn nothing_is_forwarded_that_two_readings_differ_on() {
    let cases = corpus::all();
    assert!(cases.len() > 400, "{}", cases.len());
    let records = std::sync::Arc::new(Mutex::new(Vec::new()));
    let recording = std::sync::Arc::clone(&records);
    let origin = Origin::raw(move |stream, _, _| record(stream, &recording));
    let proxy = Proxy::start(&web("", "", &[&origin]));
    let address = proxy.address("web");
    let statuses: Vec<(usize, Option<u16>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|first| {
                let cases = &cases;
                let sent = move || {
                    let own = cases.iter().enumerate().skip(first).step_by(AT_ONCE);
                    own.map(|(index, case)| (index, send(address, case)))
                        .collect::<Vec<_>>()
                };
                scope.spawn(sent)
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    super::support::until("all is recorded", || origin.open() == 0);
    let records = records.lock().unwrap();
    for bytes in records.iter() {
        let all = readings(bytes);
        let first = all[0].as_ref().ok();
        let shown = String::from_utf8_lossy(bytes);
        // What was begun and is refused then is cut off, and whole for nobody.
        assert!(
            first.map_or(0, Vec::len) <= 1,
            "several requests: {shown:?}"
        );
        for other in &all {
            assert_eq!(other.as_ref().ok(), first, "two readings of {shown:?}");
        }
    }
    let count = |wanted: fn(u16) -> bool| {
        let found = statuses
            .iter()
            .filter(|(_, status)| status.is_some_and(wanted));
        found.count()
    };
    let (forwarded, refused) = (count(|status| status == 200), count(|status| status >= 400));
    assert!(
        forwarded >= 40 && refused >= 300,
        "{forwarded} and {refused}"
    );
    for (index, status) in &statuses {
        let Case { name, is_plain, .. } = &cases[*index];
        assert!(
            !is_plain || *status == Some(200),
            "{name} was to be forwarded: {status:?}"
        );
    }
}
