//! Users, by their passwords or by sessions.
//!
//! A password is compared by Argon2, which costs tens of milliseconds and much memory on purpose.
//! Only so many are compared at a time, in the class for bulk work; others wait in their order, so
//! that somebody who tries many passwords makes others wait, and does not keep them out. One that
//! was right is remembered for a while, by a quick digest with a key of this process, so that a
//! player that sends it with each request costs no more than its first one. A session is a secret
//! that a browser gets for a password. Both end when the user is removed or has another password.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use evenkeel::Class;
use evenkeel::time::{Instant, timeout};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Account;

/// Passwords that are compared at a time. Each needs memory, 19 MiB as hashes are made here.
pub const CHECKS_MAX: usize = 4;
/// Those that wait for their turn. More are sent away.
pub const WAITING_MAX: usize = 512;
/// How long one waits for its turn: less than an answer over HTTP may take.
const TURN_MAX: Duration = Duration::from_secs(5);
/// Sessions and remembered passwords of all users. A new one takes the place of the oldest.
pub const SESSIONS_MAX: usize = 4_096;
/// The same of one user, so that nobody pushes out the others'.
pub const SESSIONS_OF_USER_MAX: usize = 64;
/// How long a session lasts.
pub const SESSION_TIME: Duration = Duration::from_secs(12 * 3_600);
/// A longer password is none of ours.
pub(crate) const PASSWORD_BYTES_MAX: usize = 512;

/// Why nobody is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// There is no such user, or it is not the password.
    #[error("there is no such user, or this is not the password")]
    Wrong,
    /// Too many passwords are being compared.
    #[error("too many passwords wait for being compared; try again")]
    Busy,
    /// The system has no random numbers.
    #[error("the system gives no random numbers; look at its logs")]
    NoRandom,
}

/// A hash of a password, for the configuration.
///
/// # Errors
///
/// The system has no random numbers, for example.
pub fn hash(password: &str) -> Result<String, argon2::password_hash::Error> {
    let hash = Argon2::default().hash_password(password.as_bytes())?;
    Ok(hash.to_string())
}

/// Whether a text is a hash that passwords can be compared with.
pub fn is_hash(text: &str) -> bool {
    PasswordHash::new(text).is_ok_and(|hash| hash.algorithm.as_str().starts_with("argon2"))
}

/// All users.
pub struct Users {
    accounts: Mutex<Arc<Accounts>>,
    sessions: Mutex<Sessions>,
    turns: Turns,
    /// Makes what is remembered useless to others; `None` without random numbers.
    key: Option<[u8; 32]>,
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither the key nor what passwords can be guessed from.
        f.debug_struct("Users").finish_non_exhaustive()
    }
}

type Accounts = BTreeMap<String, Account>;
type Key = [u8; 32];

impl Users {
    /// These users, and no session.
    pub fn new(accounts: &[Account]) -> Self {
        let mut key = [0; 32];
        let is_random = getrandom::fill(&mut key).is_ok();
        Self {
            accounts: Mutex::new(by_name(accounts)),
            sessions: Mutex::default(),
            turns: Turns::new(),
            key: is_random.then_some(key),
        }
    }

    /// Goes by the users of another one from now on. Sessions of those who are the same stay.
    pub fn become_like(&self, other: &Self) {
        let other = other.accounts();
        *self.accounts.lock().unwrap_or_else(PoisonError::into_inner) = other;
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.accounts().is_empty()
    }

    /// Whether all can be asked for digests.
    pub fn have_digests(&self) -> bool {
        self.accounts().values().all(|it| it.digest.is_some())
    }

    /// A user of this name.
    pub fn account(&self, user: &str) -> Option<Account> {
        self.accounts().get(user).cloned()
    }

    /// The user of a password that was found right before.
    pub fn remembered(&self, user: &str, password: &str) -> Option<Account> {
        let key = self.quick(user, password)?;
        self.find(&key)
    }

    /// The user of a password. Comparing it takes long, and is done in a task of the class for bulk
    /// work.
    ///
    /// # Errors
    ///
    /// [`LoginError`].
    pub async fn check(
        self: &Arc<Self>,
        user: &str,
        password: &str,
    ) -> Result<Account, LoginError> {
        if let Some(account) = self.remembered(user, password) {
            return Ok(account);
        }
        if password.len() > PASSWORD_BYTES_MAX {
            return Err(LoginError::Wrong);
        }
        let turn = self.turns.take().await.ok_or(LoginError::Busy)?;
        let (users, user, password) = (Arc::clone(self), user.to_owned(), password.to_owned());
        let compared = evenkeel::spawn_in(Class::BULK, async move {
            let _turn = turn;
            users.compare(&user, &password)
        });
        // It fails only as the runtime ends.
        compared.await.unwrap_or(Err(LoginError::Busy))
    }

    fn compare(&self, user: &str, password: &str) -> Result<Account, LoginError> {
        let accounts = self.accounts();
        let known = accounts.get(user);
        // One is compared in any case, so that the time does not say which users there are.
        let compared = known.or_else(|| accounts.values().next());
        let is_right = compared.is_some_and(|account| {
            PasswordHash::new(&account.password_hash).is_ok_and(|hash| {
                let password = password.as_bytes();
                Argon2::default().verify_password(password, &hash).is_ok()
            })
        });
        let account = known.filter(|_| is_right).ok_or(LoginError::Wrong)?;
        if let Some(key) = self.quick(user, password) {
            self.sessions().add(key, account, Instant::now());
        }
        Ok(account.clone())
    }

    /// Begins a session of a user, and returns its secret.
    ///
    /// # Errors
    ///
    /// [`LoginError::NoRandom`].
    pub fn open(&self, account: &Account) -> Result<String, LoginError> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|_| LoginError::NoRandom)?;
        let secret: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let key = Sha256::digest(&secret).into();
        self.sessions().add(key, account, Instant::now());
        Ok(secret)
    }

    /// The user of a session.
    pub fn session(&self, secret: &[u8]) -> Option<Account> {
        self.find(&Sha256::digest(secret).into())
    }

    /// Ends a session.
    pub fn close(&self, secret: &[u8]) {
        let key: Key = Sha256::digest(secret).into();
        self.sessions().0.remove(&key);
    }

    fn find(&self, key: &Key) -> Option<Account> {
        let mut sessions = self.sessions();
        let session = sessions.0.get(key)?;
        let account = self.account(&session.user);
        let is_same = |account: &Account| account.password_hash == session.password_hash;
        let found = account.filter(|account| is_same(account) && Instant::now() < session.until);
        if found.is_none() {
            sessions.0.remove(key);
        }
        found
    }

    fn quick(&self, user: &str, password: &str) -> Option<Key> {
        let mut digest = Sha256::new_with_prefix(self.key?);
        digest.update((user.len() as u64).to_be_bytes());
        digest.update(user);
        digest.update(password);
        Some(digest.finalize().into())
    }

    fn accounts(&self) -> Arc<Accounts> {
        Arc::clone(&self.accounts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        // A map, which no panic leaves half-changed.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn by_name(accounts: &[Account]) -> Arc<Accounts> {
    let named = accounts.iter().map(|it| (it.name.clone(), it.clone()));
    Arc::new(named.collect())
}

/// Sessions, by the digests of their secrets: who reads the memory of a table cannot use them.
#[derive(Default)]
struct Sessions(HashMap<Key, Session>);

struct Session {
    user: String,
    /// Of the account that it was begun with.
    password_hash: String,
    until: Instant,
}

impl Sessions {
    fn add(&mut self, key: Key, account: &Account, now: Instant) {
        let is_of_user = |session: &Session| session.user == account.name;
        let of_user = self.0.values().filter(|it| is_of_user(it)).count();
        if of_user >= SESSIONS_OF_USER_MAX {
            self.drop_oldest(is_of_user);
        } else if self.0.len() >= SESSIONS_MAX {
            self.drop_oldest(|_| true);
        }
        let session = Session {
            user: account.name.clone(),
            password_hash: account.password_hash.clone(),
            until: now + SESSION_TIME,
        };
        self.0.insert(key, session);
    }

    fn drop_oldest(&mut self, among: impl Fn(&Session) -> bool) {
        let among = self.0.iter().filter(|(_, session)| among(session));
        let oldest = among.min_by_key(|(_, session)| session.until);
        if let Some(key) = oldest.map(|(key, _)| *key) {
            self.0.remove(&key);
        }
    }
}

/// The comparisons that there may be at a time, and those that wait for one.
struct Turns {
    places: Arc<Semaphore>,
    /// Of those that wait, and those that compare.
    known: Arc<Semaphore>,
}

/// One of them, as long as this is there.
struct Turn {
    _place: OwnedSemaphorePermit,
    _known: OwnedSemaphorePermit,
}

impl Turns {
    fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(CHECKS_MAX)),
            known: Arc::new(Semaphore::new(CHECKS_MAX + WAITING_MAX)),
        }
    }

    /// Waits for a turn. `None` if too many wait, or it takes too long.
    ///
    /// # Cancel safety
    ///
    /// If it is cancelled, the place in the line is given up.
    async fn take(&self) -> Option<Turn> {
        let known = Arc::clone(&self.known).try_acquire_owned().ok()?;
        let place = timeout(TURN_MAX, Arc::clone(&self.places).acquire_owned());
        Some(Turn {
            _place: place.await.ok()?.ok()?,
            _known: known,
        })
    }
}

#[cfg(test)]
mod tests {
    use argon2::{Algorithm, Params, Version};
    use futures_util::FutureExt;

    use super::*;

    /// By a clock that moves only when there is nothing else to do.
    fn run(test: impl Future<Output = ()>) {
        let runtime = evenkeel::runtime::Builder::new().start_paused(true).build();
        runtime.unwrap().block_on(test);
    }

    /// With a hash that is cheap, as hundreds are made here.
    fn account(name: &str, password: &str) -> Account {
        let params = Params::new(Params::MIN_M_COST, 1, 1, None).unwrap();
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let hash = argon2.hash_password(password.as_bytes()).unwrap();
        Account {
            name: name.to_owned(),
            password_hash: hash.to_string(),
            digest: None,
            role: crate::config::Role::Viewer,
            cameras: Vec::new(),
        }
    }

    #[test]
    fn a_right_password_is_remembered_until_it_is_another_one() {
        run(async {
            let users = Arc::new(Users::new(&[account("a", "one"), account("b", "two")]));
            assert_eq!(users.remembered("a", "one"), None);
            assert_eq!(users.check("a", "one").await.unwrap().name, "a");
            assert!(users.remembered("a", "one").is_some());
            for (user, password) in [
                ("a", "two"),
                ("b", "one"),
                ("c", "one"),
                ("", ""),
                ("ao", "ne"),
            ] {
                assert_eq!(
                    users.check(user, password).await,
                    Err(LoginError::Wrong),
                    "{user}"
                );
                assert_eq!(users.remembered(user, password), None);
            }
            users.become_like(&Users::new(&[account("a", "three")]));
            assert_eq!(users.remembered("a", "one"), None);
            assert_eq!(users.check("a", "one").await, Err(LoginError::Wrong));
            assert!(users.check("a", "three").await.is_ok());
        });
    }

    #[test]
    fn sessions_end_with_their_user_and_at_their_end() {
        let users = Users::new(&[account("a", "one"), account("b", "two")]);
        let a = users.open(&users.account("a").unwrap()).unwrap();
        let b = users.open(&users.account("b").unwrap()).unwrap();
        assert_ne!(a, b);
        assert_eq!(users.session(a.as_bytes()).unwrap().name, "a");
        users.close(a.as_bytes());
        assert_eq!(users.session(a.as_bytes()), None);
        assert_eq!(users.session(b"nothing"), None);
        assert!(users.session(b.as_bytes()).is_some());
        users.become_like(&Users::new(&[account("a", "one")]));
        assert_eq!(users.session(b.as_bytes()), None);
    }

    #[test]
    fn there_are_only_so_many_sessions_and_the_oldest_go() {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let key = |number: usize| -> Key { Sha256::digest(number.to_be_bytes()).into() };
        let later = |number: usize| now + Duration::from_millis(number as u64);
        let one = account("one", "x");
        for number in 0..=SESSIONS_OF_USER_MAX {
            sessions.add(key(number), &one, later(number));
        }
        assert_eq!(sessions.0.len(), SESSIONS_OF_USER_MAX);
        assert!(!sessions.0.contains_key(&key(0)) && sessions.0.contains_key(&key(1)));
        let mut others = account("", "x");
        for number in 1_000..1_000 + 2 * SESSIONS_MAX {
            others.name = format!("user {}", number % 200);
            sessions.add(key(number), &others, later(number));
            assert!(sessions.0.len() <= SESSIONS_MAX);
        }
        assert!(!sessions.0.contains_key(&key(1)));
    }

    #[test]
    fn passwords_are_compared_a_few_at_a_time_and_others_wait() {
        run(async {
            let turns = Turns::new();
            let mut taken = Vec::new();
            for _ in 0..CHECKS_MAX {
                taken.push(turns.take().await.unwrap());
            }
            let mut waits = std::pin::pin!(turns.take());
            assert!(waits.as_mut().now_or_never().is_none());
            // Too many wait.
            let others = CHECKS_MAX + WAITING_MAX - turns.known.available_permits();
            assert_eq!(others, CHECKS_MAX + 1);
            let known = Arc::clone(&turns.known);
            let all = known.acquire_many_owned(u32::try_from(WAITING_MAX - 1).unwrap());
            let all = all.await.unwrap();
            assert!(turns.take().await.is_none());
            drop(all);
            taken.pop();
            assert!(waits.await.is_some());
            // It has been given back, and the others take too long.
            assert!(turns.take().await.is_some());
            let _last = turns.take().await.unwrap();
            assert!(turns.take().await.is_none());
        });
    }

    #[test]
    fn hashes_are_told_from_other_texts() {
        assert!(is_hash(&account("a", "b").password_hash));
        for text in [
            "",
            "password",
            "$argon2id$",
            "$2b$12$abcdefghijklmnopqrstuv",
        ] {
            assert!(!is_hash(text), "{text}");
        }
    }
}
