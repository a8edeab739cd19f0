//! What subscribers ask for and are told, and what rings keep for them.

use std::sync::Arc;
use std::time::Duration;

use crate::media::{Gop, Sample, Track};

/// What rings keep, and for how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one camera's ring. A group that alone has more is cut in two.
    pub camera_bytes_max: usize,
    /// Bytes of all rings. Where they have more, a camera that has more than its part drops its
    /// oldest groups.
    pub all_bytes_max: usize,
    /// How far a subscriber may be behind.
    pub lag_max: Duration,
    /// How long a group may last before it is cut in two.
    pub gop_time_max: Duration,
    /// Live subscribers of all cameras together.
    pub subscribers_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            camera_bytes_max: 32 << 20,
            all_bytes_max: 1 << 30,
            lag_max: Duration::from_secs(10),
            gop_time_max: Duration::from_secs(30),
            subscribers_max: 4_096,
        }
    }
}

/// Where a subscription begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// At the next key frame.
    Live,
    /// At the newest key frame that is kept, so that a picture comes at once.
    NewestKey,
}

/// What a subscriber takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    Samples(From),
    Gops,
}

/// What a subscriber is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The next sample.
    Sample(Sample),
    /// The next complete group, for those who take groups.
    Gop(Arc<Gop>),
    /// It was too slow: groups, or what was left of the one it was in, are lost for it. What
    /// follows begins with a key frame.
    Lagged {
        /// How many groups it missed at least a part of.
        gops: u64,
    },
    /// How the samples that follow are encoded. Comes before the first one, at each change, and at
    /// the beginning of each session.
    Parameters {
        /// The tracks.
        tracks: Arc<[Track]>,
        /// The generation of the groups that follow.
        generation: u64,
    },
    /// The session has ended. The next one begins with `Parameters`.
    Ended,
    /// The camera was removed. Nothing more will come.
    Removed,
}
