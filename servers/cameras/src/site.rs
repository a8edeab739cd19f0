//! Recording and watching by a configuration: what the server has beside its streams.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use crate::cameras::{AddError, Cameras};
use crate::config::{self, Camera, Config, Record, Transport, Volume};
use crate::record::disk::LocalDisk;
use crate::record::recordings::RecordError;
use crate::record::retention::CameraLimits;
use crate::record::{Recordings, Settings};
use crate::watch::routes::Doing;
use crate::watch::{Catalog, Listed, Server, Watch, WatchError};

/// How long the end waits for what is to be written.
const END_MAX: Duration = Duration::from_secs(10);

/// Why recording or watching cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// A volume.
    #[error("volume {name}: {error}")]
    Volume {
        /// Its name.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// A camera.
    #[error("camera {name}: {error}")]
    Record {
        /// Its name.
        name: String,
        /// What is wrong.
        error: RecordError,
    },
    /// The page.
    #[error("watch: {0}")]
    Watch(#[from] WatchError),
}

/// Recordings, and the server of the page.
pub struct Site {
    recordings: Arc<Recordings>,
    server: Option<Server>,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

/// The cameras of the configuration and those that are added later, with where they are recorded.
struct Book {
    cameras: Arc<Cameras>,
    recordings: Arc<Recordings>,
    volumes: BTreeMap<String, Spanned<Volume>>,
}

impl Site {
    /// Records the cameras that are to be, and listens for browsers.
    ///
    /// # Errors
    ///
    /// [`SiteError`].
    pub async fn begin(config: &Config, cameras: &Arc<Cameras>) -> Result<Self, SiteError> {
        let mut disks = Vec::new();
        for (name, volume) in &config.volumes {
            let volume = volume.get_ref();
            let disk = LocalDisk::new(name, volume.path.get_ref().clone());
            let disk = disk.map_err(|error| SiteError::Volume {
                name: name.clone(),
                error,
            })?;
            disks.push((name.clone(), disk, volume.limits()));
        }
        let settings = Settings::from(&config.recording);
        let recordings = Recordings::new(settings, disks, CameraLimits::default());
        for (name, camera) in &config.cameras {
            let Some(record) = &camera.get_ref().record else {
                continue;
            };
            let recorded = record_camera(&recordings, config, cameras, name, record.get_ref());
            recorded.map_err(|error| SiteError::Record {
                name: name.clone(),
                error,
            })?;
        }
        recordings.start();
        let recordings = Arc::new(recordings);
        let server = match &config.watch {
            None => None,
            Some(settings) => {
                let book = Book {
                    cameras: Arc::clone(cameras),
                    recordings: Arc::clone(&recordings),
                    volumes: config.volumes.clone(),
                };
                let watch = Watch {
                    hub: Arc::clone(cameras.hub()),
                    recordings: Some(Arc::clone(&recordings)),
                    catalog: Arc::new(book),
                };
                Some(Server::begin(settings.get_ref(), watch).await?)
            }
        };
        Ok(Self { recordings, server })
    }

    /// Where browsers connect.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(Server::address)
    }

    /// The recordings.
    pub fn recordings(&self) -> &Arc<Recordings> {
        &self.recordings
    }

    /// Ends both: what waits is written, for some seconds at most. Returns the cameras whose disks
    /// took longer.
    pub async fn end(self) -> Vec<String> {
        if let Some(server) = self.server {
            server.end().await;
        }
        self.recordings.end(END_MAX).await
    }
}

fn record_camera(
    recordings: &Recordings,
    config: &Config,
    cameras: &Cameras,
    name: &str,
    record: &Record,
) -> Result<(), RecordError> {
    let volume = config.volumes.get(&record.volume);
    let limits = volume.map(|volume| record.limits(volume.get_ref()));
    let limits = limits.ok_or_else(|| RecordError::UnknownVolume(record.volume.clone()))?;
    recordings.record(cameras.hub(), name, &record.volume, limits)
}

/// A camera as a request describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    url: Option<String>,
    user: Option<String>,
    password: Option<String>,
    #[serde(default)]
    transport: Transport,
    record: Option<Record>,
}

impl Described {
    fn camera(self) -> Result<(Camera, Option<Record>), String> {
        let url = match self.url {
            None => None,
            Some(text) => Some(Spanned::new(0..0, config::camera_url(&text)?)),
        };
        if self.user.is_some() != self.password.is_some() {
            return Err("`user` and `password` go together".to_owned());
        }
        let record = self.record.clone();
        let camera = Camera {
            url,
            user: self.user,
            password: self.password,
            transport: self.transport,
            delivery: config::delivery(),
            record: self.record.map(|record| Spanned::new(0..0, record)),
        };
        Ok((camera, record))
    }
}

impl Book {
    fn add_now(&self, name: &str, described: Value) -> Result<(), String> {
        let described: Described =
            serde_json::from_value(described).map_err(|error| error.to_string())?;
        let (camera, record) = described.camera()?;
        let volume = match &record {
            None => None,
            Some(record) => {
                let volume = self.volumes.get(&record.volume);
                let unknown = || RecordError::UnknownVolume(record.volume.clone()).to_string();
                Some(volume.ok_or_else(unknown)?)
            }
        };
        self.cameras
            .add(name, camera)
            .map_err(|error: AddError| error.to_string())?;
        if let (Some(record), Some(volume)) = (record, volume) {
            let limits = record.limits(volume.get_ref());
            let hub = self.cameras.hub();
            let recorded = self.recordings.record(hub, name, &record.volume, limits);
            recorded.map_err(|error| {
                self.cameras.remove(name);
                error.to_string()
            })?;
        }
        Ok(())
    }
}

impl Catalog for Book {
    fn list(&self) -> Vec<Listed> {
        let describe = |status: crate::cameras::CameraStatus| {
            let ingest = serde_json::to_value(&status.ingest).unwrap_or(Value::Null);
            let text = |name: &str| ingest[name].as_str().map(str::to_owned);
            let state = if status.is_live {
                Some("live".to_owned())
            } else {
                text("state")
            };
            Listed {
                name: status.name,
                state: state.unwrap_or_else(|| "offline".to_owned()),
                error: text("last_error"),
                details: json!({ "url": status.url, "ingest": ingest, "memory": status.memory }),
            }
        };
        self.cameras.status().into_iter().map(describe).collect()
    }

    fn add<'a>(&'a self, name: &'a str, camera: Value) -> Doing<'a, ()> {
        Box::pin(std::future::ready(self.add_now(name, camera)))
    }

    fn remove<'a>(&'a self, name: &'a str) -> Doing<'a, bool> {
        self.recordings.forget(name);
        Box::pin(std::future::ready(Ok(self.cameras.remove(name))))
    }
}
