//! Where cameras are recorded, and how long recordings are kept.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use servers_common::values;
use toml::Spanned;

use crate::record;
use crate::record::backlog::Budgets;
use crate::record::retention::{CameraLimits, VolumeLimits};

/// How recordings are made.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recording {
    /// How long a file is, and up to the next key frame.
    #[serde(deserialize_with = "values::time")]
    pub segment: Duration,
    /// How often volumes are synced: what a loss of power may cost.
    #[serde(deserialize_with = "values::time")]
    pub sync: Duration,
    /// What may wait for disks, of all cameras.
    #[serde(deserialize_with = "values::size")]
    pub memory: usize,
    /// The same of one camera.
    #[serde(deserialize_with = "values::size")]
    pub camera_memory: usize,
}

impl Default for Recording {
    fn default() -> Self {
        let settings = record::Settings::default();
        Self {
            segment: settings.segment,
            sync: settings.sync_every,
            memory: settings.budgets.all_bytes,
            camera_memory: settings.budgets.camera_bytes,
        }
    }
}

impl From<&Recording> for record::Settings {
    fn from(recording: &Recording) -> Self {
        Self {
            segment: recording.segment,
            sync_every: recording.sync,
            budgets: Budgets {
                camera_bytes: recording.camera_memory,
                all_bytes: recording.memory,
            },
        }
    }
}

/// A directory for recordings, on a disk of its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// The directory, which is made if it is not there.
    pub path: Spanned<PathBuf>,
    /// Whether it is where a file system is mounted: if it is not, nothing is recorded, as the
    /// directory beneath is on another disk.
    #[serde(default)]
    pub mounted: bool,
    /// Bytes of all recordings on it.
    #[serde(default, deserialize_with = "values::optional_size")]
    pub size: Option<usize>,
    /// Bytes that are to stay free on its file system.
    #[serde(default = "reserve", deserialize_with = "values::size")]
    pub reserve: usize,
    /// The store to which recordings are copied, and from which they are not deleted.
    pub tier: Option<Spanned<String>>,
    /// How long recordings are kept of cameras that do not say it themselves.
    #[serde(default, deserialize_with = "values::optional_age")]
    pub keep: Option<Duration>,
}

/// What a file system should keep to stay quick, and for what is written while old files go.
fn reserve() -> usize {
    1 << 30
}

impl Volume {
    /// What it may hold.
    pub fn limits(&self) -> VolumeLimits {
        VolumeLimits {
            bytes_max: self.size.map(|size| size as u64),
            reserve_bytes: self.reserve as u64,
        }
    }
}

/// Where a camera is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "the name of a volume, as { volume = \"disk1\" }"
)]
pub struct Record {
    /// The name of a volume.
    pub volume: String,
    /// How long recordings are kept; what the volume says, if it is not given.
    #[serde(default, deserialize_with = "values::optional_age")]
    pub keep: Option<Duration>,
    /// Their bytes.
    #[serde(default, deserialize_with = "values::optional_size")]
    pub size: Option<usize>,
}

impl Record {
    /// What the camera may hold on its volume.
    pub fn limits(&self, volume: &Volume) -> CameraLimits {
        CameraLimits {
            age_max: self.keep.or(volume.keep),
            bytes_max: self.size.map(|size| size as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    const GOOD: &str = "[volume.disk]\npath = \"/srv/disk\"\nsize = \"2TiB\"\nkeep = \"30d\"\n\
                        [watch]\nlisten = \"127.0.0.1:0\"\n\
                        [camera.gate]\nurl = \"rtsp://192.0.2.1/\"\n\
                        record = { volume = \"disk\", size = \"5GiB\" }\n";

    #[test]
    fn a_camera_keeps_what_it_says_or_else_its_volume() {
        let config = parse("cameras.toml", GOOD).unwrap();
        let volume = config.volumes["disk"].get_ref();
        let record = config.cameras["gate"].get_ref().record.as_ref().unwrap();
        let limits = record.get_ref().limits(volume);
        assert_eq!(limits.age_max, Some(Duration::from_secs(30 * 86_400)));
        assert_eq!(limits.bytes_max, Some(5 << 30));
        assert_eq!(volume.limits().bytes_max, Some(2 << 40));
        assert_eq!(volume.limits().reserve_bytes, 1 << 30);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (good, bad, line, why) in [
            (
                "volume = \"disk\"",
                "volume = \"disc\"",
                9,
                "add [volume.disc]",
            ),
            ("\"/srv/disk\"", "\"srv/disk\"", 2, "begins with `/`"),
            ("30d", "30s", 4, "with h or d"),
            ("2TiB", "2TB", 3, "no number of bytes"),
            ("127.0.0.1:0", "0.0.0.0:0", 5, "tokens are needed"),
            ("127.0.0.1:0", "localhost", 5, "no address"),
            ("keep = \"30d\"", "kept = \"30d\"", 4, "unknown field"),
        ] {
            let error = parse("cameras.toml", &GOOD.replace(good, bad))
                .unwrap_err()
                .to_string();
            assert!(error.contains(why), "{error}");
            assert!(error.contains(&format!("cameras.toml:{line}:")), "{error}");
        }
    }
}
