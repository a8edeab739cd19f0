//! What a request is in the other protocol.

use std::net::Ipv4Addr;

use ::http::request::Parts;
use ::http::{HeaderName, HeaderValue, Method, Request, Uri, Version, header};
use h2::ext::Protocol;
use httparse::Header;

use super::super::connection::{Planned, of_head, plan_of};
use super::super::exchange::Plan;
use super::super::framing::Framing;
use super::super::head::{self, BadHead};
use super::super::refusal::Refusal;
use super::super::rewrite::OfRequest;
use super::answer::lines;
use super::tunnel;
use crate::access_log::Note;
use crate::pool::Pool;
use crate::server::Front;
use crate::socket::Ends;

/// A request as a server gets it that speaks HTTP/2.
///
/// # Errors
///
/// [`Refusal`]: it cannot be said in HTTP/2.
pub(in super::super) fn request(
    request: &head::Request<'_>,
    rewrite: OfRequest<'_>,
    pool: &Pool,
) -> Result<Request<()>, Refusal> {
    let bad = |why: &'static str| of_head(&BadHead::bad(why));
    // Some servers refuse a scheme that is not that of their connection. What the client speaks is
    // in X-Forwarded-Proto.
    let scheme = match pool.config.tls_side() {
        Some(_) => "https",
        None => "http",
    };
    // HTTP/1.0 may leave it out, and HTTP/2 may not.
    let changed = rewrite.passage;
    let host = changed.and_then(|passage| passage.host.as_deref());
    let host = match host.unwrap_or(request.host) {
        "" => Ipv4Addr::LOCALHOST.to_string(),
        host => host.to_owned(),
    };
    let uri = Uri::builder().scheme(scheme).authority(host);
    let target = changed.and_then(|passage| passage.target.as_deref());
    let uri = uri.path_and_query(target.unwrap_or(request.target)).build();
    let uri = uri.map_err(|_| bad("the target or the host cannot be said in HTTP/2"))?;
    let mut out = Request::new(());
    let protocol = tunnel::of_server(request);
    let method = match protocol {
        Some(_) => Ok(Method::CONNECT),
        None => Method::from_bytes(request.method.as_bytes()),
    };
    *out.method_mut() = method.map_err(|_| bad("the method is malformed"))?;
    if let Some(protocol) = protocol {
        out.extensions_mut().insert(Protocol::from(protocol));
    }
    *out.uri_mut() = uri;
    *out.version_mut() = Version::HTTP_2;
    let headers = out.headers_mut();
    let mut is_good = true;
    rewrite.fields(request, |name, value| {
        let is_of_handshake = |of: &&str| name.eq_ignore_ascii_case(of);
        if protocol.is_some() && tunnel::HANDSHAKE.iter().any(is_of_handshake) {
            return;
        }
        let name = HeaderName::from_bytes(name.as_bytes());
        match (name, HeaderValue::from_bytes(value)) {
            (Ok(name), Ok(value)) => drop(headers.append(name, value)),
            _ => is_good = false,
        }
    });
    if !is_good {
        return Err(bad("a header cannot be said in HTTP/2"));
    }
    if let Framing::Length(length) = request.framing {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    if takes_trailers(request.headers) {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    Ok(out)
}

/// Whether the client says that it can do with trailers, as clients of gRPC have to.
fn takes_trailers(headers: &[Header<'_>]) -> bool {
    headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("te"))
        .flat_map(|header| header.value.split(|&byte| byte == b','))
        .any(|word| word.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// Whether it is a call of gRPC.
pub(in super::super) fn is_grpc(headers: &[Header<'_>]) -> bool {
    let begin = b"application/grpc";
    headers.iter().any(|header| {
        header.name.eq_ignore_ascii_case("content-type")
            && header.value.len() >= begin.len()
            && header.value[..begin.len()].eq_ignore_ascii_case(begin)
    })
}

/// What is to be done with a request that came by HTTP/2.
///
/// # Errors
///
/// [`Refusal`].
pub(super) fn plan(
    parts: &Parts,
    has_body: bool,
    front: &Front,
    of: (&Ends, bool),
    note: &mut Note,
) -> Result<Planned, Refusal> {
    let mut lines = lines(&parts.headers);
    // One line, as HTTP/1.1 has it.
    let mut cookies = Vec::new();
    let is_cookie = |line: &Header<'_>| line.name == "cookie";
    if lines.iter().filter(|line| is_cookie(line)).count() > 1 {
        let values: Vec<&[u8]> = lines
            .iter()
            .filter(|line| is_cookie(line))
            .map(|line| line.value)
            .collect();
        cookies = values.join(&b"; "[..]);
        lines.retain(|line| !is_cookie(line));
    }
    if !cookies.is_empty() {
        lines.push(Header {
            name: "cookie",
            value: &cookies,
        });
    }
    let protocol = tunnel::asked(parts)?;
    let key = match protocol {
        Some("websocket") => Some(tunnel::key()?),
        _ => None,
    };
    if protocol.is_some() {
        lines.retain(|line| !tunnel::HANDSHAKE.contains(&line.name));
    }
    if let Some(key) = &key {
        let (name, value) = (tunnel::HANDSHAKE[0], key.as_bytes());
        lines.push(Header { name, value });
    }
    let refused = |bad: BadHead| of_head(&bad);
    // Lengths that contradict the body are refused by h2; two are refused here.
    let framing = match Framing::said(&lines, 1).map_err(refused)? {
        // Some servers want to be told that there is nothing.
        Some(Framing::Length(0)) if protocol.is_none() && !has_body => Framing::Length(0),
        // What follows is of the other protocol.
        _ if !has_body || protocol.is_some() => Framing::None,
        Some(Framing::Length(length)) => Framing::Length(length),
        _ => Framing::Chunked,
    };
    let target = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    // As servers know it.
    let method = match protocol {
        Some(_) => "GET",
        None => parts.method.as_str(),
    };
    let request = head::Request::of_two(method, target, authority, &lines, framing);
    let mut request = request.map_err(refused)?;
    request.upgrade = protocol.map(str::as_bytes);
    let length = lines
        .iter()
        .map(|line| line.name.len() + line.value.len() + 4)
        .sum();
    let planned = plan_of(&request, length, front, of, note)?;
    match planned {
        Planned::Forward(plan) => Ok(Planned::Forward(Plan {
            websocket_key: key,
            ..plan
        })),
        answer => Ok(answer),
    }
}
