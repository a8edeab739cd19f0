//! What a camera's task does, for operators.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::IngestError;
use super::feed::Counts;

/// What it is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Waits until fewer cameras are being connected to.
    #[default]
    Waiting,
    /// Connects, and asks for the streams.
    Connecting,
    /// Receives.
    Receiving,
    /// Pauses after a failure.
    Pausing,
    /// The camera has to publish by itself, and does not.
    Expecting,
}

impl State {
    /// Its name, which is also that in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Connecting => "connecting",
            Self::Receiving => "receiving",
            Self::Pausing => "pausing",
            Self::Expecting => "expecting",
        }
    }
}

/// What can be said of a camera.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Watched {
    /// What it is at.
    pub state: State,
    /// When that began, in milliseconds since 1970.
    pub since_ms: u64,
    /// Why the last session ended.
    pub last_error: Option<String>,
    /// Sessions that failed, or ended.
    pub failures: u64,
    /// Packets, of all sessions.
    pub packets: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// Packets that came twice or too late.
    pub late: u64,
    /// Pictures and packets of sound that a loss took with it.
    pub dropped: u64,
    /// Packets that could not be read.
    pub malformed: u64,
}

/// The status of one camera. Its task writes it, and anybody reads it.
#[derive(Debug, Default)]
pub struct Status {
    state: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    watched: Watched,
    /// What the session that is under way has counted.
    session: Counts,
    /// A packet came in it.
    was_good: bool,
    /// A publisher has it.
    is_claimed: bool,
}

/// What the one publisher of a camera has: others do not change its status meanwhile. The camera is
/// expected again when this is dropped.
#[derive(Debug)]
pub struct Claim {
    status: Arc<Status>,
}

impl Claim {
    /// The status that was claimed.
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.status.set(State::Expecting);
        self.status.kept().is_claimed = false;
    }
}

impl Status {
    /// Of a camera that has just been added.
    pub fn new(state: State) -> Arc<Self> {
        let status = Self::default();
        status.set(state);
        Arc::new(status)
    }

    /// For a publisher that begins; `None` if there is one.
    pub fn claim(self: &Arc<Self>) -> Option<Claim> {
        let was_claimed = std::mem::replace(&mut self.kept().is_claimed, true);
        if was_claimed {
            return None;
        }
        self.set(State::Receiving);
        let status = Arc::clone(self);
        Some(Claim { status })
    }

    /// It is at something else.
    pub fn set(&self, state: State) {
        let mut kept = self.kept();
        if kept.watched.state != state || kept.watched.since_ms == 0 {
            kept.watched.state = state;
            kept.watched.since_ms = now_ms();
        }
        kept.was_good |= state == State::Receiving;
    }

    /// What the session that is under way has counted until now.
    pub fn count(&self, counts: Counts) {
        self.kept().session = counts;
    }

    /// The session is over. Whether anything came in it.
    pub fn ended(&self, outcome: &Result<(), IngestError>) -> bool {
        let mut kept = self.kept();
        let counts = std::mem::take(&mut kept.session);
        add(&mut kept.watched, counts);
        kept.watched.failures += 1;
        kept.watched.last_error = outcome.as_ref().err().map(ToString::to_string);
        std::mem::take(&mut kept.was_good)
    }

    /// What can be said now.
    pub fn watched(&self) -> Watched {
        let kept = self.kept();
        let mut watched = kept.watched.clone();
        add(&mut watched, kept.session);
        watched
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Numbers and texts, which no panic can leave half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(watched: &mut Watched, counts: Counts) {
    watched.packets += counts.packets;
    watched.lost += counts.lost;
    watched.late += counts.late;
    watched.dropped += counts.dropped;
    watched.malformed += counts.malformed;
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(1, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::State;

    #[test]
    fn a_state_has_one_name() {
        for state in [
            State::Waiting,
            State::Connecting,
            State::Receiving,
            State::Pausing,
            State::Expecting,
        ] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }
}
