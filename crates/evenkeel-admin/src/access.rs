//! Who may ask, and who may change.

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri};
use constant_time_eq::constant_time_eq;

use crate::error::AdminError;

/// By it, browsers say whether a page of the same server asks.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Requests are checked by this before anything else.
#[derive(Clone)]
pub(crate) struct Access {
    token: Option<String>,
    /// Requests have to name a loopback host: a browser that was lured to this address under a name
    /// of somebody else's does not.
    names_loopback: bool,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) StatusCode, pub(crate) &'static str);

impl Access {
    pub(crate) fn new(token: Option<String>, names_loopback: bool) -> Result<Self, AdminError> {
        if let Some(token) = &token {
            let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_visible || !(8..=256).contains(&token.len()) {
                return Err(AdminError::Token);
            }
        }
        let names_loopback = names_loopback && token.is_none();
        Ok(Self {
            token,
            names_loopback,
        })
    }

    /// Whether a request is to be answered.
    pub(crate) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let host = host(uri, headers);
        if self.names_loopback && !host.is_some_and(is_loopback) {
            return Err(Refusal(
                StatusCode::FORBIDDEN,
                "the request names another host than this machine's 127.0.0.1, [::1] or localhost",
            ));
        }
        if !is_open(uri.path()) && !self.has_token(headers) {
            return Err(Refusal(
                StatusCode::UNAUTHORIZED,
                "a token is needed: send it as `Authorization: Bearer TOKEN`",
            ));
        }
        // A page elsewhere cannot read an answer, but a dump costs something all the same.
        // Another port of this machine counts as the same site.
        let is_elsewhere = |site: &str| !matches!(site, "same-origin" | "none");
        if text(headers, &FETCH_SITE).is_some_and(is_elsewhere) && !is_open(uri.path()) {
            return Err(Refusal(
                StatusCode::FORBIDDEN,
                "the request comes from a page of another server",
            ));
        }
        if matches!(*method, Method::GET | Method::HEAD) {
            return Ok(());
        }
        if !has_json(headers) {
            return Err(Refusal(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "a change has to be of the type application/json",
            ));
        }
        let is_foreign = |origin: &str| {
            let named = origin.split_once("://").map(|(_, named)| named);
            named != host
        };
        if text(headers, &ORIGIN).is_some_and(is_foreign) {
            return Err(Refusal(
                StatusCode::FORBIDDEN,
                "the change comes from a page of another server",
            ));
        }
        Ok(())
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let given = text(headers, &AUTHORIZATION).and_then(|value| {
            let (scheme, given) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(given)
        });
        given.is_some_and(|given| constant_time_eq(given.as_bytes(), token.as_bytes()))
    }
}

/// What says nothing about the process: the page itself, which then asks with a token, and whether
/// the process is alive.
fn is_open(path: &str) -> bool {
    matches!(path, "/" | "/page.js" | "/page.css" | "/healthz")
}

fn text<'a>(headers: &'a HeaderMap, name: &axum::http::HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// With HTTP/2 the host is in the address.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let authority = uri.authority().map(axum::http::uri::Authority::as_str);
    authority.or_else(|| text(headers, &HOST))
}

fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |address: std::net::IpAddr| address.to_canonical().is_loopback();
    name.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_loopback)
}

fn has_json(headers: &HeaderMap) -> bool {
    let essence = |value: &str| value.split(';').next().map(|it| it.trim().to_owned());
    let essence = text(headers, &CONTENT_TYPE).and_then(essence);
    essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(access: &Access, method: Method, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            map.insert(name, value.parse().unwrap());
        }
        match access.check(&method, &path.parse().unwrap(), &map) {
            Ok(()) => 200,
            Err(refusal) => refusal.0.as_u16(),
        }
    }

    #[test]
    fn on_a_loopback_address_the_host_has_to_be_one() {
        let access = Access::new(None, true).unwrap();
        let get = |host| asks(&access, Method::GET, "/stats", &[("host", host)]);
        for host in [
            "127.0.0.1:7070",
            "localhost",
            "LOCALHOST:1",
            "[::1]:80",
            "127.8.8.8",
        ] {
            assert_eq!(get(host), 200, "{host}");
        }
        for host in [
            "evil.example:7070",
            "10.0.0.1",
            "localhost.evil.example",
            "",
            "[::2]:80",
        ] {
            assert_eq!(get(host), 403, "{host}");
        }
        assert_eq!(asks(&access, Method::GET, "/stats", &[]), 403);
        assert_eq!(
            asks(&access, Method::GET, "http://[::1]:7070/stats", &[]),
            200
        );
        let socket = Access::new(None, false).unwrap();
        assert_eq!(asks(&socket, Method::GET, "/stats", &[]), 200);
    }

    #[test]
    fn a_token_opens_what_is_not_open() {
        let access = Access::new(Some("correct-horse".to_owned()), true).unwrap();
        let get = |path, value| asks(&access, Method::GET, path, &[("authorization", value)]);
        assert_eq!(get("/stats", "Bearer correct-horse"), 200);
        assert_eq!(get("/stats", "bearer correct-horse"), 200);
        for wrong in [
            "Bearer correct-hors",
            "Basic correct-horse",
            "correct-horse",
            "Bearer ",
        ] {
            assert_eq!(get("/stats", wrong), 401, "{wrong}");
            assert_eq!(get("/healthz", wrong), 200, "{wrong}");
        }
        assert_eq!(asks(&access, Method::GET, "/metrics", &[]), 401);
    }

    #[test]
    fn a_change_comes_from_no_foreign_page() {
        let access = Access::new(None, true).unwrap();
        let put = |kind, origin: Option<&str>| {
            let mut headers = vec![("host", "localhost:1"), ("content-type", kind)];
            headers.extend(origin.map(|origin| ("origin", origin)));
            asks(&access, Method::PUT, "/settings/classes/bulk", &headers)
        };
        assert_eq!(put("application/json", None), 200);
        assert_eq!(
            put(
                "application/json; charset=utf-8",
                Some("http://localhost:1")
            ),
            200
        );
        assert_eq!(put("application/json", Some("http://localhost:2")), 403);
        assert_eq!(put("application/json", Some("null")), 403);
        assert_eq!(put("text/plain", None), 415);
    }

    #[test]
    fn a_foreign_page_has_nothing_made_for_it() {
        let access = Access::new(None, true).unwrap();
        let get = |path, site| {
            let headers = [("host", "localhost:1"), ("sec-fetch-site", site)];
            asks(&access, Method::GET, path, &headers)
        };
        for site in ["cross-site", "same-site"] {
            assert_eq!(get("/dump", site), 403, "{site}");
        }
        assert_eq!(get("/", "cross-site"), 200, "a link leads to the page");
        for site in ["same-origin", "none"] {
            assert_eq!(get("/dump", site), 200, "{site}");
        }
    }

    #[test]
    fn a_token_that_no_header_can_carry_is_refused() {
        for token in [
            "",
            "short",
            "with space in it",
            "umläute-im-token",
            &"x".repeat(257),
        ] {
            assert!(matches!(
                Access::new(Some(token.to_owned()), false),
                Err(AdminError::Token)
            ));
        }
    }
}
