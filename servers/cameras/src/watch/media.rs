//! Parts, clips and pictures over HTTP.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use evenkeel::Class;
use evenkeel::time::timeout;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::access::Rights;
use super::api::{Between, failed};
use super::live::{Live, within};
use super::playlist;
use super::routes::{Problem, Served, on_disk};
use super::settings::Permission;
use super::window::{Segment, Window};
use crate::hub::{Event, From, SubscribeError};
use crate::media::{Codec, Sample, Track};
use crate::mp4::{Fragment, Init, Origin};
use crate::record::clip::{CLIP_MAX_MS, Clip, ClipError, Purpose};
use crate::record::disk::LocalDisk;
use crate::record::listing;

type App = State<Arc<Served>>;

/// How long a playlist waits for a part that is to come, and a picture for a key frame.
const PATIENCE: Duration = Duration::from_secs(8);
/// Says what it is, with its codecs.
const KIND: HeaderName = HeaderName::from_static("x-kind");
/// Fragments of a clip that are read before their reader takes them.
const AHEAD: usize = 2;
const MP4: &str = "video/mp4";
const M3U8: &str = "application/vnd.apple.mpegurl";
/// Says when a clip begins, by the calendar.
const STARTS: HeaderName = HeaderName::from_static("x-start-ms");
/// Says when it ends.
const ENDS: HeaderName = HeaderName::from_static("x-end-ms");

/// What a player waits for.
#[derive(Debug, Deserialize)]
pub(super) struct Blocking {
    #[serde(rename = "_HLS_msn")]
    segment: Option<u64>,
    #[serde(rename = "_HLS_part")]
    part: Option<usize>,
}

pub(super) async fn multivariant(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path(camera): Path<String>,
) -> Result<Response, Problem> {
    let live = live(&served, &rights, &camera)?;
    let begun = |window: &Window| {
        let newest = window.segments().next_back()?;
        let head = window.head()?;
        let us = newest.duration_us().max(1).unsigned_abs();
        let bits = newest.bytes() as u64 * 8 * 1_000_000 / us;
        Some(playlist::multivariant(
            &head.codecs,
            bits.max(1),
            "parts.m3u8",
        ))
    };
    let text = within(PATIENCE, live.until(begun)).await;
    let text = text.ok_or_else(|| nothing_yet(&live, &camera))?;
    Ok(([(CONTENT_TYPE, M3U8)], text).into_response())
}

pub(super) async fn playlist(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path(camera): Path<String>,
    query: Result<Query<Blocking>, QueryRejection>,
) -> Result<Response, Problem> {
    let live = live(&served, &rights, &camera)?;
    let bad = |message: String| Problem(StatusCode::BAD_REQUEST, message);
    let Query(asked) = query.map_err(|error| bad(error.body_text()))?;
    if asked.part.is_some() && asked.segment.is_none() {
        return Err(bad("_HLS_part without _HLS_msn".to_owned()));
    }
    if let Some(segment) = asked.segment {
        let newest = live.look(|window| window.segments().next_back().map(|it| it.number));
        if newest.is_some_and(|newest| segment > newest + 2) {
            return Err(bad(format!("_HLS_msn={segment} is too far ahead")));
        }
    }
    let ready = |window: &Window| {
        let is_there = match asked.segment {
            // A player that knows no parts gives up if there is nothing else.
            None => window.segments().any(|segment| segment.is_complete),
            Some(number) => has(window, number, asked.part),
        };
        is_there.then(|| playlist::media(window)).flatten()
    };
    let mut text = within(PATIENCE, live.until(ready)).await;
    if text.is_none() && asked.segment.is_none() {
        // Its key frames are rare.
        text = live.look(playlist::media);
    }
    let text = text.ok_or_else(|| nothing_yet(&live, &camera))?;
    Ok(([(CONTENT_TYPE, M3U8)], text).into_response())
}

/// Whether a part is there, or a whole segment, or one that came later.
fn has(window: &Window, number: u64, part: Option<usize>) -> bool {
    let Some(newest) = window.segments().next_back() else {
        return false;
    };
    match (newest.number.cmp(&number), part) {
        (std::cmp::Ordering::Greater, _) => true,
        (std::cmp::Ordering::Equal, None) => newest.is_complete,
        (std::cmp::Ordering::Equal, Some(part)) => newest.is_complete || newest.parts.len() > part,
        (std::cmp::Ordering::Less, _) => false,
    }
}

pub(super) async fn segment(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path((camera, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let number = name
        .strip_suffix(".m4s")
        .and_then(|number| number.parse().ok());
    let joined = |segment: &Segment| {
        let parts = segment.parts.iter().map(|placed| &placed.part.bytes[..]);
        Some(Bytes::from(parts.collect::<Vec<_>>().concat()))
    };
    piece(&served, &rights, &camera, number, joined)
}

pub(super) async fn part(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path((camera, segment, name)): Path<(String, u64, String)>,
) -> Result<Response, Problem> {
    if name == "init.mp4" {
        let init = |segment: &Segment| Some(segment.parts.first()?.head.init.clone());
        return piece(&served, &rights, &camera, Some(segment), init);
    }
    let place: Option<usize> = name
        .strip_suffix(".m4s")
        .and_then(|place| place.parse().ok());
    let part = |segment: &Segment| Some(segment.parts.get(place?)?.part.bytes.clone());
    piece(&served, &rights, &camera, Some(segment), part)
}

fn piece(
    served: &Arc<Served>,
    rights: &Rights,
    camera: &str,
    number: Option<u64>,
    find: impl FnOnce(&Segment) -> Option<Bytes>,
) -> Result<Response, Problem> {
    let live = live(served, rights, camera)?;
    let found = live.look(|window| window.segment(number?).and_then(find));
    let gone = || {
        let message = "there is no such part, or no longer; ask for the playlist again";
        Problem(StatusCode::NOT_FOUND, message.to_owned())
    };
    let headers = [(CONTENT_TYPE, MP4), (CACHE_CONTROL, "private, max-age=60")];
    Ok((headers, found.ok_or_else(gone)?).into_response())
}

pub(super) async fn snapshot(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path(camera): Path<String>,
) -> Result<Response, Problem> {
    served.check(&rights, Permission::Watch, &camera)?;
    let mut samples = served
        .watch
        .hub
        .subscribe(&camera, From::NewestKey)
        .map_err(refused)?;
    let picture = async {
        let mut known: Arc<[Track]> = Arc::new([]);
        loop {
            match samples.next().await {
                Event::Parameters { tracks, .. } => known = tracks,
                Event::Sample(sample) if sample.is_key => {
                    let track = known.iter().find(|track| track.id == sample.track);
                    match track.filter(|track| track.codec.is_video()) {
                        Some(track) => return Some((track.clone(), sample)),
                        None => continue,
                    }
                }
                Event::Removed => return None,
                _ => {}
            }
        }
    };
    let found = timeout(PATIENCE, picture).await.ok().flatten();
    let (track, sample) = found.ok_or_else(|| silent(&camera))?;
    still(track, sample)
}

/// A picture as a file: JPEG as it came, and others in an MP4 with one frame.
fn still(track: Track, sample: Sample) -> Result<Response, Problem> {
    let now = format!(
        "{}",
        listing::ms(crate::mp4::origin::unix_us(std::time::SystemTime::now()))
    );
    if matches!(track.codec, Codec::Mjpeg { .. }) {
        let headers = [(CONTENT_TYPE, "image/jpeg"), (STARTS, now.as_str())];
        return Ok((headers, sample.data.joined()).into_response());
    }
    let tracks = [track];
    // From zero on, as it stands alone.
    let origin = Origin {
        us: -Origin { us: 0 }.us_of(&tracks[0], sample.dts),
    };
    let file = Init::of(&tracks).and_then(|init| {
        let samples = [sample];
        let second = Duration::from_secs(1);
        let fragment = Fragment::of(1, &tracks, &samples, origin, second)?;
        Ok(Bytes::from([init.bytes, fragment.joined()].concat()))
    });
    // The camera's parameter sets, for example, are none.
    let file =
        file.map_err(|error| Problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, error.to_string()))?;
    Ok(([(CONTENT_TYPE, MP4), (STARTS, now.as_str())], file).into_response())
}

pub(super) async fn play(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path(camera): Path<String>,
    query: Result<Query<Between>, QueryRejection>,
) -> Result<Response, Problem> {
    served.check(&rights, Permission::Watch, &camera)?;
    let between = Between::read(query, CLIP_MAX_MS)?;
    let clip = plan(&served, &camera, between, Purpose::Play).await?;
    Ok(stream(clip.0, clip.1).into_response())
}

pub(super) async fn clip(
    State(served): App,
    Extension(rights): Extension<Rights>,
    Path(camera): Path<String>,
    query: Result<Query<Between>, QueryRejection>,
) -> Result<Response, Problem> {
    served.check(&rights, Permission::Export, &camera)?;
    let between = Between::read(query, CLIP_MAX_MS)?;
    let (clip, permit) = plan(&served, &camera, between, Purpose::Keep).await?;
    let name = format!("attachment; filename=\"{camera}-{}.mp4\"", clip.start_ms());
    Ok(([(CONTENT_DISPOSITION, name)], stream(clip, permit)).into_response())
}

type Permit = tokio::sync::OwnedSemaphorePermit;

async fn plan(
    served: &Arc<Served>,
    camera: &str,
    between: Between,
    purpose: Purpose,
) -> Result<(Clip<LocalDisk>, Permit), Problem> {
    let permit = Arc::clone(&served.clips).try_acquire_owned().map_err(|_| {
        let message = "as many clips are being read as may be (clips_max); try again later";
        Problem(StatusCode::SERVICE_UNAVAILABLE, message.to_owned())
    })?;
    let volume = served.volume(camera)?;
    let planned = Clip::plan(&volume, camera, between.from, between.until, purpose);
    let clip = on_disk(&volume, planned)
        .await?
        .map_err(|error| match error {
            ClipError::Disk(error) => failed(error),
            ClipError::Nothing { .. } => Problem(StatusCode::NOT_FOUND, error.to_string()),
            ClipError::TracksChange { .. } => Problem(StatusCode::CONFLICT, error.to_string()),
            ClipError::NotPlayable { .. } => {
                Problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, error.to_string())
            }
            ClipError::Mp4(_) => Problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        })?;
    Ok((clip, permit))
}

/// Sends a clip as it is read, in the class for bulk work: no more than a few fragments ahead of
/// its reader.
fn stream(mut clip: Clip<LocalDisk>, permit: Permit) -> Response {
    let times = [
        (STARTS, clip.start_ms().to_string()),
        (ENDS, clip.end_ms().to_string()),
        (KIND, clip.kind().to_owned()),
    ];
    let (sender, mut receiver) = mpsc::channel::<io::Result<Bytes>>(AHEAD);
    drop(evenkeel::spawn_in(Class::BULK, async move {
        let _permit = permit;
        if sender.send(Ok(clip.init())).await.is_err() {
            return;
        }
        while let Some(next) = clip.next().await.transpose() {
            let has_failed = next.is_err();
            if sender.send(next).await.is_err() || has_failed {
                return;
            }
        }
    }));
    let pieces = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
    ([(CONTENT_TYPE, MP4)], times, Body::from_stream(pieces)).into_response()
}

fn live(served: &Arc<Served>, rights: &Rights, camera: &str) -> Result<Arc<Live>, Problem> {
    served.check(rights, Permission::Watch, camera)?;
    served.lives.of(camera).map_err(refused)
}

pub(super) fn refused(error: SubscribeError) -> Problem {
    let status = match error {
        SubscribeError::Unknown(_) => StatusCode::NOT_FOUND,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    Problem(status, error.to_string())
}

fn nothing_yet(live: &Live, camera: &str) -> Problem {
    match live.trouble() {
        Some(why) => Problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, why),
        None => silent(camera),
    }
}

fn silent(camera: &str) -> Problem {
    let message = format!("camera {camera:?} has sent no picture for {PATIENCE:?}");
    Problem(StatusCode::SERVICE_UNAVAILABLE, message)
}
