//! Takes the streams of cameras: a task for each, which connects, receives, and connects again.
//!
//! ```text
//!  pause, at random ──▶ permit ──▶ connect, ask ──▶ receive ──┐
//!        ▲                │ of connects_max                   │ end, error or silence
//!        └────────────────┴───────────────────────────────────┘
//! ```
//!
//! When a switch or a server comes back, hundreds of cameras do not come back at the same moment:
//! pauses are drawn at random, and only so many are connected to at a time.
//!
//! - [`backoff`]: how long a pause is.
//! - [`session`]: one connection to a camera; `talk`: what is asked and answered on it.
//! - [`feed`]: from packets to the hub; publishers have one too.
//!   `waste`: what of it is copied, so that nothing beside it is kept.
//! - [`datagrams`]: the sockets of a camera that sends by UDP.
//! - [`status`]: what a camera's task does.

pub mod backoff;
pub mod datagrams;
pub mod error;
pub mod feed;
pub mod session;
pub mod status;
mod talk;
mod waste;

pub use error::IngestError;
pub use feed::Feed;
pub use status::{Claim, State, Status, Watched};

use std::sync::Arc;

use evenkeel::time::sleep;
use tokio::sync::Semaphore;

use crate::config::{self, Camera};
use crate::hub::Hub;
use backoff::Backoff;

/// What the tasks of all cameras share.
#[derive(Debug)]
pub struct Ingest {
    hub: Arc<Hub>,
    settings: config::Ingest,
    connects: Arc<Semaphore>,
}

impl Ingest {
    /// For the cameras of this hub.
    pub fn new(hub: &Arc<Hub>, settings: config::Ingest) -> Arc<Self> {
        Arc::new(Self {
            hub: Arc::clone(hub),
            connects: Arc::new(Semaphore::new(settings.connects_max)),
            settings,
        })
    }

    /// Receives a camera until the task is ended or the camera is removed from the hub.
    pub async fn run(self: Arc<Self>, name: String, camera: Camera, status: Arc<Status>) {
        let settings = &self.settings;
        let mut backoff = Backoff::new(settings.retry_first, settings.retry_max);
        // Not all at once at the beginning either.
        sleep(backoff.spread(random())).await;
        loop {
            status.set(State::Waiting);
            let permits = Arc::clone(&self.connects);
            let Ok(permit) = permits.acquire_owned().await else {
                return;
            };
            status.set(State::Connecting);
            let session = session::Session {
                hub: &self.hub,
                settings,
                name: &name,
                camera: &camera,
                status: &status,
            };
            let outcome = session.run(permit).await;
            if self.hub.status_of(&name).is_none() {
                return;
            }
            let was_good = status.ended(&outcome);
            if was_good {
                backoff.succeeded();
            }
            let pause = backoff.next(random());
            status.set(State::Pausing);
            sleep(pause).await;
        }
    }
}

/// Random bits, which nobody has to be unable to guess.
pub(crate) fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without a source of randomness pauses are of one length, which is no harm.
    let _ = getrandom::fill(&mut bytes);
    u32::from_ne_bytes(bytes)
}
