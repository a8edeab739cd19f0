//! WHEP over HTTP: an offer is answered with a session, which is ended by its address.
//!
//! | request | answer |
//! |---|---|
//! | `OPTIONS .../whep` | 200 with `Accept-Post: application/sdp` |
//! | `GET`, `HEAD .../whep` | 200 without a body, as `application/sdp`: what players know WHEP by |
//! | `POST .../whep` | 201 with the answer, `Location` and `ETag` |
//! | `GET .../whep/ID` | 204 |
//! | `PATCH .../whep/ID` | 204: a browser's addresses are not needed, as it asks from them |
//! | `DELETE .../whep/ID` | 200, and ends it |
//!
//! What may go well later has `Retry-After`: a camera that sends nothing now (409), and limits (503
//! and 429). 406 would mean that a description follows which the player is to answer, so an offer
//! that does not fit the camera is refused with 422.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{ALLOW, CONTENT_TYPE, ETAG, IF_MATCH, LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use evenkeel::serve::Peer;

use super::choice::ChoiceError;
use super::peer::PeerError;
use super::port::Key;
use super::{Begun, WebRtc, WhepError};
use crate::hub::SubscribeError;
use crate::watch::access::Rights;
use crate::watch::routes::{Problem, Served};
use crate::watch::settings::Permission;
use crate::watch::standing::Standing;

/// The kind of offers and answers.
pub(in crate::watch) const SDP: &str = "application/sdp";
/// The kind of what is sent about addresses.
pub(in crate::watch) const FRAGMENT: &str = "application/trickle-ice-sdpfrag";
/// After how many seconds it is worth to ask again: a camera is connected to anew about then, and a
/// session that was not ended is noticed.
const RETRY_S: HeaderValue = HeaderValue::from_static("5");
const ACCEPT_POST: HeaderName = HeaderName::from_static("accept-post");
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

impl From<WhepError> for Problem {
    fn from(error: WhepError) -> Self {
        let status = match &error {
            WhepError::NotLive => StatusCode::CONFLICT,
            WhepError::Choice(ChoiceError::Offer(_))
            | WhepError::Peer(PeerError::Sdp(_) | PeerError::Refused(_))
            | WhepError::Contradiction => StatusCode::BAD_REQUEST,
            WhepError::Choice(_) => StatusCode::UNPROCESSABLE_ENTITY,
            WhepError::FullClient(_) => StatusCode::TOO_MANY_REQUESTS,
            WhepError::Subscribe(SubscribeError::Unknown(_)) => StatusCode::NOT_FOUND,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self(status, error.to_string())
    }
}

fn webrtc(served: &Served) -> Result<&WebRtc, Problem> {
    served.webrtc.as_deref().ok_or_else(|| {
        let message = "WebRTC is off; add [watch.webrtc] with hosts to the configuration";
        Problem(StatusCode::NOT_IMPLEMENTED, message.to_owned())
    })
}

/// Fails unless whoever asks may watch the camera by WebRTC.
fn webrtc_of<'a>(served: &'a Served, rights: &Rights, camera: &str) -> Result<&'a WebRtc, Problem> {
    served.check(rights, Permission::Watch, camera)?;
    webrtc(served)
}

/// Fails unless the body is of this kind.
fn check_kind(headers: &HeaderMap, wanted: &str) -> Result<(), Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or("");
    if kind.trim().eq_ignore_ascii_case(wanted) {
        return Ok(());
    }
    let message = format!("the body is {kind:?}; send it as {wanted}");
    Err(Problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
}

fn text(body: &Bytes) -> Result<&str, Problem> {
    std::str::from_utf8(body).map_err(|_| {
        let message = "the description is not UTF-8".to_owned();
        Problem(StatusCode::BAD_REQUEST, message)
    })
}

/// What a session's description is known by: it would change when ICE began anew.
fn tag(user: &str) -> String {
    format!("\"{}\"", &user[..user.len().min(16)])
}

pub(in crate::watch) async fn options(
    State(served): State<Arc<Served>>,
    Extension(rights): Extension<Rights>,
    Path(camera): Path<String>,
) -> Result<Response, Problem> {
    webrtc_of(&served, &rights, &camera)?;
    let headers = [
        (ALLOW, "GET, HEAD, OPTIONS, POST"),
        (ACCEPT_POST, SDP),
        (ACCEPT_PATCH, FRAGMENT),
    ];
    Ok((StatusCode::OK, headers).into_response())
}

/// That offers are taken here.
pub(in crate::watch) async fn place(
    State(served): State<Arc<Served>>,
    Extension(rights): Extension<Rights>,
    Path(camera): Path<String>,
) -> Result<Response, Problem> {
    webrtc_of(&served, &rights, &camera)?;
    Ok([(CONTENT_TYPE, SDP), (ACCEPT_POST, SDP)].into_response())
}

/// That there is such a session.
pub(in crate::watch) async fn session(
    State(served): State<Arc<Served>>,
    Extension(rights): Extension<Rights>,
    Path((camera, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let webrtc = webrtc_of(&served, &rights, &camera)?;
    let key = Key { camera, id };
    let user = webrtc.port().user(&key);
    user.map_or_else(|| Err(none_of(&key)), |_| Ok(StatusCode::NO_CONTENT))
}

pub(in crate::watch) async fn offer(
    State(served): State<Arc<Served>>,
    Extension(rights): Extension<Rights>,
    Extension(standing): Extension<Standing>,
    Extension(Peer(address)): Extension<Peer<SocketAddr>>,
    Path(camera): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    served.check(&rights, Permission::Watch, &camera)?;
    let webrtc = webrtc(&served)?;
    check_kind(&headers, SDP)?;
    let lost = standing.lost(camera.clone());
    let begun = webrtc
        .offer(&camera, address.ip(), text(&body)?, lost)
        .await;
    let Begun { key, user, answer } = match begun {
        Ok(begun) => begun,
        Err(error) => return Ok(refused(error)),
    };
    let location = format!("/api/cameras/{}/whep/{}", key.camera, key.id);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(SDP));
    headers.insert(ACCEPT_PATCH, HeaderValue::from_static(FRAGMENT));
    for (name, value) in [(LOCATION, location), (ETAG, tag(&user))] {
        // Names of cameras and what we draw have nothing that headers cannot carry.
        if let Ok(value) = value.try_into() {
            headers.insert(name, value);
        }
    }
    Ok((StatusCode::CREATED, headers, answer).into_response())
}

fn refused(error: WhepError) -> Response {
    let is_for_now = matches!(
        error,
        WhepError::NotLive
            | WhepError::Full(_)
            | WhepError::FullClient(_)
            | WhepError::Subscribe(SubscribeError::Full(_))
    );
    let mut answer = Problem::from(error).into_response();
    if is_for_now {
        answer.headers_mut().insert(RETRY_AFTER, RETRY_S);
    }
    answer
}

fn none_of(key: &Key) -> Problem {
    let message = format!(
        "camera {:?} has no session of WebRTC at this address; it may have ended already",
        key.camera
    );
    Problem(StatusCode::NOT_FOUND, message)
}

/// Addresses of the browser, or the beginning anew of ICE (RFC 9725, section 4.3).
pub(in crate::watch) async fn patch(
    State(served): State<Arc<Served>>,
    Extension(rights): Extension<Rights>,
    Path((camera, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    served.check(&rights, Permission::Watch, &camera)?;
    let webrtc = webrtc(&served)?;
    let key = Key { camera, id };
    let user = webrtc.port().user(&key).ok_or_else(|| none_of(&key))?;
    check_kind(&headers, FRAGMENT)?;
    let fragment = text(&body)?;
    let matched = headers.get(IF_MATCH).and_then(|it| it.to_str().ok());
    let problem = |status, message: &str| Err(Problem(status, message.to_owned()));
    match matched {
        None => problem(
            StatusCode::PRECONDITION_REQUIRED,
            "If-Match is missing; send the ETag of the session with it",
        ),
        Some("*") => problem(
            StatusCode::UNPROCESSABLE_ENTITY,
            "ICE cannot begin anew in a session; end it, and ask for another one",
        ),
        Some(matched) if matched != tag(&user) => problem(
            StatusCode::PRECONDITION_FAILED,
            "If-Match names another ETag than that of the session",
        ),
        Some(_) if !fragment.contains("a=") => problem(
            StatusCode::BAD_REQUEST,
            "the body is no fragment of a description: it has no attribute",
        ),
        Some(_) => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

pub(in crate::watch) async fn end(
    State(served): State<Arc<Served>>,
    Extension(rights): Extension<Rights>,
    Path((camera, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    served.check(&rights, Permission::Watch, &camera)?;
    let webrtc = webrtc(&served)?;
    let key = Key { camera, id };
    if webrtc.port().end(&key) {
        Ok(StatusCode::OK)
    } else {
        Err(none_of(&key))
    }
}
