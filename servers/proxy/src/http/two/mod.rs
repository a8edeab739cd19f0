//! HTTP/2, with clients, with servers or with both. Frames, header compression and windows are
//! those of the crate h2; what requests mean, where they go and what they may cost is decided here,
//! as for HTTP/1.1.
//!
//! - `frames`: counts what costs its sender nothing.
//! - `held`: what is held for those who do not take it.
//! - `wire`: a connection as h2 sees it; `gather`: what goes out together.
//! - `connection`: a client's connection.
//! - `request`: what a request is in the other protocol.
//! - `call`: one request and its answer, during whose `upload` the answer may come.
//! - `body`: bodies between both protocols, from a `source` to a `sink`.
//! - `squeeze`: bodies that are compressed on their way.
//! - `answer`: the head of an answer; `reply`: how it goes to the client.
//! - `tunnel`: what an extended CONNECT changes to, such as WebSockets.
//! - `servers`: connections to servers.
//! - `check`: checks of servers.

mod answer;
mod body;
mod call;
mod check;
mod connection;
mod frames;
mod gather;
mod held;
mod reply;
mod request;
mod servers;
mod sink;
mod source;
mod squeeze;
mod tunnel;
mod upload;
mod wire;

pub(super) use call::forward;
pub use check::GrpcFailed;
pub(crate) use check::{answered, serving};
pub(super) use connection::{Begun, begins, serve};
pub use held::All;
pub(super) use request::{is_grpc, request};
pub use servers::Lines;
pub(crate) use servers::{Place, place};
pub(super) use tunnel::key_of_client;

use ::http::{HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use h2::server::SendResponse;

use super::refusal::Refusal;
use crate::policy::{Reply, status_has_body};

/// Answers a request by the proxy itself. A call of gRPC is told by its own status, as its client
/// knows no other.
fn refuse(mut respond: SendResponse<Bytes>, refusal: &Refusal, is_for_head: bool, is_grpc: bool) {
    let mut response = Response::new(());
    let body = if is_grpc {
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/grpc");
        headers.insert(header::CONTENT_TYPE, kind);
        headers.insert("grpc-status", grpc_status(refusal.status).into());
        // A message that cannot be said is left out.
        if let Ok(text) = HeaderValue::from_str(&percent_encoded(&refusal.why)) {
            headers.insert("grpc-message", text);
        }
        Bytes::new()
    } else {
        let status = StatusCode::from_u16(refusal.status);
        *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let text = refusal.text();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, kind);
        headers.insert(header::CONTENT_LENGTH, text.len().into());
        match is_for_head {
            true => Bytes::new(),
            false => text.into(),
        }
    };
    send(&mut respond, response, body);
}

/// Answers a request as the configuration asks for it.
fn answer(mut respond: SendResponse<Bytes>, reply: &Reply, is_for_head: bool) {
    let mut response = Response::new(());
    let status = StatusCode::from_u16(reply.status);
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer::add(&reply.headers, response.headers_mut());
    let body = Bytes::copy_from_slice(reply.body.as_bytes());
    if status_has_body(reply.status) {
        let length = body.len().into();
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, length);
    }
    let body = match is_for_head {
        true => Bytes::new(),
        false => body,
    };
    send(&mut respond, response, body);
}

/// If this fails, the client has gone.
fn send(respond: &mut SendResponse<Bytes>, response: Response<()>, body: Bytes) {
    if let Ok(mut stream) = respond.send_response(response, body.is_empty())
        && !body.is_empty()
    {
        drop(stream.send_data(body, true));
    }
}

/// The status of gRPC for one of HTTP, by gRPC's own table
/// (<https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md>).
fn grpc_status(status: u16) -> u16 {
    match status {
        400 | 431 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502..=504 => 14,
        _ => 2,
    }
}

/// As gRPC has its messages: what is no printable ASCII, and the sign itself, are encoded.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_grpc_are_printable() {
        assert_eq!(percent_encoded("a b~50%\né"), "a b~50%25%0A%C3%A9");
    }
}
