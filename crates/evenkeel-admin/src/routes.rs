//! What is answered to which request.

use axum::body::HttpBody;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use evenkeel::runtime::Handle;
use evenkeel::time::timeout;
use serde_json::json;

use crate::access::{Access, Refusal};
use crate::admin::{Extras, Health};
use crate::metrics::Added;
use crate::settings::{self, BusyWaitChange, Changed, ClassChange, HandOffChange, Mode, Settings};
use crate::snapshot::Snapshot;
use crate::tasks::{self, Served};
use crate::{BODY_BYTES_MAX, REQUEST_TIMEOUT, metrics};

/// An answer that says what was wrong.
pub(crate) struct Problem(pub(crate) StatusCode, pub(crate) String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

pub(crate) fn router(runtime: Handle, access: Access, extras: Extras) -> Router {
    let Extras {
        metrics: added,
        health,
    } = extras;
    let router = Router::new()
        .route(
            "/",
            get(|| file("text/html", include_str!("page/index.html"))),
        )
        .route(
            "/page.js",
            get(|| file("text/javascript", include_str!("page/page.js"))),
        )
        .route(
            "/page.css",
            get(|| file("text/css", include_str!("page/page.css"))),
        )
        .route("/healthz", get(async || healthz(health).await))
        .route("/metrics", get(async |state| metrics(state, added).await))
        .route("/stats", get(stats))
        .route("/stats.txt", get(stats_text))
        .route("/hogs.txt", get(hogs_text))
        .route("/hogs.folded", get(hogs_folded))
        .route("/tasks", get(tasks::list))
        .route("/tasks.txt", get(tasks::list_text))
        .route("/dump", get(tasks::dump))
        .route("/dump.txt", get(tasks::dump_text))
        .route("/settings", get(settings))
        .route("/settings/classes/{name}", put(change_class))
        .route("/settings/busy_wait", put(change_busy_wait))
        .route("/settings/hand_off", put(change_hand_off))
        .route("/settings/delivery", put(change_delivery))
        .method_not_allowed_fallback(wrong_method)
        .fallback(nothing_there)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(access, admit));
    router.with_state(Served::new(runtime))
}

/// Lets requests through that may be made, for as long as they may take.
async fn admit(State(access): State<Access>, request: Request, next: Next) -> Response {
    let checked = access.check(request.method(), request.uri(), request.headers());
    if let Err(Refusal(status, why)) = checked {
        return Problem(status, why.to_owned()).into_response();
    }
    let has_body = !request.body().is_end_stream();
    let mut answer = match timeout(REQUEST_TIMEOUT, next.run(request)).await {
        Ok(answer) => answer,
        Err(_) => too_late(has_body).into_response(),
    };
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        HeaderName::from_static("x-content-type-options"),
        HeaderValue::from_static("nosniff"),
    );
    answer
}

/// Why a request has no answer within its time.
fn too_late(has_body: bool) -> Problem {
    if has_body {
        let message = "the request's body did not come in time".to_owned();
        return Problem(StatusCode::REQUEST_TIMEOUT, message);
    }
    let message = format!(
        "the answer was not ready within {REQUEST_TIMEOUT:?}: the process is too busy; ask for \
         less, or again later"
    );
    Problem(StatusCode::GATEWAY_TIMEOUT, message)
}

/// A part of the page, which loads nothing from anywhere else.
async fn file(kind: &'static str, text: &'static str) -> Response {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                  frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
    let kind = format!("{kind}; charset=utf-8");
    let headers = [
        (CONTENT_TYPE, kind.as_str()),
        (CONTENT_SECURITY_POLICY, policy),
    ];
    (headers, text).into_response()
}

async fn healthz(health: Option<Health>) -> Response {
    let verdict = match health {
        Some(health) => health().await,
        None => Ok(()),
    };
    match verdict {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn metrics(State(runtime): State<Handle>, added: Option<Added>) -> Response {
    let headers = [(CONTENT_TYPE, metrics::CONTENT_TYPE)];
    let text = metrics::text(Snapshot::take(&runtime), added);
    (headers, text).into_response()
}

async fn stats(State(runtime): State<Handle>) -> Response {
    Json(Snapshot::take(&runtime)).into_response()
}

async fn stats_text(State(runtime): State<Handle>) -> String {
    format!("{}\n", runtime.stats())
}

/// What hogs were doing, a line for each function.
async fn hogs_text(State(runtime): State<Handle>) -> String {
    let stats = runtime.stats();
    let lines = stats.hog_functions.iter().map(|row| format!("{row}\n"));
    let stacks = stats.hog_stacks;
    lines.collect::<String>()
        + &format!(
            "by {} stacks; {} were not taken\n",
            stacks.taken,
            stacks.skipped + stacks.failed
        )
}

/// Stacks of hogs, as tools for flame graphs read them.
async fn hogs_folded(State(runtime): State<Handle>) -> String {
    runtime.hog_profile().to_string()
}

async fn settings(State(runtime): State<Handle>) -> Json<Settings> {
    Json(Settings::of(&runtime))
}

async fn change_class(
    State(runtime): State<Handle>,
    name: Result<Path<String>, PathRejection>,
    change: Result<Json<ClassChange>, JsonRejection>,
) -> Result<Json<Settings>, Problem> {
    let Path(name) = name.map_err(|error| Problem(error.status(), error.body_text()))?;
    answer(change, |change| {
        settings::change_class(&runtime, &name, change)
    })
}

async fn change_busy_wait(
    State(runtime): State<Handle>,
    change: Result<Json<BusyWaitChange>, JsonRejection>,
) -> Result<Json<Settings>, Problem> {
    answer(change, |change| {
        settings::change_busy_wait(&runtime, &change)
    })
}

async fn change_hand_off(
    State(runtime): State<Handle>,
    change: Result<Json<HandOffChange>, JsonRejection>,
) -> Result<Json<Settings>, Problem> {
    answer(change, |change| settings::change_hand_off(&runtime, change))
}

async fn change_delivery(
    State(runtime): State<Handle>,
    change: Result<Json<Mode>, JsonRejection>,
) -> Result<Json<Settings>, Problem> {
    answer(change, |mode| settings::change_delivery(&runtime, mode))
}

/// Makes a change if the body says one.
fn answer<C>(
    body: Result<Json<C>, JsonRejection>,
    change: impl FnOnce(C) -> Changed,
) -> Result<Json<Settings>, Problem> {
    let Json(asked) = body.map_err(|error| Problem(error.status(), error.body_text()))?;
    let changed = change(asked).map_err(|(status, why)| Problem(status, why))?;
    Ok(Json(changed))
}

async fn wrong_method(request: Request) -> Response {
    let allowed = if request.uri().path().starts_with("/settings/") {
        "PUT"
    } else {
        "GET, HEAD"
    };
    let message = format!("{} is not for this path, but {allowed}", request.method());
    let problem = Problem(StatusCode::METHOD_NOT_ALLOWED, message).into_response();
    ([(ALLOW, allowed)], problem).into_response()
}

async fn nothing_there(request: Request) -> Problem {
    let message = format!("there is nothing at {}", request.uri().path());
    Problem(StatusCode::NOT_FOUND, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_late_is_said() {
        let Problem(status, why) = too_late(true);
        assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
        assert!(why.contains("body"), "{why}");
        let Problem(status, why) = too_late(false);
        assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
        assert!(why.contains("too busy") && !why.contains("body"), "{why}");
    }
}
