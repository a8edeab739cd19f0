//! Requests to an admin server: one connection each, so that a server which was restarted is found
//! again.

use std::time::Duration;

use bytes::Bytes;
use evenkeel::net::{TcpStream, UnixStream};
use evenkeel::stats::TaskInfo;
use evenkeel::time::timeout;
use evenkeel_admin::Snapshot;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::rt::{Read, Write};
use hyper::{Method, Request, StatusCode};

use crate::error::TopError;

/// How long an answer may take, in seconds.
const LIMIT: u64 = 5;
/// The largest answer that is taken.
const BYTES_MAX: usize = 16 << 20;

/// Where an admin server is, and what it asks for.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: String,
    authorization: Option<HeaderValue>,
}

impl Client {
    pub(crate) fn new(address: &str, token: Option<&str>) -> Result<Self, TopError> {
        let address = address.trim_start_matches("http://").trim_end_matches('/');
        let is_path = address
            .strip_prefix("unix:")
            .is_some_and(|path| !path.is_empty());
        let is_port = |port: &str| port.parse::<u16>().is_ok();
        let is_socket = address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && is_port(port) && !address.starts_with("unix:")
        });
        if !is_path && !is_socket {
            return Err(TopError::Address(address.to_owned()));
        }
        let value = |token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
            value.set_sensitive(true);
            Ok::<_, hyper::header::InvalidHeaderValue>(value)
        };
        let authorization = token.map(value).transpose().map_err(|_| TopError::Token)?;
        Ok(Self {
            address: address.to_owned(),
            authorization,
        })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) async fn snapshot(&self) -> Result<Snapshot, TopError> {
        let body = self.ask(Method::GET, "/stats", "").await?;
        let snapshot = serde_json::from_slice(&body);
        snapshot.map_err(|source| self.odd(source))
    }

    /// The tasks with the most run time; `None` if the server is one that does not list them.
    pub(crate) async fn tasks(&self, limit: usize) -> Result<Option<Vec<TaskInfo>>, TopError> {
        let path = format!("/tasks?limit={limit}");
        match self.ask(Method::GET, &path, "").await {
            Ok(body) => {
                let tasks = serde_json::from_slice(&body);
                tasks.map(Some).map_err(|source| self.odd(source))
            }
            Err(TopError::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn set_share(&self, class: &str, share: u32) -> Result<(), TopError> {
        // A class's name has no character that would have to be escaped.
        let path = format!("/settings/classes/{class}");
        let change = format!("{{\"share\": {share}}}");
        self.ask(Method::PUT, &path, &change).await.map(drop)
    }

    async fn ask(&self, method: Method, path: &str, body: &str) -> Result<Bytes, TopError> {
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
        *request.method_mut() = method;
        if let Ok(path) = path.parse() {
            *request.uri_mut() = path;
        }
        let headers = request.headers_mut();
        let host = if self.address.starts_with("unix:") {
            "localhost"
        } else {
            &self.address
        };
        if let Ok(host) = HeaderValue::from_str(host) {
            headers.insert(HOST, host);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(value) = &self.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        let late = |_| TopError::Late(self.address.clone(), LIMIT);
        let limit = Duration::from_secs(LIMIT);
        timeout(limit, self.send(request)).await.map_err(late)?
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Bytes, TopError> {
        let refused = |source| TopError::Connect {
            address: self.address.clone(),
            source,
        };
        match self.address.strip_prefix("unix:") {
            Some(path) => {
                let stream = UnixStream::connect(path).await.map_err(refused)?;
                self.talk(stream, request).await
            }
            None => {
                let stream = TcpStream::connect(&*self.address).await.map_err(refused)?;
                self.talk(stream, request).await
            }
        }
    }

    async fn talk(
        &self,
        stream: impl Read + Write + Unpin + Send + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<Bytes, TopError> {
        let ended = |source| TopError::Talk {
            address: self.address.clone(),
            source,
        };
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream)
            .await
            .map_err(ended)?;
        // Its errors are those of the request.
        evenkeel::spawn(async { _ = connection.await });
        let answer = sender.send_request(request).await.map_err(ended)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), BYTES_MAX).collect().await;
        let body = body.map_err(|source| TopError::Answer {
            address: self.address.clone(),
            source,
        })?;
        let body = body.to_bytes();
        if status == StatusCode::OK {
            return Ok(body);
        }
        let problem: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
        let message = problem.as_ref().and_then(|it| it["error"].as_str());
        Err(TopError::Refused {
            address: self.address.clone(),
            status: status.as_u16(),
            message: message.unwrap_or("it gives no reason").to_owned(),
        })
    }

    fn odd(&self, source: serde_json::Error) -> TopError {
        TopError::Answer {
            address: self.address.clone(),
            source: source.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_other_texts() {
        for address in [
            "127.0.0.1:7070",
            "http://[::1]:1/",
            "host:80",
            "unix:/run/a.sock",
        ] {
            assert!(Client::new(address, None).is_ok(), "{address}");
        }
        for address in [
            "",
            "7070",
            ":7070",
            "host",
            "host:port",
            "host:70000",
            "unix:",
        ] {
            let error = Client::new(address, None).unwrap_err();
            assert!(matches!(error, TopError::Address(_)), "{address}");
        }
        let error = Client::new("host:80", Some("two\nlines")).unwrap_err();
        assert!(matches!(error, TopError::Token));
    }
}
