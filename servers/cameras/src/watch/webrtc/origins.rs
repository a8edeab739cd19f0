//! Pages of other servers that may watch by WHEP (CORS, as the Fetch standard has it).
//!
//! Such a page is let in as a program is: by what it sends in `Authorization`. A cookie of this
//! server that the browser has counts for nothing then, so that no page can use what its visitor
//! may do here.

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, COOKIE,
    HeaderName, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};

/// By it, browsers say whether a page of the same server asks.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The pages' servers.
#[derive(Clone, Debug, Default)]
pub struct Origins(Vec<String>);

/// Whether browsers would send this as the origin of a page.
pub(super) fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://");
    let host = host.or_else(|| text.strip_prefix("http://"));
    let is_of_host = |byte: u8| byte.is_ascii_graphic() && !b"/@?#".contains(&byte);
    host.is_some_and(|host| {
        !host.is_empty()
            && host.bytes().all(is_of_host)
            && !host.bytes().any(|byte| byte.is_ascii_uppercase())
    })
}

impl Origins {
    /// These, which the examination of the settings has found good.
    pub fn new(origins: &[String]) -> Self {
        Self(origins.to_vec())
    }

    /// The origin of a request for WHEP by a page of one of these servers.
    pub fn of<T>(&self, request: &Request<T>) -> Option<HeaderValue> {
        let origin = request.headers().get(ORIGIN)?;
        let is_known = self
            .0
            .iter()
            .any(|known| known.as_bytes() == origin.as_bytes());
        (is_known && is_whep(request.uri().path())).then(|| origin.clone())
    }
}

fn is_whep(path: &str) -> bool {
    let mut parts = path.split('/');
    let [_, api, cameras, _, whep] = std::array::from_fn(|_| parts.next());
    (api, cameras, whep) == (Some("api"), Some("cameras"), Some("whep"))
}

/// The answer to a browser that asks what the page may do.
pub fn preflight<T>(request: &Request<T>) -> Option<Response> {
    let asks = request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let headers = [
        (
            ACCESS_CONTROL_ALLOW_METHODS,
            "GET, HEAD, OPTIONS, POST, PATCH, DELETE",
        ),
        (
            ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, if-match",
        ),
        // Ten minutes, in which the browser does not ask again.
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    asks.then(|| (StatusCode::OK, headers).into_response())
}

/// Takes away what a program would not send.
pub fn as_of_a_program(headers: &mut HeaderMap) {
    for name in [COOKIE, ORIGIN, FETCH_SITE] {
        headers.remove(name);
    }
}

/// Has the browser show an answer to the page.
pub fn show(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("accept-patch, accept-post, etag, location, retry-after"),
    );
    headers.append(VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_what_browsers_send() {
        for good in [
            "https://player.example",
            "http://192.0.2.1:8080",
            "http://[::1]:1",
        ] {
            assert!(is_origin(good), "{good}");
        }
        for wrong in [
            "*",
            "null",
            "player.example",
            "https://",
            "https://player.example/",
            "https://Player.example",
            "https://a b",
        ] {
            assert!(!is_origin(wrong), "{wrong}");
        }
    }

    #[test]
    fn other_requests_than_those_of_whep_stay_closed() {
        for (path, is_one) in [
            ("/api/cameras/gate/whep", true),
            ("/api/cameras/gate/whep/0a", true),
            ("/api/cameras/whep", false),
            ("/api/cameras/gate", false),
            ("/api/cameras/gate/live/whep", false),
            ("/", false),
        ] {
            assert_eq!(is_whep(path), is_one, "{path}");
        }
    }
}
