//! Requests to the program over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::{LIMIT, Program};

impl Program {
    /// Makes a request with these headers and this body: the head of the answer, and what follows.
    pub(crate) fn http(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.watch).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let (host, len) = (&self.watch, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len}\r\n\
             connection: close\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let mut places = answer.windows(4);
        let end = places.position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        (head, answer[end + 4..].to_vec())
    }

    /// The status and the JSON of an answer.
    pub(crate) fn api(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let kind = "content-type: application/json\r\n";
        let (head, body) = self.http(method, path, kind, &body.to_string());
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// What is said of a camera.
    pub(crate) fn camera(&self, name: &str) -> Value {
        self.api("GET", &format!("/api/cameras/{name}"), &Value::Null)
            .1
    }

    /// The names of all cameras.
    pub(crate) fn cameras(&self) -> Vec<String> {
        let (_, listed) = self.api("GET", "/api/cameras", &Value::Null);
        let names = listed["cameras"].as_array().unwrap().iter();
        names
            .map(|camera| camera["name"].as_str().unwrap().to_owned())
            .collect()
    }
}
