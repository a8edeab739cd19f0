//! Who is connected, for operators: a place in a table for each connection of a client.
//!
//! A connection is served by one task, whose session is found through it. So what happens on the
//! way notes itself here, without being handed the session: [`dials`], [`serves`] and [`rests`]. A
//! connection that waits for a request can be found here, too, to be told that the proxy ends. By
//! HTTP/2 each request has a task of its own, which notes itself with the connection's session
//! ([`shared`]).
//! The table is in parts, each behind a lock of its own that is held for a change of one entry.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evenkeel::Class;
use evenkeel::task::AbortHandle;
use evenkeel::time::Instant;

use crate::pool::Pool;

evenkeel::task_local! {
    static SESSION: Registered;
    /// The session of a task that serves one of several requests of a connection.
    static SHARED: Option<Arc<Session>>;
}

/// Parts of the table, so that connections that begin at once seldom meet.
const PARTS: usize = 16;

/// The connections of a proxy.
#[derive(Debug, Default)]
pub struct Sessions {
    last_id: AtomicU64,
    /// Whether connections that wait for a request are to end.
    closing: AtomicBool,
    parts: [Mutex<HashMap<u64, Arc<Session>>>; PARTS],
}

/// A connection of a client.
#[derive(Debug)]
pub struct Session {
    /// Its number, which no other one has had.
    pub id: u64,
    /// The name of its listener.
    pub listener: Arc<str>,
    began: Instant,
    requests: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    now: Mutex<Now>,
}

/// A pool, and the index of one of its servers.
type At = (Arc<Pool>, usize);

/// What changes of it.
#[derive(Debug)]
struct Now {
    client: Option<IpAddr>,
    state: State,
    class: Class,
    at: Option<At>,
    /// Where its other requests are served at the same time. Few connections ever have them.
    more: Vec<At>,
    task: Option<AbortHandle>,
    /// Whom to wake when it waits for a request, and is to end.
    resting: Option<Waker>,
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has begun: a header of PROXY, a handshake or a first request is to come.
    Begins,
    /// It waits for a server, or for a connection to one.
    Dials,
    /// A server serves it.
    Serves,
    /// It may send another request.
    Rests,
}

impl State {
    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begins => "begins",
            Self::Dials => "dials",
            Self::Serves => "serves",
            Self::Rests => "rests",
        }
    }
}

/// A connection as it was at a moment.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its number.
    pub id: u64,
    /// The name of its listener.
    pub listener: String,
    /// Whose it is; nobody knows on a Unix socket.
    pub client: Option<IpAddr>,
    /// What it does.
    pub state: State,
    /// In which class.
    pub class: Class,
    /// Where it is served: the pool and the server, for each of its requests at the moment.
    pub at: Vec<(String, String)>,
    /// How long it has been there.
    pub age: Duration,
    /// Requests, or connections of TCP, for which a server was looked for.
    pub requests: u64,
    /// Bytes that were passed on from it.
    pub bytes_in: u64,
    /// Bytes that were passed on to it.
    pub bytes_out: u64,
}

/// The place of a connection in the table, which is free again when this is dropped.
#[derive(Debug)]
pub struct Registered {
    sessions: Arc<Sessions>,
    session: Arc<Session>,
}

impl Sessions {
    /// A place for a connection that begins.
    pub fn register(
        self: &Arc<Self>,
        listener: &Arc<str>,
        client: Option<IpAddr>,
        class: Class,
    ) -> Registered {
        // Relaxed: numbers that differ are all that is asked of them.
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let session = Arc::new(Session {
            id,
            listener: Arc::clone(listener),
            began: Instant::now(),
            requests: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            now: Mutex::new(Now {
                client,
                state: State::Begins,
                class,
                at: None,
                more: Vec::new(),
                task: None,
                resting: None,
            }),
        });
        self.part(id).insert(id, Arc::clone(&session));
        Registered {
            sessions: Arc::clone(self),
            session,
        }
    }

    /// All of them, in no order.
    pub fn all(&self) -> Vec<Seen> {
        let mut all = Vec::new();
        for part in &self.parts {
            // Looked at without the lock.
            let part: Vec<Arc<Session>> = lock(part).values().map(Arc::clone).collect();
            all.extend(part.iter().map(|session| session.seen()));
        }
        all
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.parts.iter().map(|part| lock(part).len()).sum()
    }

    /// Ends a connection. Returns whether there was one with this number.
    pub fn shut_down(&self, id: u64) -> bool {
        let session = self.part(id).get(&id).map(Arc::clone);
        let task = session.and_then(|session| session.now().task.clone());
        task.inspect(AbortHandle::abort).is_some()
    }

    /// Ends all of them.
    pub fn shut_down_all(&self) {
        for part in &self.parts {
            let part: Vec<Arc<Session>> = lock(part).values().map(Arc::clone).collect();
            let tasks = part.iter().filter_map(|session| session.now().task.clone());
            tasks.for_each(|task| task.abort());
        }
    }

    /// Ends connections that wait for a request, now and from now on.
    pub fn close(&self) {
        // Relaxed: whoever waits looks under the lock of its session, before or after this takes it
        // below; and one that comes into a part later does so under the lock of that.
        self.closing.store(true, Ordering::Relaxed);
        for part in &self.parts {
            let part: Vec<Arc<Session>> = lock(part).values().map(Arc::clone).collect();
            let resting = part
                .iter()
                .filter_map(|session| session.now().resting.take());
            resting.for_each(Waker::wake);
        }
    }

    fn part(&self, id: u64) -> MutexGuard<'_, HashMap<u64, Arc<Session>>> {
        let index = usize::try_from(id % PARTS as u64).unwrap_or(0);
        lock(&self.parts[index])
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries, each of which is there or not.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registered {
    /// Serves the connection, which is known as this one meanwhile.
    pub fn scope<F: Future>(self, future: F) -> impl Future<Output = F::Output> + use<F> {
        // Not an async function, in which the future would have its place twice.
        SESSION.scope(self, future)
    }

    /// The session, for the task that is made of it.
    pub fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let id = self.session.id;
        let gone = self.sessions.part(id).remove(&id);
        // Without the lock.
        drop(gone);
    }
}

impl Session {
    /// It is served by this task.
    pub fn runs_in(&self, task: AbortHandle) {
        self.now().task = Some(task);
    }

    /// As it is now.
    fn seen(&self) -> Seen {
        let now = self.now();
        let at = now.at.iter().chain(&now.more).map(|(pool, index)| {
            let server = &pool.servers()[*index];
            (pool.name.clone(), server.config.name.clone())
        });
        let at = at.collect();
        Seen {
            id: self.id,
            listener: self.listener.to_string(),
            client: now.client,
            state: now.state,
            class: now.class,
            at,
            age: self.began.elapsed(),
            // Relaxed: statistics.
            requests: self.requests.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        lock(&self.now)
    }
}

/// The session of this task does this; there is none in tasks that serve nobody.
fn note(change: impl FnOnce(&Session)) {
    let mut change = Some(change);
    let own =
        SESSION.try_with(|registered| change.take().map(|change| change(&registered.session)));
    if own.is_err() {
        let _ = SHARED.try_with(|session| {
            let change = change.take().zip(session.as_deref());
            change.map(|(change, session)| change(session))
        });
    }
}

/// Serves a request in a task of its own, which notes itself with the session of this one.
pub fn shared<F: Future>(future: F) -> impl Future<Output = F::Output> + use<F> {
    let session = SESSION.try_with(Registered::session).ok();
    SHARED.scope(session, future)
}

/// It looks for a server, in the class of its task.
pub fn dials(client: Option<IpAddr>) {
    note(|session| {
        // Relaxed: a statistic.
        session.requests.fetch_add(1, Ordering::Relaxed);
        let mut now = session.now();
        if now.at.is_none() {
            now.state = State::Dials;
        }
        // By the PROXY protocol it is known later.
        now.client = client;
        if let Some(class) = evenkeel::task::class() {
            now.class = class;
        }
    });
}

/// This server of the pool serves it.
pub fn serves(pool: &Arc<Pool>, index: usize) {
    note(|session| {
        let mut now = session.now();
        now.state = State::Serves;
        let at = (Arc::clone(pool), index);
        match now.at {
            None => now.at = Some(at),
            Some(_) => now.more.push(at),
        }
    });
}

/// Bytes of the client were passed on.
pub fn came(bytes: u64) {
    // Relaxed: a statistic.
    note(|session| {
        session.bytes_in.fetch_add(bytes, Ordering::Relaxed);
    });
}

/// Bytes were passed on to the client.
pub fn sent(bytes: u64) {
    // Relaxed: a statistic.
    note(|session| {
        session.bytes_out.fetch_add(bytes, Ordering::Relaxed);
    });
}

/// This one does not any more.
pub fn left(pool: &Arc<Pool>, index: usize) {
    note(|session| {
        let is_it = |at: &At| Arc::ptr_eq(&at.0, pool) && at.1 == index;
        let mut now = session.now();
        let left = match now.at.take_if(|at| is_it(at)) {
            Some(left) => {
                now.at = now.more.pop();
                Some(left)
            }
            None => {
                let place = now.more.iter().position(is_it);
                place.map(|place| now.more.swap_remove(place))
            }
        };
        if now.at.is_none() {
            now.state = State::Rests;
        }
        drop(now);
        // Without the lock.
        drop(left);
    });
}

/// It may send another request, and nothing is done for it.
pub fn rests() {
    note(|session| {
        let mut now = session.now();
        if now.at.is_none() {
            now.state = State::Rests;
        }
    });
}

/// It waits for a request: ready if it is to end, now or when it is woken.
pub fn poll_closing(cx: &Context<'_>) -> Poll<()> {
    let is_closing = SESSION.try_with(|registered| {
        let mut now = registered.session.now();
        let is_known = |waker: &Waker| waker.will_wake(cx.waker());
        if !now.resting.as_ref().is_some_and(is_known) {
            now.resting = Some(cx.waker().clone());
        }
        // Relaxed, and under the lock: see `close`.
        registered.sessions.closing.load(Ordering::Relaxed)
    });
    match is_closing {
        Ok(true) => Poll::Ready(()),
        Ok(false) | Err(_) => Poll::Pending,
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn a_connection_is_in_the_table_for_as_long_as_it_is_there() {
        let sessions = Arc::new(Sessions::default());
        let client = "10.0.0.1".parse().ok();
        let one = sessions.register(&"web".into(), client, Class::NORMAL);
        let two = sessions.register(&"web".into(), None, Class::BULK);
        let mut all = sessions.all();
        all.sort_by_key(|seen| seen.id);
        let seen: Vec<_> = all
            .iter()
            .map(|seen| (seen.id, seen.client, seen.class))
            .collect();
        assert_eq!(seen, [(1, client, Class::NORMAL), (2, None, Class::BULK)]);
        drop(one);
        assert_eq!(sessions.all().len(), 1);
        assert!(!sessions.shut_down(1), "it is gone");
        assert!(!sessions.shut_down(2), "no task serves it");
        drop(two);
        assert!(sessions.all().is_empty());
    }

    #[test]
    fn a_task_notes_what_its_own_session_does() {
        let runtime = evenkeel::runtime::Builder::new()
            .workers(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let sessions = Arc::new(Sessions::default());
            let place = sessions.register(&"web".into(), None, Class::NORMAL);
            let session = place.session();
            let serving = place.scope(async {
                dials("10.0.0.9".parse().ok());
                std::future::pending::<()>().await;
            });
            let task = evenkeel::spawn_in(Class::BULK, serving);
            session.runs_in(task.abort_handle());
            while session.seen().state != State::Dials {
                evenkeel::task::yield_now().await;
            }
            let seen = session.seen();
            assert_eq!((seen.class, seen.requests), (Class::BULK, 1));
            assert_eq!(seen.client, "10.0.0.9".parse().ok());
            assert!(sessions.shut_down(session.id));
            assert!(task.await.unwrap_err().is_cancelled());
            assert!(sessions.all().is_empty());
            rests();
        });
    }

    #[test]
    fn requests_of_one_connection_note_their_servers_each_for_itself() {
        let config = "[[server]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\n\
                      [[server]]\nname = \"b\"\naddress = \"127.0.0.1:2\"";
        let pool = Pool::new("app", toml::from_str(config).unwrap(), None);
        let runtime = evenkeel::runtime::Builder::new().workers(1).build();
        runtime.unwrap().block_on(async {
            let sessions = Arc::new(Sessions::default());
            let place = sessions.register(&"web".into(), None, Class::NORMAL);
            let session = place.session();
            let servers = || {
                let seen = session.seen();
                let servers: Vec<String> = seen.at.into_iter().map(|at| at.1).collect();
                (servers.join(" "), seen.state)
            };
            let connection = place.scope(async {
                let request = |index| {
                    let pool = Arc::clone(&pool);
                    evenkeel::spawn(shared(async move {
                        dials(None);
                        serves(&pool, index);
                        sent(5);
                        let left = Leaves(pool, index);
                        std::future::pending::<()>().await;
                        drop(left);
                    }))
                };
                let tasks = [request(0), request(1), request(1)];
                while session.seen().at.len() < 3 {
                    evenkeel::task::yield_now().await;
                }
                assert_eq!(servers(), ("a b b".to_owned(), State::Serves));
                let mut shown = Vec::new();
                for task in tasks {
                    task.abort();
                    assert!(task.await.unwrap_err().is_cancelled());
                    shown.push(servers());
                }
                let shown: Vec<_> = shown
                    .iter()
                    .map(|(text, state)| (&**text, *state))
                    .collect();
                let expected = [
                    ("b b", State::Serves),
                    ("b", State::Serves),
                    ("", State::Rests),
                ];
                assert_eq!(shown, expected);
            });
            connection.await;
            assert_eq!((session.seen().requests, session.seen().bytes_out), (3, 15));
        });
    }

    /// As a lease does.
    struct Leaves(Arc<Pool>, usize);

    impl Drop for Leaves {
        fn drop(&mut self) {
            left(&self.0, self.1);
        }
    }

    #[test]
    fn connections_that_wait_for_a_request_end_when_all_do_and_others_go_on() {
        let runtime = evenkeel::runtime::Builder::new().workers(1).build();
        runtime.unwrap().block_on(async {
            let sessions = Arc::new(Sessions::default());
            let rest = || {
                let place = sessions.register(&"web".into(), None, Class::NORMAL);
                evenkeel::spawn(place.scope(poll_fn(|cx| poll_closing(cx))))
            };
            let place = sessions.register(&"web".into(), None, Class::NORMAL);
            let other = evenkeel::spawn(place.scope(std::future::pending::<()>()));
            let before = rest();
            let is_known = |seen: &Arc<Session>| seen.now().resting.is_some();
            while !sessions.part(2).values().any(is_known) {
                evenkeel::task::yield_now().await;
            }
            assert!(!before.is_finished());
            sessions.close();
            before.await.unwrap();
            rest().await.unwrap();
            assert!(!other.is_finished());
            assert_eq!(sessions.all().len(), 1);
        });
    }
}
