//! Cameras and recordings, for programs and the page.

use std::io;
use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use evenkeel::task::yield_now;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::access::{COOKIE_NAME, Rights, secret};
use super::described::described;
use super::routes::{Problem, Served, on_disk, refused};
use super::settings::Permission;
use crate::config::name_problem;
use crate::hub::ChannelStatus;
use crate::record::listing::{self, LISTED_MAX_MS};
use crate::record::protect::{self, NOTE_BYTES_MAX, Protection};
use crate::users::SESSION_TIME;

/// So many cameras are described before others have their turn: some tenths of a millisecond.
const CAMERAS_AT_ONCE: usize = 32;

type App = State<Arc<Served>>;
type Query2<T> = Result<Query<T>, QueryRejection>;

/// A time between two others.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Between {
    pub(super) from: u64,
    pub(super) until: u64,
}

impl Between {
    /// Checks what a request says.
    pub(super) fn read(query: Query2<Self>, longest_ms: u64) -> Result<Self, Problem> {
        let bad = |message| Problem(StatusCode::BAD_REQUEST, message);
        let Query(between) = query.map_err(|error| {
            bad(format!(
                "{}; say ?from=MS&until=MS, in milliseconds since 1970",
                error.body_text()
            ))
        })?;
        if between.until <= between.from {
            return Err(bad("`until` is to be later than `from`".to_owned()));
        }
        if between.until - between.from > longest_ms {
            return Err(bad(format!(
                "the time is longer than {longest_ms} ms; ask for parts of it"
            )));
        }
        Ok(between)
    }
}

/// All cameras. Each is text as soon as it was asked: a tree of 350 of them took milliseconds.
#[derive(Serialize)]
pub(super) struct Cameras {
    now_ms: u64,
    cameras: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    untagged,
    expecting = "a login is {\"token\"}, or {\"user\", \"password\"}"
)]
pub(super) enum Login {
    Token { token: String },
    User { user: String, password: String },
}

pub(super) async fn login(
    State(served): App,
    body: Result<Json<Login>, JsonRejection>,
) -> Result<Response, Problem> {
    let Json(login) = body.map_err(rejected)?;
    let (secret, seconds) = match login {
        Login::Token { token } => {
            let is_plain = |byte: u8| byte.is_ascii_graphic() && !b";,\"".contains(&byte);
            let is_known =
                served.access.of(token.as_bytes()).is_some() && token.bytes().all(is_plain);
            if !is_known {
                let message = "there is no such token".to_owned();
                return Err(Problem(StatusCode::UNAUTHORIZED, message));
            }
            (token, None)
        }
        Login::User { user, password } => {
            let users = served.access.users();
            let account = users.check(&user, &password).await.map_err(refused)?;
            let secret = users.open(&account).map_err(refused)?;
            (secret, Some(SESSION_TIME.as_secs()))
        }
    };
    let age = seconds.map_or_else(String::new, |seconds| format!("; Max-Age={seconds}"));
    let secured = if served.is_secured { "; Secure" } else { "" };
    let cookie = format!("{COOKIE_NAME}={secret}; HttpOnly; SameSite=Strict; Path=/{secured}{age}");
    Ok(([(SET_COOKIE, cookie)], Json(json!({}))).into_response())
}

pub(super) async fn logout(State(served): App, headers: HeaderMap) -> Response {
    if let Some(secret) = secret(&headers) {
        served.access.users().close(&secret);
    }
    let cookie = format!("{COOKIE_NAME}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
    ([(SET_COOKIE, cookie)], Json(json!({}))).into_response()
}

pub(super) async fn cameras(
    State(served): App,
    Extension(rights): Extension<Rights>,
) -> Result<Json<Cameras>, Problem> {
    let mut cameras = Vec::new();
    let seen = |status: &&ChannelStatus| rights.allow(Permission::Watch, &status.name);
    for status in served.watch.hub.status().iter().filter(seen) {
        if cameras.len() % CAMERAS_AT_ONCE == CAMERAS_AT_ONCE - 1 {
            yield_now().await;
        }
        cameras.push(described(&served, status)?);
    }
    let now_ms = now_ms();
    Ok(Json(Cameras { now_ms, cameras }))
}

pub(super) async fn camera(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path(camera): Path<String>,
) -> Result<Json<Box<RawValue>>, Problem> {
    served.check(&rights, Permission::Watch, &camera)?;
    let status = served.watch.hub.status_of(&camera);
    let status = status.ok_or_else(|| Problem::none_of(&camera))?;
    described(&served, &status).map(Json)
}

pub(super) async fn add(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path(camera): Path<String>,
    body: Result<Json<Value>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    if !rights.allow(Permission::Manage, &camera) {
        let message = "this needs the permission manage for this camera, which the token or the \
                       user does not have";
        return Err(Problem(StatusCode::FORBIDDEN, message.to_owned()));
    }
    if let Some(problem) = name_problem(&camera) {
        return Err(Problem(StatusCode::BAD_REQUEST, problem));
    }
    let Json(body) = body.map_err(rejected)?;
    let added = served.watch.catalog.add(&camera, body).await;
    added.map_err(|why| Problem(StatusCode::UNPROCESSABLE_ENTITY, why))?;
    Ok(Json(json!({ "name": camera })))
}

pub(super) async fn remove(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path(camera): Path<String>,
) -> Result<Json<Value>, Problem> {
    served.check(&rights, Permission::Manage, &camera)?;
    let removed = served.watch.catalog.remove(&camera).await;
    match removed.map_err(|why| Problem(StatusCode::UNPROCESSABLE_ENTITY, why))? {
        true => Ok(Json(json!({ "name": camera }))),
        false => Err(Problem::none_of(&camera)),
    }
}

pub(super) async fn recordings(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path(camera): Path<String>,
    query: Query2<Between>,
) -> Result<Json<Value>, Problem> {
    served.check(&rights, Permission::Watch, &camera)?;
    let Between { from, until } = Between::read(query, LISTED_MAX_MS)?;
    let volume = served.volume(&camera)?;
    let listed = on_disk(&volume, listing::ranges(&volume, &camera, from, until)).await?;
    let (ranges, gaps) = listed.map_err(failed)?;
    // What a store has is missing then, and not lost.
    let is_incomplete = volume.tier().is_some_and(|tier| tier.is_unreachable());
    Ok(Json(
        json!({ "ranges": ranges, "gaps": gaps, "tier_unreachable": is_incomplete }),
    ))
}

pub(super) async fn protected(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path(camera): Path<String>,
) -> Result<Json<Value>, Problem> {
    served.check(&rights, Permission::Watch, &camera)?;
    let volume = served.volume(&camera)?;
    let path = std::path::Path::new(&camera);
    let list = async {
        let mut answers = Vec::new();
        for it in protect::list(volume.disk(), path).await? {
            let note = protect::note(volume.disk(), path, it).await?;
            answers.push(json!({
                "id": it.to_string(), "from_ms": it.from_ms, "until_ms": it.until_ms, "note": note,
            }));
        }
        io::Result::Ok(answers)
    };
    let answers = on_disk(&volume, list).await?.map_err(failed)?;
    Ok(Json(json!({ "protected": answers })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Protect {
    from_ms: u64,
    until_ms: u64,
    #[serde(default)]
    note: String,
}

pub(super) async fn protect(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path(camera): Path<String>,
    body: Result<Json<Protect>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    served.check(&rights, Permission::Export, &camera)?;
    let Json(it) = body.map_err(rejected)?;
    if it.until_ms <= it.from_ms || it.note.len() > NOTE_BYTES_MAX {
        let message = format!(
            "`until_ms` is to be later than `from_ms`, and `note` at most {NOTE_BYTES_MAX} bytes"
        );
        return Err(Problem(StatusCode::BAD_REQUEST, message));
    }
    let volume = served.volume(&camera)?;
    let path = std::path::Path::new(&camera);
    let add = protect::add(volume.disk(), path, it.from_ms, it.until_ms, &it.note);
    let added = on_disk(&volume, add).await?.map_err(failed)?;
    Ok(Json(json!({ "id": added.to_string() })))
}

pub(super) async fn unprotect(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path((camera, id)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    served.check(&rights, Permission::Export, &camera)?;
    let volume = served.volume(&camera)?;
    let none = || {
        let message = format!("there is no protected time {id:?} of camera {camera:?}");
        Problem(StatusCode::NOT_FOUND, message)
    };
    let it = Protection::parse(&id).ok_or_else(none)?;
    let remove = protect::remove(volume.disk(), std::path::Path::new(&camera), it);
    match on_disk(&volume, remove).await?.map_err(failed)? {
        true => Ok(Json(json!({ "id": id }))),
        false => Err(none()),
    }
}

pub(super) async fn volumes(
    State(served): App,
    Extension(rights): Extension<Rights>,
) -> Result<Json<Value>, Problem> {
    if !rights.allow(Permission::Watch, "") {
        let message = "volumes are for tokens that are not limited to some cameras".to_owned();
        return Err(Problem(StatusCode::FORBIDDEN, message));
    }
    let recordings = served.watch.recordings.as_ref();
    let volumes = recordings.map(|recordings| recordings.volumes_status());
    let tiers = recordings.map(|recordings| recordings.tiers_status());
    let waiting = recordings.map_or(0, |recordings| recordings.waiting_bytes());
    Ok(Json(json!({
        "volumes": volumes.unwrap_or_default(),
        "tiers": tiers.unwrap_or_default(),
        "waiting_bytes": waiting,
    })))
}

pub(super) async fn reload(
    State(served): App,
    Extension(rights): Extension<Rights>,
) -> Result<Json<Value>, Problem> {
    if !rights.allow(Permission::Manage, "") {
        let message = "the configuration is for tokens that may manage all cameras".to_owned();
        return Err(Problem(StatusCode::FORBIDDEN, message));
    }
    let changes = served.watch.catalog.reload().await;
    changes
        .map(Json)
        .map_err(|why| Problem(StatusCode::UNPROCESSABLE_ENTITY, why))
}

pub(super) fn failed(error: io::Error) -> Problem {
    let status = match error.kind() {
        io::ErrorKind::ResourceBusy | io::ErrorKind::TimedOut => StatusCode::SERVICE_UNAVAILABLE,
        io::ErrorKind::QuotaExceeded => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Problem(status, format!("the disk's error: {error}"))
}

fn rejected(error: JsonRejection) -> Problem {
    Problem(error.status(), error.body_text())
}

fn now_ms() -> u64 {
    listing::ms(crate::mp4::origin::unix_us(std::time::SystemTime::now()))
}
