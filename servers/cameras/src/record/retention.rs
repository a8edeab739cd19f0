//! What is deleted next. Pure: it knows the days of each camera, their bytes, and the limits.
//!
//! Only totals of days are kept in memory, so that a year of hundreds of cameras needs little.
//! Which files a day has is asked of its directory, when its turn has come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::names::{Closed, DAY_MS};
use super::protect::Protection;

/// What a volume may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeLimits {
    /// Bytes of all recordings on it.
    pub bytes_max: Option<u64>,
    /// Bytes that are to stay free on its file system.
    pub reserve_bytes: u64,
}

/// What a camera may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CameraLimits {
    /// How long recordings are kept.
    pub age_max: Option<Duration>,
    /// Their bytes.
    pub bytes_max: Option<u64>,
}

/// What a day of a camera holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Day {
    /// Complete segments.
    pub segments: u32,
    /// Their bytes.
    pub bytes: u64,
    /// When the oldest one begins.
    pub first_ms: u64,
}

/// Why something is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// It is too old.
    Age,
    /// Its camera has too much.
    CameraSize,
    /// The volume has too much.
    VolumeSize,
    /// The file system is nearly full.
    Reserve,
}

impl Why {
    /// All, in the order in which they are looked at.
    pub const ALL: [Self; 4] = [Self::Age, Self::CameraSize, Self::VolumeSize, Self::Reserve];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::CameraSize => "camera_size",
            Self::VolumeSize => "volume_size",
            Self::Reserve => "reserve",
        }
    }
}

/// A day from which something is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Whose.
    pub camera: String,
    /// When the day begins.
    pub day_ms: u64,
    /// Why.
    pub why: Why,
    /// How many bytes there are too many, at least; of age, when what is kept begins.
    pub enough: Enough,
}

/// When enough of a day was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enough {
    /// All that ended before this time.
    Before(u64),
    /// So many bytes.
    Bytes(u64),
}

/// The recordings of a volume.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    cameras: BTreeMap<String, Held>,
    /// Days in which nothing may be deleted at present: all is protected, or being written.
    aside: BTreeSet<(String, u64)>,
}

#[derive(Clone, Debug, Default)]
struct Held {
    limits: CameraLimits,
    days: BTreeMap<u64, Day>,
}

impl Held {
    fn bytes(&self) -> u64 {
        self.days.values().map(|day| day.bytes).sum()
    }
}

impl Holdings {
    /// Adds a camera, or changes its limits.
    pub fn set_limits(&mut self, camera: &str, limits: CameraLimits) {
        self.cameras.entry(camera.to_owned()).or_default().limits = limits;
    }

    /// A segment was completed, or found.
    pub fn add(&mut self, camera: &str, segment: Closed) {
        let held = self.cameras.entry(camera.to_owned()).or_default();
        let day = held.days.entry(day_of(segment.start_ms)).or_insert(Day {
            first_ms: segment.start_ms,
            ..Day::default()
        });
        day.segments += 1;
        day.bytes += segment.bytes;
        day.first_ms = day.first_ms.min(segment.start_ms);
    }

    /// A segment was deleted, and the oldest one that its day still has begins at `next_ms`.
    pub fn removed(&mut self, camera: &str, segment: Closed, next_ms: Option<u64>) {
        let Some(held) = self.cameras.get_mut(camera) else {
            return;
        };
        let day_ms = day_of(segment.start_ms);
        if let Some(day) = held.days.get_mut(&day_ms) {
            day.segments = day.segments.saturating_sub(1);
            day.bytes = day.bytes.saturating_sub(segment.bytes);
            day.first_ms = next_ms.unwrap_or(day.first_ms);
            if day.segments == 0 {
                held.days.remove(&day_ms);
            }
        }
    }

    /// The directory of a day has what was counted, instead of what was thought.
    pub fn set_day(&mut self, camera: &str, day_ms: u64, day: Day) {
        let held = self.cameras.entry(camera.to_owned()).or_default();
        if day.segments == 0 {
            held.days.remove(&day_ms);
        } else {
            held.days.insert(day_ms, day);
        }
    }

    /// Nothing can be deleted in this day until [`look_again`](Self::look_again).
    pub fn set_aside(&mut self, camera: &str, day_ms: u64) {
        self.aside.insert((camera.to_owned(), day_ms));
    }

    /// Days that were set aside are looked at again.
    pub fn look_again(&mut self) {
        self.aside.clear();
    }

    /// Bytes of a camera.
    pub fn camera_bytes(&self, camera: &str) -> u64 {
        self.cameras.get(camera).map_or(0, Held::bytes)
    }

    /// Bytes of all.
    pub fn bytes(&self) -> u64 {
        self.cameras.values().map(Held::bytes).sum()
    }

    /// When a camera's oldest recording begins.
    pub fn oldest_ms(&self, camera: &str) -> Option<u64> {
        let (_, day) = self.cameras.get(camera)?.days.first_key_value()?;
        Some(day.first_ms)
    }

    /// What is to be deleted next. `free` has the bytes that are free on the file system, if the
    /// system says it.
    pub fn next(&self, limits: &VolumeLimits, now_ms: u64, free: Option<u64>) -> Option<Victim> {
        (self.too_old(now_ms))
            .or_else(|| self.too_much_of_one())
            .or_else(|| {
                let over = self.bytes().checked_sub(limits.bytes_max?)?;
                self.oldest_of_all(Why::VolumeSize, over)
            })
            .or_else(|| {
                let under = limits.reserve_bytes.checked_sub(free?)?;
                self.oldest_of_all(Why::Reserve, under)
            })
    }

    /// The oldest of all, to make room for this many bytes.
    pub fn for_room(&self, bytes: u64) -> Option<Victim> {
        self.oldest_of_all(Why::Reserve, bytes)
    }

    fn too_old(&self, now_ms: u64) -> Option<Victim> {
        self.cameras.iter().find_map(|(camera, held)| {
            let age = u64::try_from(held.limits.age_max?.as_millis()).ok()?;
            let before = now_ms.checked_sub(age)?;
            let (&day_ms, day) = self.first_day(camera, held)?;
            (day.first_ms < before).then(|| Victim {
                camera: camera.clone(),
                day_ms,
                why: Why::Age,
                enough: Enough::Before(before),
            })
        })
    }

    fn too_much_of_one(&self) -> Option<Victim> {
        self.cameras.iter().find_map(|(camera, held)| {
            let over = held.bytes().checked_sub(held.limits.bytes_max?)?;
            let (&day_ms, _) = self.first_day(camera, held)?;
            (over > 0).then(|| Victim {
                camera: camera.clone(),
                day_ms,
                why: Why::CameraSize,
                enough: Enough::Bytes(over),
            })
        })
    }

    fn oldest_of_all(&self, why: Why, bytes: u64) -> Option<Victim> {
        if bytes == 0 {
            return None;
        }
        let firsts = self.cameras.iter().filter_map(|(camera, held)| {
            let (&day_ms, day) = self.first_day(camera, held)?;
            Some((day.first_ms, camera, day_ms))
        });
        let (_, camera, day_ms) = firsts.min()?;
        Some(Victim {
            camera: camera.clone(),
            day_ms,
            why,
            // One segment at a time, so that all cameras keep recordings of the same age.
            enough: Enough::Bytes(1),
        })
    }

    fn first_day<'a>(&self, camera: &str, held: &'a Held) -> Option<(&'a u64, &'a Day)> {
        let is_aside = |day_ms: u64| self.aside.contains(&(camera.to_owned(), day_ms));
        held.days.iter().find(|&(&day_ms, _)| !is_aside(day_ms))
    }
}

/// The oldest segments that may be deleted, until it is enough.
pub fn choose(closed: &[Closed], protected: &[Protection], enough: Enough) -> Vec<Closed> {
    let mut chosen = Vec::new();
    let mut bytes = 0;
    for segment in closed {
        let is_kept = |it: &Protection| it.covers(segment.start_ms, segment.end_ms());
        if protected.iter().any(is_kept) {
            continue;
        }
        match enough {
            Enough::Before(ms) if segment.end_ms() > ms => break,
            Enough::Bytes(wanted) if bytes >= wanted => break,
            _ => {}
        }
        bytes += segment.bytes;
        chosen.push(*segment);
    }
    chosen
}

/// When the day begins that has this time.
pub fn day_of(ms: u64) -> u64 {
    ms / DAY_MS * DAY_MS
}

#[cfg(test)]
mod tests;
