//! Which request goes where, and who may make it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use evenkeel::time::timeout;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::access::{Access, Refusal, Rights, user_and_password};
use super::live::Lives;
use super::openapi;
use super::settings::{Permission, Settings};
use super::standing::Standing;
use super::webrtc::WebRtc;
use super::webrtc::origins::{self, Origins};
use crate::hub::Hub;
use crate::record::Recordings;
use crate::record::disk::LocalDisk;
use crate::record::volume::Volume;
use crate::users::LoginError;

/// How long an answer may take to begin.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The largest body of a request.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The future of something that a catalog does.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// What a camera is doing, as its ingest says.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// What it does, in a word: `live`, `connecting`, ...
    pub state: String,
    /// What went wrong last, unless it is live.
    pub error: Option<String>,
    /// More, for people.
    pub details: Box<RawValue>,
}

/// Who knows which cameras there are, and adds and removes them.
pub trait Catalog: Send + Sync + 'static {
    /// A camera; `None` if it is not known here.
    fn one(&self, name: &str) -> Option<Listed>;

    /// Adds a camera by what a request says, or changes one that was added so. The error is for
    /// whoever asks.
    fn add<'a>(&'a self, name: &'a str, camera: Value) -> Doing<'a, ()>;

    /// Removes a camera. Whether there was one.
    fn remove<'a>(&'a self, name: &'a str) -> Doing<'a, bool>;

    /// Reads the configuration again, and says what was changed.
    fn reload(&self) -> Doing<'_, Value> {
        let why = "there is no configuration to be read again".to_owned();
        Box::pin(std::future::ready(Err(why)))
    }
}

/// What is watched.
#[derive(Clone)]
pub struct Watch {
    /// Samples of all cameras.
    pub hub: Arc<Hub>,
    /// Their recordings, if there are any.
    pub recordings: Option<Arc<Recordings>>,
    /// Which cameras there are.
    pub catalog: Arc<dyn Catalog>,
}

/// What handlers share.
pub(super) struct Served {
    pub(super) watch: Watch,
    pub(super) access: Access,
    pub(super) lives: Arc<Lives>,
    pub(super) sockets: Arc<Semaphore>,
    pub(super) clips: Arc<Semaphore>,
    /// Live pictures by WebRTC, if there are any.
    pub(super) webrtc: Option<Arc<WebRtc>>,
    /// Pages of other servers that may ask for them.
    origins: Origins,
    /// Whether browsers connect by TLS, and send cookies by nothing else.
    pub(super) is_secured: bool,
}

/// An answer that says what was wrong.
#[derive(Debug)]
pub(super) struct Problem(pub(super) StatusCode, pub(super) String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

impl Problem {
    pub(super) fn none_of(camera: &str) -> Self {
        let message = format!("there is no camera named {camera:?}; GET /api/cameras has them");
        Self(StatusCode::NOT_FOUND, message)
    }
}

impl Served {
    pub(super) fn new(
        watch: Watch,
        access: Access,
        settings: &Settings,
        webrtc: Option<Arc<WebRtc>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            lives: Lives::new(Arc::clone(&watch.hub), settings.live_bytes_max),
            sockets: Arc::new(Semaphore::new(settings.sockets_max)),
            clips: Arc::new(Semaphore::new(settings.clips_max)),
            is_secured: settings.tls.is_some(),
            origins: settings
                .webrtc
                .as_ref()
                .map_or_else(Origins::default, |of| Origins::new(&of.origins)),
            webrtc,
            watch,
            access,
        })
    }

    /// Fails unless a request may do this with a camera that there is.
    pub(super) fn check(
        &self,
        rights: &Rights,
        permission: Permission,
        camera: &str,
    ) -> Result<(), Problem> {
        if !rights.know(camera) || self.watch.hub.status_of(camera).is_none() {
            return Err(Problem::none_of(camera));
        }
        if !rights.allow(permission, camera) {
            let name = permission.name();
            let message = format!(
                "this needs the permission {name}, which the token or the user does not have"
            );
            return Err(Problem(StatusCode::FORBIDDEN, message));
        }
        Ok(())
    }

    /// The volume that has a camera's recordings.
    pub(super) fn volume(&self, camera: &str) -> Result<Arc<Volume<LocalDisk>>, Problem> {
        let recordings = self.watch.recordings.as_ref();
        let volume = recordings.and_then(|recordings| recordings.volume_of(camera));
        volume.ok_or_else(|| {
            let message = format!("camera {camera:?} is not recorded; give it a volume");
            Problem(StatusCode::NOT_FOUND, message)
        })
    }
}

/// Waits for something on a disk, but not for ever: it may hang.
pub(super) async fn on_disk<T>(
    volume: &Volume<LocalDisk>,
    work: impl Future<Output = T>,
) -> Result<T, Problem> {
    timeout(ANSWER_MAX / 2, work).await.map_err(|_| {
        let message = format!(
            "the volume {:?} does not answer; try again later",
            volume.name()
        );
        Problem(StatusCode::SERVICE_UNAVAILABLE, message)
    })
}

pub(super) fn router(served: Arc<Served>) -> Router {
    Router::new()
        .route(
            "/",
            get(|| file("text/html", include_str!("page/index.html"))),
        )
        .route(
            "/page.js",
            get(|| file("text/javascript", include_str!("page/page.js"))),
        )
        .route(
            "/player.js",
            get(|| file("text/javascript", include_str!("page/player.js"))),
        )
        .route(
            "/webrtc.js",
            get(|| file("text/javascript", include_str!("page/webrtc.js"))),
        )
        .route(
            "/timeline.js",
            get(|| file("text/javascript", include_str!("page/timeline.js"))),
        )
        .route(
            "/page.css",
            get(|| file("text/css", include_str!("page/page.css"))),
        )
        .route("/healthz", get(async || "ok\n"))
        .merge(openapi::router())
        .fallback(nothing_there)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(&served), admit))
        .with_state(served)
}

/// What says nothing about cameras: the page itself, which then asks, and logging in.
fn is_open(path: &str) -> bool {
    matches!(
        path,
        "/" | "/page.js"
            | "/player.js"
            | "/timeline.js"
            | "/webrtc.js"
            | "/page.css"
            | "/healthz"
            | "/api/login"
            | openapi::PATH
    )
}

/// Lets requests through that may be made, of pages of other servers too.
async fn admit(State(served): State<Arc<Served>>, mut request: Request, next: Next) -> Response {
    let Some(origin) = served.origins.of(&request) else {
        return admit_own(&served, request, next).await;
    };
    let mut answer = match origins::preflight(&request) {
        Some(answer) => answer,
        None => {
            origins::as_of_a_program(request.headers_mut());
            admit_own(&served, request, next).await
        }
    };
    // Refusals too, so that the page can say why it shows nothing.
    origins::show(answer.headers_mut(), origin);
    answer
}

/// The same for as long as an answer may take to begin.
async fn admit_own(served: &Served, mut request: Request, next: Next) -> Response {
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let mut standing = Standing::of_request(&served.access, headers);
    let mut checked = if is_open(uri.path()) {
        served
            .access
            .check_origin(method, uri, headers)
            .map(|()| None)
    } else {
        served.access.rights(method, uri, headers).map(Some)
    };
    if let Err(Refusal(StatusCode::UNAUTHORIZED, _)) = checked
        && !served.access.users().is_empty()
        && let Some((user, password)) = user_and_password(headers)
    {
        match served.access.users().check(&user, &password).await {
            Ok(account) => {
                standing = Standing::of_user(&served.access, &account);
                checked = Ok(Some(Rights::of(&account)));
            }
            Err(error) => return refused(error).into_response(),
        }
    }
    match checked {
        Ok(Some(rights)) => {
            let extensions = request.extensions_mut();
            extensions.insert(rights);
            extensions.insert(standing);
        }
        Ok(None) => {}
        Err(Refusal(status, why)) => return Problem(status, why.to_owned()).into_response(),
    }
    let mut answer = match timeout(ANSWER_MAX, next.run(request)).await {
        Ok(answer) => answer,
        Err(_) => {
            let message = format!("the answer was not ready within {ANSWER_MAX:?}; try again");
            Problem(StatusCode::SERVICE_UNAVAILABLE, message).into_response()
        }
    };
    answer = in_json(answer);
    let headers = answer.headers_mut();
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(
        HeaderName::from_static("x-content-type-options"),
        HeaderValue::from_static("nosniff"),
    );
    answer
}

/// A path that cannot be read is refused before any of our code, in plain text.
fn in_json(answer: Response) -> Response {
    let kind = answer.headers().get(CONTENT_TYPE);
    let is_text = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    match answer.status() {
        status @ StatusCode::BAD_REQUEST if is_text => {
            let message = "the path cannot be read: its parts are UTF-8 when they are decoded, and \
                           numbers where OpenAPI's document, GET /api/openapi.json, has them";
            Problem(status, message.to_owned()).into_response()
        }
        _ => answer,
    }
}

/// The answer to a user who is not let in.
pub(super) fn refused(error: LoginError) -> Problem {
    let status = match error {
        LoginError::Wrong => StatusCode::UNAUTHORIZED,
        LoginError::Busy | LoginError::NoRandom => StatusCode::SERVICE_UNAVAILABLE,
    };
    Problem(status, error.to_string())
}

/// A part of the page, which loads nothing from anywhere else.
async fn file(kind: &'static str, text: &'static str) -> Response {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                  media-src 'self' blob:; img-src 'self' data:; frame-ancestors 'none'; \
                  base-uri 'none'; form-action 'none'";
    let kind = format!("{kind}; charset=utf-8");
    let headers = [
        (CONTENT_TYPE, kind.as_str()),
        (CONTENT_SECURITY_POLICY, policy),
    ];
    (headers, text).into_response()
}

async fn nothing_there(request: Request) -> Problem {
    let message = format!("there is nothing at {}", request.uri().path());
    Problem(StatusCode::NOT_FOUND, message)
}

async fn wrong_method(request: Request) -> Problem {
    let message = format!("{} is not for {}", request.method(), request.uri().path());
    Problem(StatusCode::METHOD_NOT_ALLOWED, message)
}
