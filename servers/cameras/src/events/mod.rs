//! What happens to cameras and disks, told to the operator and to other programs.
//!
//! ```text
//!  statuses ──▶ Looks, each second ──▶ a queue for each webhook ──▶ POST, again if it fails
//!                                  └─▶ Log ──▶ lines of standard error
//! ```
//!
//! - [`looks`]: what has changed from one look to the next.
//! - [`log`]: lines for the operator.
//! - [`queue`]: what waits, and how long until the next attempt. No I/O.
//! - [`webhook`]: requests that are signed.

pub mod log;
pub mod looks;
pub mod queue;
pub mod webhook;

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use evenkeel::Class;
use evenkeel::task::AbortHandle;
use evenkeel::time::{Instant, sleep};
use serde::{Deserialize, Serialize};

use crate::cameras::Cameras;
use crate::record::Recordings;
use log::Log;
use looks::Looks;
use webhook::{Hook, Settings, WebhookError};

/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A camera's samples no longer come.
    CameraLost,
    /// They come, again or for the first time.
    CameraBack,
    /// Some of a camera was not recorded.
    Gap,
    /// A volume has an error; a disk that is full is one.
    VolumeFailed,
    /// It has none any more.
    VolumeBack,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When it was seen, in milliseconds since 1970.
    pub time_ms: u64,
    /// What it is.
    pub event: Kind,
    /// Which camera or volume it is of.
    pub name: String,
    /// More, for people: the error, or why something was not recorded.
    pub why: Option<String>,
    /// Groups of pictures that were not recorded.
    pub gops: Option<u64>,
}

/// The log and webhooks at work, which end when this is dropped. What waits then is lost.
#[derive(Debug)]
pub struct Events {
    hooks: Vec<Arc<Hook>>,
    tasks: Vec<AbortHandle>,
}

impl Events {
    /// Looks, and tells.
    ///
    /// # Errors
    ///
    /// What is wrong with the settings of a webhook.
    pub fn begin<'a>(
        settings: impl IntoIterator<Item = &'a Settings>,
        cameras: &Arc<Cameras>,
        recordings: &Arc<Recordings>,
    ) -> Result<Self, WebhookError> {
        let hooks: Result<Vec<_>, _> = settings.into_iter().map(Hook::new).collect();
        let hooks: Vec<Arc<Hook>> = hooks?.into_iter().map(Arc::new).collect();
        let mut tasks = Vec::new();
        for hook in &hooks {
            let tells = Arc::clone(hook).run();
            tasks.push(evenkeel::spawn_in(Class::BULK, tells).abort_handle());
        }
        let (cameras, recordings) = (Arc::downgrade(cameras), Arc::downgrade(recordings));
        let looks = look(cameras, recordings, hooks.clone());
        tasks.push(evenkeel::spawn(looks).abort_handle());
        Ok(Self { hooks, tasks })
    }

    /// What was told, and what was not.
    pub fn hooks(&self) -> &[Arc<Hook>] {
        &self.hooks
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

async fn look(cameras: Weak<Cameras>, recordings: Weak<Recordings>, hooks: Vec<Arc<Hook>>) {
    let (mut looks, mut log, began) = (Looks::default(), Log::default(), Instant::now());
    loop {
        sleep(LOOK_EVERY).await;
        let (Some(cameras), Some(recordings)) = (cameras.upgrade(), recordings.upgrade()) else {
            return;
        };
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now_ms = since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
        let status = cameras.status();
        // Disks first: they are why cameras are not recorded.
        let mut events = looks.volumes(now_ms, &recordings.volumes_status());
        events.extend(looks.cameras(now_ms, &status));
        events.extend(looks.recordings(now_ms, &recordings.cameras_status()));
        for line in log.lines(began.elapsed(), &events, &status) {
            eprintln!("evenkeel-cameras: {line}");
        }
        for event in events {
            hooks.iter().for_each(|hook| hook.add(&event));
        }
    }
}
