//! Who may: basic authentication (RFC 7617) and digest authentication (RFC 2617 and RFC 7616).
//!
//! A server asks by challenges. A client answers the best one it understands: a digest by SHA-256,
//! one by MD5, and the password itself last.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use constant_time_eq::constant_time_eq;
use md5::Md5;
use sha2::{Digest, Sha256};

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// How a digest is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// Of RFC 2617.
    Md5,
    /// Of RFC 7616.
    Sha256,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
        }
    }

    fn digest(self, text: &str) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Self::Md5 => hex(&Md5::digest(text)),
            Self::Sha256 => hex(&Sha256::digest(text)),
        }
    }
}

/// What a server asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Challenge {
    /// The password itself.
    Basic {
        /// What it is for.
        realm: String,
    },
    /// A digest.
    Digest {
        /// How it is made.
        algorithm: Algorithm,
        /// What it is for.
        realm: String,
        /// What makes it good for once.
        nonce: String,
        /// To be sent back.
        opaque: Option<String>,
        /// Whether requests are counted (`qop=auth`).
        counts: bool,
    },
}

/// A challenge that is being answered, request after request.
#[derive(Clone, Debug)]
pub struct Answering {
    challenge: Challenge,
    requests: u32,
}

impl Answering {
    /// Answers the best of the challenges in a `WWW-Authenticate`; `None` if none is understood.
    pub fn best(header: &str) -> Option<Self> {
        let challenge = challenges(header).into_iter().max()?;
        Some(Self {
            challenge,
            requests: 0,
        })
    }

    /// Whether a refusal with this header means that only the nonce was too old.
    pub fn is_stale(header: &str) -> bool {
        let stale = |(_, parameters): (String, BTreeMap<String, String>)| {
            parameters
                .get("stale")
                .is_some_and(|stale| stale.eq_ignore_ascii_case("true"))
        };
        split(header).into_iter().any(stale)
    }

    /// The `Authorization` of a request. `cnonce` is random.
    pub fn authorization(
        &mut self,
        credentials: &Credentials,
        method: &str,
        uri: &str,
        cnonce: &str,
    ) -> String {
        self.requests += 1;
        let Credentials { user, password } = credentials;
        match &self.challenge {
            Challenge::Basic { .. } => {
                format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
            }
            Challenge::Digest {
                algorithm,
                realm,
                nonce,
                opaque,
                counts,
            } => {
                let count = format!("{:08x}", self.requests);
                let counted = counts.then_some((&*count, cnonce));
                let secret = algorithm.digest(&format!("{user}:{realm}:{password}"));
                let response = respond(*algorithm, &secret, nonce, counted, method, uri);
                let mut header = format!(
                    "Digest username={}, realm={}, nonce={}, uri={}, response=\"{response}\", \
                     algorithm={}",
                    quoted(user),
                    quoted(realm),
                    quoted(nonce),
                    quoted(uri),
                    algorithm.name(),
                );
                if let Some(opaque) = opaque {
                    header += &format!(", opaque={}", quoted(opaque));
                }
                if *counts {
                    header += &format!(", qop=auth, nc={count}, cnonce={}", quoted(cnonce));
                }
                header
            }
        }
    }
}

/// The digest that answers a challenge. `secret` is the digest of name, realm and password.
fn respond(
    algorithm: Algorithm,
    secret: &str,
    nonce: &str,
    counted: Option<(&str, &str)>,
    method: &str,
    uri: &str,
) -> String {
    let what = algorithm.digest(&format!("{method}:{uri}"));
    let middle = match counted {
        Some((count, cnonce)) => format!("{nonce}:{count}:{cnonce}:auth"),
        None => nonce.to_owned(),
    };
    algorithm.digest(&format!("{secret}:{middle}:{what}"))
}

/// Who knows the passwords of users.
pub trait Passwords {
    /// Whether it is this user's password.
    fn is_right(&self, user: &str, password: &str) -> bool;

    /// The digest of a user's name, realm and password, if it is known.
    fn digest(&self, user: &str, realm: &str, algorithm: Algorithm) -> Option<String>;
}

/// Passwords that are known themselves.
struct Plain<F>(F);

impl<F: Fn(&str) -> Option<String>> Passwords for Plain<F> {
    fn is_right(&self, user: &str, password: &str) -> bool {
        let known = (self.0)(user);
        // Compared in any case, so that the time does not say which users there are.
        same(known.as_deref().unwrap_or_default(), password) && known.is_some()
    }

    fn digest(&self, user: &str, realm: &str, algorithm: Algorithm) -> Option<String> {
        let password = (self.0)(user)?;
        Some(digest_of(algorithm, user, realm, &password))
    }
}

/// The digest of a user's name, realm and password, by which digests are answered.
pub fn digest_of(algorithm: Algorithm, user: &str, realm: &str, password: &str) -> String {
    algorithm.digest(&format!("{user}:{realm}:{password}"))
}

/// Checks the answers of clients to the challenges of one connection.
#[derive(Clone, Debug)]
pub struct Checking {
    realm: String,
    /// Good for one connection.
    nonce: String,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It brought nothing.
    Missing,
    /// What it brought is wrong.
    Wrong,
}

impl Checking {
    /// With a nonce of this connection, which nobody can guess.
    pub fn new(realm: &str, random: [u8; 16]) -> Self {
        Self {
            realm: realm.to_owned(),
            nonce: random.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// The challenge of those whose digests are not known: the password itself.
    pub fn basic_challenge(&self) -> String {
        format!("Basic realm={}", quoted(&self.realm))
    }

    /// The challenge, a header `WWW-Authenticate`.
    pub fn challenge(&self, algorithm: Algorithm) -> String {
        let (realm, nonce) = (quoted(&self.realm), quoted(&self.nonce));
        let name = algorithm.name();
        format!("Digest realm={realm}, nonce={nonce}, qop=\"auth\", algorithm={name}")
    }

    /// Whether an `Authorization` proves knowledge of the password that `password_of` knows for its
    /// user. Returns the user.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn check(
        &self,
        header: Option<&str>,
        method: &str,
        password_of: impl Fn(&str) -> Option<String>,
    ) -> Result<String, Refused> {
        self.check_by(header, method, &Plain(password_of))
    }

    /// The same by those who need not know the password itself.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn check_by(
        &self,
        header: Option<&str>,
        method: &str,
        passwords: &dyn Passwords,
    ) -> Result<String, Refused> {
        let header = header.ok_or(Refused::Missing)?;
        if let Some(basic) = strip_scheme(header, "Basic") {
            let (user, password) = pair(basic).ok_or(Refused::Wrong)?;
            let is_right = passwords.is_right(&user, &password);
            return is_right.then_some(user).ok_or(Refused::Wrong);
        }
        let parsed = split(header).into_iter().next();
        let (_, parameters) = parsed
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Digest"))
            .ok_or(Refused::Wrong)?;
        self.check_digest(&parameters, method, passwords)
    }

    fn check_digest(
        &self,
        parameters: &BTreeMap<String, String>,
        method: &str,
        passwords: &dyn Passwords,
    ) -> Result<String, Refused> {
        let get = |name: &str| parameters.get(name).map(String::as_str);
        let user = get("username").ok_or(Refused::Wrong)?;
        let uri = get("uri").ok_or(Refused::Wrong)?;
        let algorithm = algorithm(get("algorithm")).ok_or(Refused::Wrong)?;
        if get("nonce") != Some(&self.nonce) || get("realm") != Some(&self.realm) {
            return Err(Refused::Wrong);
        }
        let counted = match get("qop") {
            None => None,
            Some("auth") => get("nc").zip(get("cnonce")),
            Some(_) => return Err(Refused::Wrong),
        };
        let known = passwords.digest(user, &self.realm, algorithm);
        // Compared in any case, so that the time does not say which users there are.
        let secret = known.as_deref().unwrap_or_default();
        let right = respond(algorithm, secret, &self.nonce, counted, method, uri);
        let is_right = get("response").is_some_and(|response| same(&right, response));
        (is_right && known.is_some())
            .then(|| user.to_owned())
            .ok_or(Refused::Wrong)
    }
}

/// The user and the password that an `Authorization` bears, if it bears the password itself.
pub fn user_and_password(header: &str) -> Option<(String, String)> {
    pair(strip_scheme(header, "Basic")?)
}

fn pair(basic: &str) -> Option<(String, String)> {
    let decoded = STANDARD.decode(basic.trim()).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let (user, password) = decoded.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

fn same(one: &str, other: &str) -> bool {
    constant_time_eq(one.as_bytes(), other.as_bytes())
}

/// The challenges that are understood.
fn challenges(header: &str) -> Vec<Challenge> {
    let understood = |(scheme, mut parameters): (String, BTreeMap<String, String>)| {
        let realm = parameters.remove("realm")?;
        if scheme.eq_ignore_ascii_case("Basic") {
            return Some(Challenge::Basic { realm });
        }
        if !scheme.eq_ignore_ascii_case("Digest") {
            return None;
        }
        let qop = parameters.get("qop");
        let counts = qop.is_some_and(|qop| qop.split(',').any(|qop| qop.trim() == "auth"));
        if qop.is_some() && !counts {
            return None;
        }
        Some(Challenge::Digest {
            algorithm: algorithm(parameters.get("algorithm").map(String::as_str))?,
            realm,
            nonce: parameters.remove("nonce")?,
            opaque: parameters.remove("opaque"),
            counts,
        })
    };
    split(header).into_iter().filter_map(understood).collect()
}

fn algorithm(name: Option<&str>) -> Option<Algorithm> {
    match name {
        None => Some(Algorithm::Md5),
        Some(name) if name.eq_ignore_ascii_case("MD5") => Some(Algorithm::Md5),
        Some(name) if name.eq_ignore_ascii_case("SHA-256") => Some(Algorithm::Sha256),
        Some(_) => None,
    }
}

fn strip_scheme<'a>(header: &'a str, scheme: &str) -> Option<&'a str> {
    let (first, rest) = header.trim_start().split_once(' ')?;
    first.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// Schemes with their parameters, of which a header may have several behind commas.
fn split(header: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let mut found: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return found;
        }
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let after_space = after.trim_start();
        let Some(value) = after_space.strip_prefix('=') else {
            found.push((word.to_owned(), BTreeMap::new()));
            rest = after;
            if end == 0 {
                return found;
            }
            continue;
        };
        let (value, after) = value_of(value.trim_start());
        if let Some((_, parameters)) = found.last_mut() {
            parameters.insert(word.to_ascii_lowercase(), value);
        }
        rest = after;
    }
}

/// A value, in quotes or without.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, char)| char)),
            char => value.push(char),
        }
    }
    (value, "")
}

fn quoted(text: &str) -> String {
    // Line ends would end the header.
    let text = text.replace(['\r', '\n'], "");
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests;
