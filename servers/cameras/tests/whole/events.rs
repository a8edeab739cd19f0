//! What other programs are told.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cameras::events::webhook::sign;
use serde_json::{Value, json};

use super::support::{Camera, LIMIT, Program, Reply, simulator, until};

const SECRET: &str = "0123456789abcdef";

/// Takes a request, answers it, and returns its event with its number. The signature is checked.
fn told(listener: &TcpListener, answer: u16) -> (u64, Value) {
    listener.set_nonblocking(true).unwrap();
    let mut accepted = None;
    until("the webhook is told", || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (mut stream, _) = accepted.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let (head, body) = request(&mut stream);
    write!(
        stream,
        "HTTP/1.1 {answer} Answer\r\ncontent-length: 0\r\n\r\n"
    )
    .unwrap();
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.unwrap().1.to_owned()
    };
    let time = header("x-evenkeel-time").parse().unwrap();
    assert_eq!(header("x-evenkeel-signature"), sign(SECRET, time, &body));
    let number = header("x-evenkeel-event").parse().unwrap();
    (number, serde_json::from_str(&body).unwrap())
}

fn request(stream: &mut TcpStream) -> (String, String) {
    let (mut bytes, mut part) = (Vec::new(), [0; 4_096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            let length = lines.find(|(name, _)| *name == "content-length").unwrap().1;
            if body.len() >= length.parse::<usize>().unwrap() {
                return (head.to_owned(), body.to_owned());
            }
        }
        let read = stream.read(&mut part).unwrap();
        assert_ne!(read, 0, "{text}");
        bytes.extend_from_slice(&part[..read]);
    }
}

#[test]
fn a_webhook_is_told_of_a_camera_that_comes_and_goes_and_again_after_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let simulator = simulator();
    let url = simulator.url(0);
    let program = Program::start(&format!(
        "[[webhook]]\nurl = \"http://{address}/hook\"\nsecret = \"{SECRET}\"\n\
         events = [\"camera_back\", \"camera_lost\"]\n\
         [camera.gate]\nurl = {url:?}\ndelivery = \"5ms\"\n"
    ));
    let (number, event) = told(&listener, 500);
    assert_eq!(
        (&event["event"], &event["name"]),
        (&json!("camera_back"), &json!("gate"))
    );
    let again = told(&listener, 200);
    assert_eq!(again, (number, event));
    drop(simulator);
    program.until_said("camera gate: nothing comes any more: ");
    let (number, event) = told(&listener, 204);
    assert_eq!((number, &event["event"]), (1, &json!("camera_lost")));
    drop(program);
}

#[test]
fn the_log_says_why_a_camera_does_not_come_once_and_that_it_does() {
    let (asked, is_there) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (counts, opens) = (Arc::clone(&asked), Arc::clone(&is_there));
    let simulator = simulator();
    let elsewhere = format!("Location: {}\r\n", simulator.url(0));
    let camera = Camera::start(
        move |head| {
            counts.fetch_add(1, Ordering::SeqCst);
            let (status, headers) = match opens.load(Ordering::SeqCst) {
                _ if !head.starts_with("DESCRIBE") => return Reply::Usual,
                true => ("302 Found", elsewhere.clone()),
                false => ("404 Not Found", String::new()),
            };
            Reply::Answer(status.to_owned(), headers, String::new())
        },
        Vec::new(),
    );
    let url = camera.url();
    let program = Program::start(&format!(
        "[watch]\nlisten = \"127.0.0.1:0\"\n[camera.gate]\nurl = {url:?}\ndelivery = \"5ms\"\n"
    ));
    program.until_said("camera gate: the camera answers DESCRIBE with 404");
    let error = || program.camera("gate")["error"].clone();
    assert!(error().is_string());
    let (before, since) = (asked.load(Ordering::SeqCst), Instant::now());
    // Each second the server looks what is to be said.
    until("it is tried again", || {
        asked.load(Ordering::SeqCst) > before + 4 && since.elapsed() > Duration::from_secs(3)
    });
    is_there.store(true, Ordering::SeqCst);
    program.until_said("camera gate: it sends again");
    assert_eq!(error(), Value::Null, "what went wrong before is over");
    let said = program.said();
    assert_eq!(said.matches("DESCRIBE").count(), 1, "{said}");
}
