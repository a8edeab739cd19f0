//! Who may do what.
//!
//! Without tokens, whoever can connect may do everything, so only addresses of this machine can be
//! listened on. Requests then have to name one in `Host`: a browser that was lured to it under
//! somebody else's name does not. With tokens, a request carries one as `Authorization: Bearer`, as
//! the password of `Authorization: Basic`, for players, or in the cookie that `POST /api/login`
//! sets, for browsers. Pages of others can neither change anything nor open a WebSocket.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use constant_time_eq::constant_time_eq;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::settings::{Permission, Token};
use crate::config::{Account, Role};
use crate::users::Users;

/// The cookie in which browsers carry a token.
pub const COOKIE_NAME: &str = "evenkeel-cameras";
/// By it, browsers say whether a page of the same server asks.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Secrets that are longer are none of ours, and are not digested.
const SECRET_BYTES_MAX: usize = 512;

/// What is wrong with a token in the settings.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the sha256 of token {0:?} is not 64 hexadecimal digits; print it by `printf %s SECRET | \
         sha256sum`"
)]
pub struct TokenError(pub String);

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub StatusCode, pub &'static str);

/// What a request may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    permissions: Vec<Permission>,
    /// All, if there are none.
    cameras: Vec<String>,
}

impl Rights {
    fn all() -> Self {
        Self {
            permissions: vec![Permission::Watch, Permission::Export, Permission::Manage],
            cameras: Vec::new(),
        }
    }

    /// Those of a user.
    pub fn of(account: &Account) -> Self {
        let mut permissions = vec![Permission::Watch];
        if account.role >= Role::Operator {
            permissions.push(Permission::Export);
        }
        if account.role >= Role::Admin {
            permissions.push(Permission::Manage);
        }
        Self {
            permissions,
            cameras: account.cameras.clone(),
        }
    }

    /// Whether it may do this with a camera.
    pub fn allow(&self, permission: Permission, camera: &str) -> bool {
        self.permissions.contains(&permission) && self.know(camera)
    }

    /// Whether it may know of a camera.
    pub fn know(&self, camera: &str) -> bool {
        self.cameras.is_empty() || self.cameras.iter().any(|name| name == camera)
    }
}

/// Tokens, by their digests. A clone has the same ones, also when they change.
#[derive(Clone, Debug)]
pub struct Access {
    tokens: Arc<Mutex<Arc<Tokens>>>,
    users: Arc<Users>,
    changed: Arc<watch::Sender<()>>,
}

type Tokens = [([u8; 32], Rights)];

impl Access {
    /// Reads the tokens.
    ///
    /// # Errors
    ///
    /// A digest is none.
    pub fn new(tokens: &[Token]) -> Result<Self, TokenError> {
        let read = |token: &Token| {
            let digest = digest(&token.sha256).ok_or_else(|| TokenError(token.name.clone()))?;
            let rights = Rights {
                permissions: token.permissions.clone(),
                cameras: token.cameras.clone(),
            };
            Ok((digest, rights))
        };
        let tokens = tokens.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self {
            tokens: Arc::new(Mutex::new(tokens)),
            users: Arc::new(Users::new(&[])),
            changed: Arc::new(watch::Sender::new(())),
        })
    }

    /// The same with these users.
    pub fn with_users(self, accounts: &[Account]) -> Self {
        let users = Arc::new(Users::new(accounts));
        Self { users, ..self }
    }

    /// The users.
    pub fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// Goes by the tokens of another one from now on.
    pub fn become_like(&self, other: &Self) {
        self.users.become_like(&other.users);
        let other = other.tokens();
        // A whole list is put in the place of another.
        *self.tokens.lock().unwrap_or_else(PoisonError::into_inner) = other;
        self.changed.send_replace(());
    }

    /// Tells of changes from now on.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn tokens(&self) -> Arc<Tokens> {
        Arc::clone(&self.tokens.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a token or a user is needed.
    pub fn needs_token(&self) -> bool {
        !self.tokens().is_empty() || !self.users.is_empty()
    }

    /// What a request may do. What is open to everybody is for the caller to know.
    ///
    /// # Errors
    ///
    /// It may do nothing.
    pub fn rights(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Rights, Refusal> {
        self.check_origin(method, uri, headers)?;
        if !self.needs_token() {
            return Ok(Rights::all());
        }
        let needed = Refusal(
            StatusCode::UNAUTHORIZED,
            "a token or a user is needed: send a token as `Authorization: Bearer TOKEN`, or as the \
             password of a user of any name; a user's name and password as `Authorization: Basic`",
        );
        let secret = secret(headers).ok_or(needed)?;
        self.of(&secret).ok_or(needed)
    }

    /// What a secret allows.
    pub fn of(&self, secret: &[u8]) -> Option<Rights> {
        if secret.len() > SECRET_BYTES_MAX {
            return None;
        }
        let digest: [u8; 32] = Sha256::digest(secret).into();
        let tokens = self.tokens();
        let found = tokens
            .iter()
            .find(|(known, _)| constant_time_eq(known, &digest));
        let by_token = found.map(|(_, rights)| rights.clone());
        by_token.or_else(|| self.users.session(secret).map(|it| Rights::of(&it)))
    }

    /// Whether no page of another server asks.
    ///
    /// # Errors
    ///
    /// One does.
    pub fn check_origin(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        if headers.get_all(HOST).iter().count() > 1 {
            let why = "the request names more than one host";
            return Err(Refusal(StatusCode::BAD_REQUEST, why));
        }
        let host = host(uri, headers);
        if !self.needs_token() && !host.is_some_and(is_loopback) {
            return Err(Refusal(
                StatusCode::FORBIDDEN,
                "the request names another host than this machine's 127.0.0.1, [::1] or localhost",
            ));
        }
        let is_elsewhere = |site: &str| !matches!(site, "same-origin" | "none");
        let changes = !matches!(*method, Method::GET | Method::HEAD);
        let is_socket = headers.contains_key(axum::http::header::UPGRADE);
        // A page elsewhere may link to this one, which is a request for no data.
        let asks = changes || is_socket || uri.path().starts_with("/api/");
        if asks && text(headers, &FETCH_SITE).is_some_and(is_elsewhere) {
            return Err(Refusal(
                StatusCode::FORBIDDEN,
                "the request comes from a page of another server",
            ));
        }
        let is_foreign = |origin: &str| {
            let named = origin.split_once("://").map(|(_, named)| named);
            named != host
        };
        // One that is no text is nobody's that is known.
        let is_foreign = |value: &HeaderValue| value.to_str().map_or(true, is_foreign);
        if (changes || is_socket) && headers.get_all(ORIGIN).iter().any(is_foreign) {
            return Err(Refusal(
                StatusCode::FORBIDDEN,
                "the request comes from a page of another server",
            ));
        }
        Ok(())
    }
}

fn digest(hex: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (place, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(digest)
}

/// The user and the password that a request carries.
pub fn user_and_password(headers: &HeaderMap) -> Option<(String, String)> {
    let (scheme, given) = text(headers, &AUTHORIZATION)?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") || given.len() > 4 * SECRET_BYTES_MAX {
        return None;
    }
    let pair = BASE64_STANDARD.decode(given.trim()).ok()?;
    let pair = String::from_utf8(pair).ok()?;
    let (user, password) = pair.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// The secret that a request carries.
pub fn secret(headers: &HeaderMap) -> Option<Vec<u8>> {
    if let Some(value) = text(headers, &AUTHORIZATION) {
        let (scheme, given) = value.split_once(' ')?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return Some(given.trim().into());
        }
        if scheme.eq_ignore_ascii_case("basic") && given.len() <= 4 * SECRET_BYTES_MAX {
            let pair = BASE64_STANDARD.decode(given.trim()).ok()?;
            let colon = pair.iter().position(|&byte| byte == b':')?;
            return Some(pair[colon + 1..].to_vec());
        }
        return None;
    }
    let cookies = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    cookies.flat_map(|value| value.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE_NAME).then(|| value.as_bytes().to_vec())
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// With HTTP/2 the host is in the address.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let authority = uri.authority().map(axum::http::uri::Authority::as_str);
    authority.or_else(|| text(headers, &HOST))
}

fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |address: std::net::IpAddr| address.to_canonical().is_loopback();
    name.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests;
