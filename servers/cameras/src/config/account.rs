//! Users with roles, for RTSP and HTTP alike.

use serde::{Deserialize, Serialize};

/// A user. The password itself stands nowhere.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// The name.
    pub name: String,
    /// The password's Argon2 hash, as `evenkeel-cameras hash-password` prints it.
    pub password_hash: String,
    /// For digest authentication in RTSP: MD5 of name, realm and password, as the same prints it.
    /// Without it, RTSP takes the password itself (basic authentication).
    pub digest: Option<String>,
    /// What the user may do.
    #[serde(default)]
    pub role: Role,
    /// With which cameras; with all, if none are given.
    #[serde(default)]
    pub cameras: Vec<String>,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without what passwords can be guessed from, which would end up in logs.
        f.debug_struct("Account")
            .field("name", &self.name)
            .field("role", &self.role)
            .field("cameras", &self.cameras)
            .finish_non_exhaustive()
    }
}

/// Whether a user may be called so: protocols put a colon behind it, or quotes around it.
pub fn is_user_name(name: &str) -> bool {
    !name.is_empty() && !name.contains([':', '"', '\\'])
}

impl Account {
    /// Whether the user may know of a camera.
    pub fn knows(&self, camera: &str) -> bool {
        self.cameras.is_empty() || self.cameras.iter().any(|name| name == camera)
    }
}

/// What a user may do. Each may do what the ones before it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// See cameras, live and recorded.
    #[default]
    Viewer,
    /// Take files away, and keep times from being deleted.
    Operator,
    /// Add and remove cameras, and have the configuration read again.
    Admin,
}
