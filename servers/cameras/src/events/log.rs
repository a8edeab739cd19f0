//! What has happened, as lines for the operator's log. Pure: whoever calls prints them.
//!
//! Lines are few, however much happens: each trouble is said once and when it is over, and what
//! goes on being lost once a minute. Beyond that there is a limit for all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Event, Kind};
use crate::cameras::CameraStatus;

/// Lines that may come at once, as when a switch takes its cameras with it.
const LINES_MAX: u32 = 40;
/// How long it takes until there may be one more: 1 800 an hour, a day of which is some MiB.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// How often it is said how much more of a camera was not recorded.
const GAPS_EVERY: Duration = Duration::from_secs(60);

/// What was said, and what is yet to be.
#[derive(Debug)]
pub struct Log {
    /// Cameras from which nothing comes, as it was said, with the reason.
    troubles: BTreeMap<String, String>,
    gaps: BTreeMap<String, Gaps>,
    /// Lines that may come now, and since when there might be one more.
    room: u32,
    since: Duration,
    left_out: u64,
}

/// What of a camera was not recorded, and not said yet.
#[derive(Debug, Default)]
struct Gaps {
    said: Option<Duration>,
    gops: u64,
    why: String,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            troubles: BTreeMap::new(),
            gaps: BTreeMap::new(),
            room: LINES_MAX,
            since: Duration::ZERO,
            left_out: 0,
        }
    }
}

impl Log {
    /// The lines for what has happened, and for cameras that cannot be received, at this time since
    /// the beginning.
    pub fn lines(
        &mut self,
        now: Duration,
        events: &[Event],
        cameras: &[CameraStatus],
    ) -> Vec<String> {
        let mut lines: Vec<_> = events.iter().filter_map(|event| self.told(event)).collect();
        self.troubles
            .retain(|name, _| cameras.iter().any(|camera| camera.name == *name));
        lines.extend(cameras.iter().filter_map(|camera| self.trouble(camera)));
        lines.extend(self.missing(now));
        self.limited(now, lines)
    }

    fn told(&mut self, event: &Event) -> Option<String> {
        let Event { name, .. } = event;
        let why = event.why.clone().unwrap_or_default();
        match event.event {
            Kind::CameraLost => {
                self.troubles.insert(name.clone(), why.clone());
                let colon = if why.is_empty() { "" } else { ": " };
                Some(format!("camera {name}: nothing comes any more{colon}{why}"))
            }
            // Of one that comes for the first time nothing is said.
            Kind::CameraBack => {
                let was = self.troubles.remove(name);
                was.map(|_| format!("camera {name}: it sends again"))
            }
            Kind::Gap => {
                let gaps = self.gaps.entry(name.clone()).or_default();
                gaps.gops += event.gops.unwrap_or(0);
                gaps.why = why;
                None
            }
            Kind::VolumeFailed => Some(format!("volume {name}: {why}")),
            Kind::VolumeBack => Some(format!("volume {name}: it works again")),
        }
    }

    /// Why nothing comes from a camera, if that is news.
    fn trouble(&mut self, camera: &CameraStatus) -> Option<String> {
        let why = camera.ingest.last_error.as_ref()?;
        if camera.is_live || self.troubles.get(&camera.name) == Some(why) {
            return None;
        }
        self.troubles.insert(camera.name.clone(), why.clone());
        Some(format!("camera {}: {why}", camera.name))
    }

    /// How much was not recorded, of cameras of which that was not said a moment ago.
    fn missing(&mut self, now: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        self.gaps.retain(|name, gaps| {
            let is_due = gaps.said.is_none_or(|said| now >= said + GAPS_EVERY);
            if is_due && gaps.gops > 0 {
                let Gaps { gops, why, .. } = &gaps;
                let what = "groups of pictures that were not recorded";
                lines.push(format!("camera {name}: {what}: {gops} ({why})"));
                gaps.gops = 0;
                gaps.said = Some(now);
                return true;
            }
            !is_due
        });
        lines
    }

    fn limited(&mut self, now: Duration, mut lines: Vec<String>) -> Vec<String> {
        let more = now.saturating_sub(self.since).as_secs() / LINE_EVERY.as_secs();
        self.since += LINE_EVERY * u32::try_from(more).unwrap_or(u32::MAX);
        self.room = LINES_MAX.min(
            self.room
                .saturating_add(u32::try_from(more).unwrap_or(LINES_MAX)),
        );
        if self.left_out > 0 && self.room > 0 {
            let was = std::mem::take(&mut self.left_out);
            lines.insert(
                0,
                format!("lines that were left out: {was}; GET /api/cameras has all"),
            );
        }
        let said = lines.len().min(self.room as usize);
        self.left_out += (lines.len() - said) as u64;
        lines.truncate(said);
        self.room -= u32::try_from(said).unwrap_or(self.room);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn event(event: Kind, name: &str, why: &str, gops: Option<u64>) -> Event {
        Event {
            time_ms: 0,
            event,
            name: name.to_owned(),
            why: Some(why.to_owned()),
            gops,
        }
    }

    #[test]
    fn what_goes_on_being_lost_is_said_once_a_minute_with_its_sum() {
        let mut log = Log::default();
        let mut said = Vec::new();
        for second in 0..150 {
            let gap = event(Kind::Gap, "gate", "disk_full", Some(2));
            said.extend(log.lines(SECOND * second, &[gap], &[]));
        }
        let line = |gops| {
            format!("camera gate: groups of pictures that were not recorded: {gops} (disk_full)")
        };
        assert_eq!(said, [line(2), line(120), line(120)]);
        // What came in the last seconds is not lost.
        assert_eq!(log.lines(SECOND * 180, &[], &[]), [line(58)]);
        assert!(log.lines(SECOND * 300, &[], &[]).is_empty());
        assert!(log.gaps.is_empty());
    }

    #[test]
    fn lines_have_a_limit_and_what_was_left_out_is_counted() {
        let mut log = Log::default();
        let lost: Vec<_> = (0..100)
            .map(|number| event(Kind::VolumeFailed, &format!("v{number}"), "gone", None))
            .collect();
        assert_eq!(log.lines(SECOND, &lost, &[]).len(), 40);
        assert!(log.lines(SECOND, &lost[..1], &[]).is_empty());
        let later = log.lines(SECOND * 20, &lost[..1], &[]);
        assert_eq!(
            later,
            [
                "lines that were left out: 61; GET /api/cameras has all",
                "volume v0: gone"
            ]
        );
        // An hour of silence does not make room for more than at the beginning.
        assert_eq!(log.lines(SECOND * 4_000, &lost, &[]).len(), 40);
    }
}
