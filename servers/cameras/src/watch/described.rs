//! What is said of a camera, to programs and the page.
//!
//! It is written as text at once, without a tree of values in between: a list has hundreds of
//! cameras, and is asked for again and again.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::routes::{Listed, Problem, Served};
use crate::hub::ChannelStatus;
use crate::media::Track;
use crate::mp4::entry::rfc6381;
use crate::record::gap::{self, Reason};
use crate::record::listing::ms;
use crate::record::recordings::CameraStatus;

#[derive(Serialize)]
struct Described<'a> {
    name: &'a str,
    state: &'a str,
    error: Option<&'a str>,
    details: Option<&'a RawValue>,
    tracks: Vec<Shown>,
    silent_for_ms: Option<u64>,
    viewers: usize,
    samples: u64,
    bytes: u64,
    sessions: u64,
    recording: Option<Recording<'a>>,
}

#[derive(Serialize)]
struct Shown {
    codec: &'static str,
    is_video: bool,
    is_playable: bool,
    size: Option<(u16, u16)>,
}

#[derive(Serialize)]
struct Recording<'a> {
    volume: &'a str,
    bytes: u64,
    oldest_ms: Option<u64>,
    waiting_gops: usize,
    waiting_bytes: usize,
    busy_for_ms: Option<u64>,
    error: Option<&'a str>,
    gops: u64,
    written_bytes: u64,
    lost_gops: BTreeMap<&'static str, u64>,
    gaps: Vec<Gap>,
}

#[derive(Serialize)]
struct Gap {
    from_ms: u64,
    until_ms: u64,
    reason: Reason,
    gops: u32,
}

/// A camera, as it is now.
pub(super) fn described(served: &Served, status: &ChannelStatus) -> Result<Box<RawValue>, Problem> {
    let watch = &served.watch;
    let listed = watch.catalog.one(&status.name);
    let recordings = watch.recordings.as_ref();
    let recorded = recordings.and_then(|recordings| recordings.status_of(&status.name));
    let now = watch.hub.now();
    let seen = status.last_seen.map(|seen| {
        let ago = now.monotonic.saturating_sub(seen.monotonic);
        u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)
    });
    let described = Described {
        name: &status.name,
        state: state(status, listed.as_ref()),
        error: listed.as_ref().and_then(|listed| listed.error.as_deref()),
        details: listed.as_ref().map(|listed| &*listed.details),
        tracks: (status.tracks.iter().flat_map(|tracks| tracks.iter()))
            .map(shown)
            .collect(),
        silent_for_ms: seen,
        viewers: status.viewers,
        samples: status.samples,
        bytes: status.bytes,
        sessions: status.sessions,
        recording: recorded.as_ref().map(recording),
    };
    to_raw_value(&described).map_err(|error| {
        let message = format!("camera {:?} cannot be described: {error}", status.name);
        Problem(StatusCode::INTERNAL_SERVER_ERROR, message)
    })
}

fn state<'a>(status: &ChannelStatus, listed: Option<&'a Listed>) -> &'a str {
    match listed {
        Some(listed) => &listed.state,
        None if status.tracks.is_some() => "live",
        None => "offline",
    }
}

fn shown(track: &Track) -> Shown {
    Shown {
        codec: track.codec.name(),
        is_video: track.codec.is_video(),
        is_playable: rfc6381(track).is_some(),
        size: track.codec.size(),
    }
}

fn recording(status: &CameraStatus) -> Recording<'_> {
    let reported = &status.reported;
    let lost = reported.lost.iter().filter(|(_, count)| *count > 0);
    let gap = |gap: &gap::Gap| Gap {
        from_ms: ms(gap.from_us),
        until_ms: ms(gap.until_us),
        reason: gap.reason,
        gops: gap.gops,
    };
    Recording {
        volume: &status.volume,
        bytes: status.bytes,
        oldest_ms: status.oldest_ms,
        waiting_gops: status.waiting.gops,
        waiting_bytes: status.waiting.bytes,
        busy_for_ms: reported.busy_for.map(|busy| busy.as_millis() as u64),
        error: reported.error.as_deref(),
        gops: reported.gops,
        written_bytes: reported.bytes,
        lost_gops: lost
            .map(|(reason, count)| (reason.name(), *count))
            .collect(),
        gaps: reported.gaps.iter().map(gap).collect(),
    }
}
