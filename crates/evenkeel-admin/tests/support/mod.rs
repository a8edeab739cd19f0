//! A runtime with an admin server, and requests by hand.
#![allow(dead_code, unreachable_pub, reason = "each test crate uses a part")]

use std::fmt::Write;
use std::time::Duration;

use evenkeel::net::{TcpStream, UnixStream};
use evenkeel::runtime::{Builder, Runtime};
use evenkeel_admin::Admin;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Far beyond what anything here takes.
pub const LIMIT: Duration = Duration::from_secs(60);

pub fn runtime() -> Runtime {
    Builder::new().workers(2).build().unwrap()
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub fn assert_problem(&self, status: u16, part: &str) {
        assert_eq!(self.status, status, "{self:?}");
        let json = self.json();
        let error = json["error"].as_str().unwrap();
        assert!(error.contains(part), "{error}");
    }
}

pub async fn get(admin: &Admin, path: &str) -> Answer {
    ask(admin, "GET", path, &[], "").await
}

pub async fn put(admin: &Admin, path: &str, json: &str) -> Answer {
    let headers = [("content-type", "application/json")];
    ask(admin, "PUT", path, &headers, json).await
}

/// Makes a request on a connection of its own, and reads the answer to the connection's end. A
/// header that is given replaces the usual one.
pub async fn ask(
    admin: &Admin,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let length = body.len().to_string();
    let usual = [
        ("host", "localhost"),
        ("connection", "close"),
        ("content-length", &length),
    ];
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    let is_given = |name: &str| headers.iter().any(|(given, _)| *given == name);
    let usual = usual.iter().filter(|(name, _)| !is_given(name));
    for (name, value) in usual.chain(headers) {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    text.push_str("\r\n");
    text.push_str(body);
    evenkeel::time::timeout(LIMIT, talk(&admin.address(), &text))
        .await
        .expect("an answer")
}

async fn talk(address: &str, request: &str) -> Answer {
    let text = match address.strip_prefix("unix:") {
        Some(path) => exchange(UnixStream::connect(path).await.unwrap(), request).await,
        None => exchange(TcpStream::connect(address).await.unwrap(), request).await,
    };
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}
