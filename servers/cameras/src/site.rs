//! Recording and watching by a configuration: what the server has beside its streams.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::time::timeout;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::book::{Book, BookError};
use crate::cameras::{CameraStatus, Cameras};
use crate::config::{Added, Config};
use crate::ingest::status::Watched;
use crate::record::disk::LocalDisk;
use crate::record::recordings::RecordError;
use crate::record::retention::CameraLimits;
use crate::record::sole::Sole;
use crate::record::tier::{self, Tier};
use crate::record::{Recordings, Settings};
use crate::watch::routes::Doing;
use crate::watch::server::Gate;
use crate::watch::webrtc::WebRtc;
use crate::watch::{Catalog, Listed, Server, Watch, WatchError};

/// How long the beginning waits for a disk, which may hang. It is used all the same.
const LOOK_MAX: Duration = Duration::from_secs(2);
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
    /// Another process has its directory.
    #[error(
        "volume {name}: another process records into {path}: end that, or give each a directory of \
         its own"
    )]
    Taken {
        /// Its name.
        name: String,
        /// Its directory.
        path: String,
    },
    /// A store that recordings are copied to.
    #[error("tier {name}: {error}")]
    Tier {
        /// Its name.
        name: String,
        /// What is wrong.
        error: tier::SettingsError,
    },
    /// A recording.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A camera.
    #[error(transparent)]
    Book(#[from] BookError),
    /// The page.
    #[error("watch: {0}")]
    Watch(#[from] WatchError),
}

/// Recordings, and the server of the page.
pub struct Site {
    book: Book,
    recordings: Arc<Recordings>,
    server: Option<Server>,
    /// The directories of volumes, which no other process has meanwhile.
    _soles: Vec<Sole>,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

impl Site {
    /// Receives and records the cameras that are to be, and listens for browsers.
    ///
    /// # Errors
    ///
    /// [`SiteError`].
    pub async fn begin(
        config: &Config,
        path: Option<&Path>,
        cameras: &Arc<Cameras>,
    ) -> Result<Self, SiteError> {
        let (mut disks, mut soles) = (Vec::new(), Vec::new());
        for (name, volume) in &config.volumes {
            let volume = volume.get_ref();
            let disk = LocalDisk::new(name, volume.path.get_ref().clone());
            let disk = disk.map_err(|error| SiteError::Volume {
                name: name.clone(),
                error,
            })?;
            let disk = disk.mounted(volume.mounted);
            soles.extend(sole(name, volume.path.get_ref(), &disk).await?);
            disks.push((name.clone(), disk, volume.limits()));
        }
        let settings = Settings::from(&config.recording);
        let recordings = Recordings::new(settings, disks, CameraLimits::default());
        let recordings = Arc::new(recordings);
        tiers(config, &recordings)?;
        let book = Book::begin(config, path, cameras, &recordings)?;
        recordings.start();
        let server = match &config.watch {
            None => None,
            Some(settings) => {
                let watch = Watch {
                    hub: Arc::clone(cameras.hub()),
                    recordings: Some(Arc::clone(&recordings)),
                    catalog: Arc::new(book.clone()),
                };
                Some(Server::begin(settings.get_ref(), watch).await?)
            }
        };
        Ok(Self {
            book,
            recordings,
            server,
            _soles: soles,
        })
    }

    /// Where browsers connect.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(Server::address)
    }

    /// Which cameras there are.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// Who is let in over HTTP.
    pub fn gate(&self) -> Option<&Gate> {
        self.server.as_ref().map(Server::gate)
    }

    /// Sessions of WebRTC, if there are any.
    pub fn webrtc(&self) -> Option<&Arc<WebRtc>> {
        self.server.as_ref().and_then(Server::webrtc)
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

/// Has a volume for this process alone, if its directory can be looked at.
async fn sole(name: &str, path: &Path, disk: &LocalDisk) -> Result<Option<Sole>, SiteError> {
    let Ok(Ok(directory)) = timeout(LOOK_MAX, disk.place()).await else {
        // What is wrong with the disk is said where it is used.
        return Ok(None);
    };
    match Sole::of(&directory) {
        Ok(sole) => Ok(Some(sole)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(SiteError::Taken {
            name: name.to_owned(),
            path: path.display().to_string(),
        }),
        // Where such sockets are not allowed, there is no telling.
        Err(_) => Ok(None),
    }
}

/// Has volumes copied to their stores, of which each is one for all of its volumes.
fn tiers(config: &Config, recordings: &Recordings) -> Result<(), SiteError> {
    for (name, tier) in &config.tiers {
        let settings = tier::Settings::from(tier.get_ref());
        let tier = Tier::new(name, &settings).map_err(|error| SiteError::Tier {
            name: name.clone(),
            error,
        })?;
        let tier = Arc::new(tier);
        for (volume, of) in &config.volumes {
            let wanted = of.get_ref().tier.as_ref();
            if wanted.is_some_and(|wanted| wanted.get_ref() == name) {
                recordings.set_tier(volume, &tier)?;
            }
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Details<'a> {
    url: Option<&'a str>,
    ingest: &'a Watched,
    memory: usize,
}

fn listed(status: CameraStatus) -> Listed {
    let details = Details {
        url: status.url.as_deref(),
        ingest: &status.ingest,
        memory: status.memory,
    };
    let details = to_raw_value(&details).unwrap_or_else(|_| RawValue::NULL.to_owned());
    let state = match status.is_live {
        true => "live",
        false => status.ingest.state.name(),
    };
    Listed {
        name: status.name,
        state: state.to_owned(),
        // Of one that is live it is over.
        error: status.ingest.last_error.filter(|_| !status.is_live),
        details,
    }
}

impl Catalog for Book {
    fn one(&self, name: &str) -> Option<Listed> {
        self.cameras().status_of(name).map(listed)
    }

    fn add<'a>(&'a self, name: &'a str, camera: Value) -> Doing<'a, ()> {
        Box::pin(async move {
            let added = Added::read(camera)?;
            self.put(name, added).await.map_err(|it| it.to_string())
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> Doing<'a, bool> {
        Box::pin(async move { self.remove(name).await.map_err(|it| it.to_string()) })
    }

    fn reload(&self) -> Doing<'_, Value> {
        Box::pin(async move {
            let changes = self.reload().await.map_err(|it| it.to_string())?;
            serde_json::to_value(changes).map_err(|it| it.to_string())
        })
    }
}
