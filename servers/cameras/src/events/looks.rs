//! What has changed from one look to the next. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::{Event, Kind};
use crate::cameras;
use crate::record::recordings;
use crate::record::volume::VolumeStatus;

/// What was seen last.
#[derive(Debug, Default)]
pub struct Looks {
    live: BTreeMap<String, bool>,
    lost: BTreeMap<String, u64>,
    failed: BTreeSet<String>,
}

impl Looks {
    /// Cameras that are lost, or back. One that has gone from the server is neither.
    pub fn cameras(&mut self, now_ms: u64, status: &[cameras::CameraStatus]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut live = BTreeMap::new();
        for camera in status {
            // Nobody is told of one that has not come yet.
            let was = self.live.get(&camera.name).copied().unwrap_or(false);
            if was != camera.is_live {
                let (event, why) = if camera.is_live {
                    (Kind::CameraBack, None)
                } else {
                    (Kind::CameraLost, camera.ingest.last_error.clone())
                };
                events.push(Event {
                    time_ms: now_ms,
                    event,
                    name: camera.name.clone(),
                    why,
                    gops: None,
                });
            }
            live.insert(camera.name.clone(), camera.is_live);
        }
        self.live = live;
        events
    }

    /// Cameras of which something was not recorded.
    pub fn recordings(&mut self, now_ms: u64, status: &[recordings::CameraStatus]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut lost = BTreeMap::new();
        for camera in status {
            let total: u64 = camera.reported.lost.iter().map(|(_, gops)| *gops).sum();
            let before = self.lost.get(&camera.camera).copied().unwrap_or(0);
            if total > before {
                let reason = camera.reported.gaps.last().map(|gap| gap.reason.name());
                events.push(Event {
                    time_ms: now_ms,
                    event: Kind::Gap,
                    name: camera.camera.clone(),
                    why: reason.map(str::to_owned),
                    gops: Some(total - before),
                });
            }
            lost.insert(camera.camera.clone(), total);
        }
        self.lost = lost;
        events
    }

    /// Volumes that have an error, or no longer.
    pub fn volumes(&mut self, now_ms: u64, status: &[VolumeStatus]) -> Vec<Event> {
        let mut events = Vec::new();
        for volume in status {
            let changed = match volume.error {
                Some(_) => self.failed.insert(volume.name.clone()),
                None => self.failed.remove(&volume.name),
            };
            if changed {
                events.push(Event {
                    time_ms: now_ms,
                    event: match volume.error {
                        Some(_) => Kind::VolumeFailed,
                        None => Kind::VolumeBack,
                    },
                    name: volume.name.clone(),
                    why: volume.error.clone(),
                    gops: None,
                });
            }
        }
        events
    }
}
