//! Which cameras there are, with where they are recorded: those of the configuration, and those
//! that requests have added. All changes are made here, one after the other.
//!
//! A change touches what differs. A camera whose address has changed is connected to anew, and its
//! recording and its viewers stay; of one whose recording has changed, the stream is not touched.
//! Everything is checked before anything is changed.

mod changes;
mod error;
mod watch;

pub use changes::Changes;
pub use error::BookError;
pub use watch::watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use servers_common::watch::{Known, look};
use tokio::sync::Mutex;
use toml::Spanned;

use crate::cameras::{CAMERAS_MAX, Cameras};
use crate::config::{self, Added, Camera, Config, ConfigError, Volume};
use crate::descriptors;
use crate::record::Recordings;

/// What else goes by a new configuration.
type Others = Box<dyn Fn(&Config) + Send + Sync>;

/// The cameras. A clone is the same.
#[derive(Clone)]
pub struct Book(Arc<Inner>);

struct Inner {
    cameras: Arc<Cameras>,
    recordings: Arc<Recordings>,
    /// The configuration.
    path: Option<PathBuf>,
    /// Where added cameras are kept.
    kept: Option<PathBuf>,
    first: Config,
    others: OnceLock<Others>,
    /// How the files looked that it was read from.
    read: Known,
    /// Locked for the whole of a change.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    volumes: BTreeMap<String, Spanned<Volume>>,
    configured: BTreeMap<String, Camera>,
    /// Where the configuration stands, with the files that it names.
    files: Vec<PathBuf>,
    added: BTreeMap<String, Added>,
}

impl State {
    /// All cameras. What the configuration says goes before what requests have said.
    fn all(&self) -> BTreeMap<&str, &Camera> {
        let added = self.added.iter().map(|(name, it)| (&**name, &it.camera));
        let configured = self.configured.iter().map(|(name, it)| (&**name, it));
        added.chain(configured).collect()
    }
}

impl Book {
    /// Adds the cameras of a configuration, which was read from this file, and those that were
    /// kept.
    ///
    /// # Errors
    ///
    /// [`BookError`].
    pub fn begin(
        config: &Config,
        path: Option<&Path>,
        cameras: &Arc<Cameras>,
        recordings: &Arc<Recordings>,
    ) -> Result<Self, BookError> {
        let directory = path.and_then(Path::parent).unwrap_or(Path::new(""));
        let kept = config.process.cameras_file.as_ref();
        let kept = kept.map(|file| directory.join(file));
        let mut next = State::of(config, path);
        if let Some(kept) = &kept {
            next.added = config::read_kept(kept)?;
        }
        let mut inner = Inner {
            cameras: Arc::clone(cameras),
            recordings: Arc::clone(recordings),
            path: path.map(Path::to_owned),
            kept,
            first: config.clone(),
            others: OnceLock::new(),
            read: Known::default(),
            state: Mutex::default(),
        };
        inner.check(&next)?;
        inner.apply(&State::default(), &next)?;
        *inner.state.get_mut() = next;
        Ok(Self(Arc::new(inner)))
    }

    /// What is to be done with a new configuration beside its cameras.
    pub fn also(&self, others: impl Fn(&Config) + Send + Sync + 'static) {
        // Once, as the server begins.
        _ = self.0.others.set(Box::new(others));
    }

    /// The cameras.
    pub fn cameras(&self) -> &Arc<Cameras> {
        &self.0.cameras
    }

    /// Reads the configuration again.
    ///
    /// # Errors
    ///
    /// [`BookError`]: nothing was changed.
    ///
    /// # Cancel safety
    ///
    /// What was begun is done to its end.
    pub async fn reload(&self) -> Result<Changes, BookError> {
        let book = Arc::clone(&self.0);
        done(evenkeel::spawn(async move { book.reload().await })).await
    }

    /// Adds a camera, or changes one that was added, and keeps it.
    ///
    /// # Errors
    ///
    /// [`BookError`]: nothing was changed.
    ///
    /// # Cancel safety
    ///
    /// What was begun is done to its end.
    pub async fn put(&self, name: &str, added: Added) -> Result<(), BookError> {
        let (book, name) = (Arc::clone(&self.0), name.to_owned());
        let put = async move { book.set(&name, Some(added)).await.map(drop) };
        done(evenkeel::spawn(put)).await
    }

    /// Removes a camera that was added. Whether there was one.
    ///
    /// # Errors
    ///
    /// [`BookError`]: nothing was changed.
    ///
    /// # Cancel safety
    ///
    /// What was begun is done to its end.
    pub async fn remove(&self, name: &str) -> Result<bool, BookError> {
        let (book, name) = (Arc::clone(&self.0), name.to_owned());
        let remove = async move { book.set(&name, None).await };
        done(evenkeel::spawn(remove)).await
    }
}

async fn done<T>(task: evenkeel::task::JoinHandle<Result<T, BookError>>) -> Result<T, BookError> {
    // It fails only if it panics, or as the runtime ends.
    let failed = |error| Err(BookError::Described(format!("the change failed: {error}")));
    task.await.unwrap_or_else(failed)
}

impl State {
    fn of(config: &Config, path: Option<&Path>) -> Self {
        let camera =
            |(name, camera): (&String, &Spanned<Camera>)| (name.clone(), camera.get_ref().clone());
        Self {
            volumes: config.volumes.clone(),
            configured: config.cameras.iter().map(camera).collect(),
            files: path.map_or_else(Vec::new, |path| config.files(path)),
            added: BTreeMap::new(),
        }
    }
}

impl Inner {
    async fn reload(&self) -> Result<Changes, BookError> {
        let path = self.path.as_ref().ok_or(BookError::NoFile)?;
        let mut state = self.state.lock().await;
        // What changes while it is read is looked at again.
        let before = look(&state.files).await;
        let file = path.display().to_string();
        let text = evenkeel::fs::read_to_string(path).await;
        let text = text.map_err(|error| ConfigError::Read {
            file: file.clone(),
            error,
        })?;
        let config = config::parse(&file, &text)?;
        descriptors::secure(&config).map_err(BookError::Descriptors)?;
        let mut next = State::of(&config, Some(path));
        next.added.clone_from(&state.added);
        self.check(&next)?;
        let mut changes = self.apply(&state, &next)?;
        let looks = match next.files == state.files {
            true => before,
            false => look(&next.files).await,
        };
        self.read.note_read(looks);
        *state = next;
        if let Some(others) = self.others.get() {
            others(&config);
        }
        changes.needs_restart = changes::waiting(&self.first, &config);
        Ok(changes)
    }

    /// Adds, changes or removes a camera for a request. Whether there was one.
    async fn set(&self, name: &str, added: Option<Added>) -> Result<bool, BookError> {
        let mut state = self.state.lock().await;
        if state.configured.contains_key(name) {
            return Err(BookError::Configured(name.to_owned()));
        }
        let mut next = State {
            volumes: state.volumes.clone(),
            configured: state.configured.clone(),
            files: state.files.clone(),
            added: state.added.clone(),
        };
        let before = match added {
            Some(added) => next.added.insert(name.to_owned(), added),
            None => next.added.remove(name),
        };
        if next.added == state.added {
            return Ok(before.is_some());
        }
        self.check(&next)?;
        if let Some(file) = &self.kept {
            let written = config::write_kept(file, &next.added).await;
            written.map_err(|error| BookError::Write {
                file: file.display().to_string(),
                error,
            })?;
        }
        self.apply(&state, &next)?;
        *state = next;
        Ok(before.is_some())
    }

    /// What could go wrong is found before anything is changed.
    fn check(&self, next: &State) -> Result<(), BookError> {
        let all = next.all();
        if all.len() > CAMERAS_MAX {
            return Err(BookError::Full(all.len()));
        }
        for (name, camera) in all {
            if let Some(problem) = config::name_problem(name) {
                return Err(BookError::Described(problem));
            }
            // Of the server as it began; another silence waits for a restart.
            if let Some(problem) = camera.delivery_problem(self.first.ingest.silence) {
                return Err(BookError::Described(format!("camera {name:?}: {problem}")));
            }
            let Some(record) = &camera.record else {
                continue;
            };
            let volume = &record.get_ref().volume;
            if !next.volumes.contains_key(volume) || !self.recordings.has_volume(volume) {
                return Err(BookError::Volume {
                    camera: name.to_owned(),
                    volume: volume.clone(),
                });
            }
        }
        Ok(())
    }

    fn apply(&self, before: &State, next: &State) -> Result<Changes, BookError> {
        let (were, are) = (before.all(), next.all());
        let mut changes = Changes::default();
        for name in were.keys().filter(|name| !are.contains_key(*name)) {
            self.recordings.forget(name);
            self.cameras.remove(name);
            changes.removed.push((*name).to_owned());
        }
        for (name, camera) in are {
            match were.get(name) {
                None => {
                    self.add(name, camera, next)?;
                    changes.added.push(name.to_owned());
                }
                Some(was) => {
                    self.change(name, was, camera, next)?;
                    if *was != camera {
                        changes.changed.push(name.to_owned());
                    }
                }
            }
        }
        Ok(changes)
    }

    fn add(&self, name: &str, camera: &Camera, next: &State) -> Result<(), BookError> {
        let added = self.cameras.add(name, camera.clone());
        added.map_err(|error| BookError::Add {
            name: name.to_owned(),
            error,
        })?;
        self.record(name, camera, next)
    }

    fn change(
        &self,
        name: &str,
        was: &Camera,
        camera: &Camera,
        next: &State,
    ) -> Result<(), BookError> {
        if was.is_asked() != camera.is_asked() {
            // Who publishes is to go, with the camera that it published.
            self.recordings.forget(name);
            self.cameras.remove(name);
            return self.add(name, camera, next);
        }
        if !was.is_received_like(camera) {
            self.cameras.change(name, camera.clone());
        }
        let volume_of = |camera: &Camera| {
            let record = camera.record.as_ref();
            record.map(|record| record.get_ref().volume.clone())
        };
        if volume_of(was) != volume_of(camera) {
            self.recordings.forget(name);
            return self.record(name, camera, next);
        }
        if let Some((_, limits)) = next.limits(camera) {
            self.recordings.set_limits(name, limits);
        }
        Ok(())
    }

    fn record(&self, name: &str, camera: &Camera, next: &State) -> Result<(), BookError> {
        let Some((volume, limits)) = next.limits(camera) else {
            return Ok(());
        };
        let recorded = self
            .recordings
            .record(self.cameras.hub(), name, volume, limits);
        recorded.map_err(|error| BookError::Record {
            name: name.to_owned(),
            error,
        })
    }
}

impl State {
    /// The volume of a camera that is recorded, and what it may hold there.
    fn limits<'a>(
        &self,
        camera: &'a Camera,
    ) -> Option<(&'a str, crate::record::retention::CameraLimits)> {
        let record = camera.record.as_ref()?.get_ref();
        let volume = self.volumes.get(&record.volume)?;
        Some((&record.volume, record.limits(volume.get_ref())))
    }
}
