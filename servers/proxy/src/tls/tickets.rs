//! Tickets by which clients resume their sessions, and the keys that seal them.
//!
//! ```text
//!  ticket = name of the key (16) | nonce (12) | state, sealed by ChaCha20-Poly1305 with its tag
//! ```
//!
//! A key seals for [`LIFE`], and opens for as long again. A process that takes over gets the keys,
//! so that clients do not all shake hands anew with it. From then on each process has keys of its
//! own when theirs change.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel::time::Instant;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;
use serde::{Deserialize, Serialize};

/// How long a key seals tickets.
const LIFE: Duration = Duration::from_secs(6 * 3_600);

const NAME_LEN: usize = 16;
const SECRET_LEN: usize = 32;

/// A key. Who has it can read what was said in sessions of TLS 1.2 that its tickets resume.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    name: [u8; NAME_LEN],
    secret: [u8; SECRET_LEN],
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// The keys of a listener, as they pass on to another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketKeys {
    /// By what sessions are resumed: those of a listener that lets others in are not taken.
    pub(super) of: u64,
    current: Key,
    before: Option<Key>,
    /// How long the current one still seals.
    left_ms: u64,
}

/// What makes tickets and reads them.
#[derive(Debug)]
pub(super) struct Tickets {
    state: Mutex<State>,
    random: SystemRandom,
}

#[derive(Debug)]
struct State {
    current: Key,
    before: Option<Key>,
    until: Instant,
}

impl Tickets {
    /// With a key that is new; nothing, if there is no randomness.
    pub(super) fn new() -> Option<Self> {
        let random = SystemRandom::new();
        let state = State {
            current: fresh(&random)?,
            before: None,
            until: Instant::now() + LIFE,
        };
        Some(Self {
            state: Mutex::new(state),
            random,
        })
    }

    /// The keys, for another process.
    pub(super) fn keys(&self, of: u64) -> TicketKeys {
        let now = Instant::now();
        let state = self.state(now);
        let left = state.until.saturating_duration_since(now).as_millis();
        TicketKeys {
            of,
            current: state.current.clone(),
            before: state.before.clone(),
            left_ms: u64::try_from(left).unwrap_or(u64::MAX),
        }
    }

    /// Goes on with these keys.
    pub(super) fn restore(&self, keys: &TicketKeys) {
        let now = Instant::now();
        *self.state(now) = State {
            current: keys.current.clone(),
            before: keys.before.clone(),
            until: now + Duration::from_millis(keys.left_ms).min(LIFE),
        };
    }

    /// The state as it is now.
    fn state(&self, now: Instant) -> MutexGuard<'_, State> {
        // Each change is made whole.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.turn(now, || fresh(&self.random));
        state
    }
}

impl State {
    /// Changes the keys, if it is time. Without randomness the key goes on.
    fn turn(&mut self, now: Instant, fresh: impl FnOnce() -> Option<Key>) {
        if now < self.until {
            return;
        }
        let Some(new) = fresh() else { return };
        let is_stale = now >= self.until + LIFE;
        let old = std::mem::replace(&mut self.current, new);
        self.before = (!is_stale).then_some(old);
        self.until = now + LIFE;
    }

    /// The key with this name.
    fn named(&self, name: &[u8]) -> Option<&Key> {
        let keys = [Some(&self.current), self.before.as_ref()];
        keys.into_iter().flatten().find(|key| key.name == name)
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        // As long as a key may open what it has sealed.
        u32::try_from(2 * LIFE.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let key = self.state(Instant::now()).current.clone();
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).ok()?;
        let mut ticket = [&key.name[..], &nonce].concat();
        let mut sealed = plain.to_vec();
        let (name, nonce) = (Aad::from(key.name), Nonce::assume_unique_for_key(nonce));
        cipher(&key)?
            .seal_in_place_append_tag(nonce, name, &mut sealed)
            .ok()?;
        ticket.append(&mut sealed);
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME_LEN)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let key = self.state(Instant::now()).named(name)?.clone();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut opened = sealed.to_vec();
        let length = cipher(&key)?
            .open_in_place(nonce, Aad::from(key.name), &mut opened)
            .ok()?
            .len();
        opened.truncate(length);
        Some(opened)
    }
}

fn cipher(key: &Key) -> Option<LessSafeKey> {
    let key = UnboundKey::new(&CHACHA20_POLY1305, &key.secret).ok()?;
    Some(LessSafeKey::new(key))
}

fn fresh(random: &SystemRandom) -> Option<Key> {
    let mut key = Key {
        name: [0; NAME_LEN],
        secret: [0; SECRET_LEN],
    };
    random.fill(&mut key.name).ok()?;
    random.fill(&mut key.secret).ok()?;
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_read_by_who_has_the_keys_and_by_nobody_else() {
        let (one, other) = (Tickets::new().unwrap(), Tickets::new().unwrap());
        let ticket = one.encrypt(b"session").unwrap();
        assert_eq!(one.decrypt(&ticket).unwrap(), b"session");
        assert_eq!(other.decrypt(&ticket), None);
        let passed = serde_json::to_string(&one.keys(7)).unwrap();
        other.restore(&serde_json::from_str(&passed).unwrap());
        assert_eq!(other.decrypt(&ticket).unwrap(), b"session");
        let back = other.encrypt(b"new").unwrap();
        assert_eq!(one.decrypt(&back).unwrap(), b"new");
        for at in [0, NAME_LEN, NAME_LEN + NONCE_LEN, ticket.len() - 1] {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(one.decrypt(&changed), None, "{at}");
            assert_eq!(one.decrypt(&ticket[..at]), None, "{at}");
        }
        assert_ne!(ticket, one.encrypt(b"session").unwrap());
        assert!(!format!("{one:?}").contains("secret"));
    }

    #[test]
    fn keys_change_and_open_for_as_long_as_they_sealed() {
        let start = Instant::now();
        let key = |byte: u8| Key {
            name: [byte; NAME_LEN],
            secret: [byte; SECRET_LEN],
        };
        let mut state = State {
            current: key(1),
            before: None,
            until: start + LIFE,
        };
        let knows = |state: &State, byte: u8| state.named(&[byte; NAME_LEN]).is_some();
        state.turn(start + LIFE - Duration::from_millis(1), || Some(key(2)));
        assert_eq!(state.current, key(1), "not yet");
        state.turn(start + LIFE, || None);
        assert_eq!(state.current, key(1), "without randomness it goes on");
        state.turn(start + LIFE, || Some(key(2)));
        assert!(state.current == key(2) && knows(&state, 1));
        state.turn(start + 2 * LIFE, || Some(key(3)));
        assert!(knows(&state, 3) && knows(&state, 2) && !knows(&state, 1));
        // Nobody came for long.
        state.turn(start + 9 * LIFE, || Some(key(4)));
        assert!(knows(&state, 4) && !knows(&state, 3));
    }
}
