//! Whether somebody who was let in may go on with what lasts: live pictures over a WebSocket or by
//! WebRTC. Each short request is checked by itself.

use std::time::Duration;

use axum::http::HeaderMap;
use evenkeel::time::timeout;

use super::access::{Access, Rights, secret};
use super::settings::Permission;
use crate::config::Account;

/// How often it is looked at, besides when users and tokens change: sessions end by the clock, and
/// when their user logs out.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// By what a request was let in.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    access: Access,
    by: By,
}

#[derive(Clone)]
enum By {
    /// There were neither tokens nor users.
    Nothing,
    /// A token, or the secret of a session.
    Secret(Vec<u8>),
    /// A user's password, of which this is the hash.
    Password { user: String, hash: String },
}

impl std::fmt::Debug for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Secret(_) => "Secret",
            Self::Password { .. } => "Password",
        })
    }
}

impl Standing {
    /// Of a request with a token or a session, if one is needed.
    pub(super) fn of_request(access: &Access, headers: &HeaderMap) -> Self {
        let needed = access.needs_token();
        let secret = secret(headers).filter(|_| needed);
        Self {
            access: access.clone(),
            by: secret.map_or(By::Nothing, By::Secret),
        }
    }

    /// Of a request with a user's password, which was right.
    pub(super) fn of_user(access: &Access, account: &Account) -> Self {
        Self {
            access: access.clone(),
            by: By::Password {
                user: account.name.clone(),
                hash: account.password_hash.clone(),
            },
        }
    }

    /// Whether it may watch this camera now.
    pub(super) fn may_watch(&self, camera: &str) -> bool {
        let rights = match &self.by {
            By::Nothing => return !self.access.needs_token(),
            By::Secret(secret) => self.access.of(secret),
            By::Password { user, hash } => {
                let account = self.access.users().account(user);
                let is_same = |account: &Account| account.password_hash == *hash;
                account.filter(is_same).map(|it| Rights::of(&it))
            }
        };
        rights.is_some_and(|rights| rights.allow(Permission::Watch, camera))
    }

    /// Waits until it may not.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn lost(self, camera: String) {
        let mut changed = self.access.changes();
        while self.may_watch(&camera) {
            // Whichever comes first; there is nothing to tell apart.
            _ = timeout(LOOK_EVERY, changed.changed()).await;
        }
    }
}
