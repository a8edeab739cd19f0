//! What a server asks the program, and what it tells it to do.

use std::sync::Arc;

use constant_time_eq::constant_time_eq;
use sha2::{Digest, Sha256};

use crate::media::Track;
use crate::rtsp::auth::{Algorithm, Passwords, digest_of};
use crate::rtsp::sdp::Offer;

/// What a client wants to do with a camera.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// To watch it.
    View,
    /// To be it.
    Publish,
}

/// What a camera has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is none of this name.
    Unknown,
    /// It is there, and has no session now.
    Silent,
    /// Its tracks.
    Tracks(Arc<[Track]>),
}

/// What the server knows.
pub trait Directory {
    /// Whether anybody may do everything, so that nobody is asked who they are.
    fn is_open(&self) -> bool;
    /// The password of a user.
    fn password(&self, user: &str) -> Option<String>;
    /// Whether it is this user's password.
    fn is_right(&self, user: &str, password: &str) -> bool {
        self.password(user)
            .is_some_and(|known| constant_time_eq(known.as_bytes(), password.as_bytes()))
    }
    /// The digest of a user's name, realm and password, if it is known.
    fn digest(&self, user: &str, realm: &str, algorithm: Algorithm) -> Option<String> {
        let password = self.password(user)?;
        Some(digest_of(algorithm, user, realm, &password))
    }
    /// Whether the digests of all users are known.
    fn knows_digests(&self) -> bool {
        true
    }
    /// What changes when a user has another password, and says nothing about it; `None` if there is
    /// no such user.
    fn mark(&self, user: &str) -> Option<[u8; 32]> {
        self.password(user).map(|password| mark_of(&password))
    }
    /// Whether a user may.
    fn may(&self, user: &str, camera: &str, what: Permission) -> bool;
    /// What a camera has to show.
    fn find(&self, camera: &str) -> Found;
    /// The ports that datagrams come from, of packets and of reports, if there may be some.
    fn datagrams(&self) -> Option<(u16, u16)> {
        None
    }
    /// Whether the camera is one that publishes by itself.
    fn takes_publishers(&self, camera: &str) -> bool;
}

/// What a secret is told from others by, by whoever has no need to know it.
pub(crate) fn mark_of(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// A directory, for those who check answers to challenges.
pub(super) struct By<'a>(pub(super) &'a dyn Directory);

impl Passwords for By<'_> {
    fn is_right(&self, user: &str, password: &str) -> bool {
        self.0.is_right(user, password)
    }

    fn digest(&self, user: &str, realm: &str, algorithm: Algorithm) -> Option<String> {
        self.0.digest(user, realm, algorithm)
    }
}

/// A track that a client has set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetUp {
    /// Its number.
    pub track: u8,
    /// Its channels: of packets, and of reports.
    pub channels: (u8, u8),
    /// The client's ports for the same, if they are datagrams instead.
    pub ports: Option<(u16, u16)>,
    /// The port at which datagrams of a publisher come in.
    pub receives: Option<u16>,
}

/// What to do after the reply has been sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    None,
    /// Send these tracks of this camera.
    Play {
        /// The camera.
        camera: String,
        /// Its tracks, as they were described.
        tracks: Arc<[Track]>,
        /// Those that are wanted.
        set_up: Vec<SetUp>,
    },
    /// Send nothing until the next [`Play`](Self::Play).
    Pause,
    /// Take these streams for this camera.
    Record {
        /// The camera.
        camera: String,
        /// What was announced.
        offers: Vec<Offer>,
        /// Those that come.
        set_up: Vec<SetUp>,
    },
    /// End the connection.
    End,
}

/// A reply, and what to do then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The bytes to send.
    pub bytes: Vec<u8>,
    /// What to do then.
    pub action: Action,
}
