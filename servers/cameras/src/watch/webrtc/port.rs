//! The one socket of all sessions, and whose each datagram is.
//!
//! A browser asks by STUN first, and names the session in it. When the session has found the
//! question to be signed with its secret, the address is the session's, and whatever else comes
//! from there is passed on to it. Anything else costs a look at a table and is counted; nothing is
//! answered to it.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::net::UdpSocket;
use evenkeel::task::AbortHandle;
use servers_common::counters::Counter;
use servers_common::slots::{Full, Limits, Slot, Slots};
use tokio::sync::{Notify, mpsc};

use super::settings::{Places, Settings};
use super::stun;

/// The longest datagram; what is longer is none of a browser's.
const DATAGRAM_MAX: usize = 2_048;
/// Datagrams that wait for a session. More are dropped, as the way itself would.
const WAITING_MAX: usize = 64;
/// Addresses of one session: a browser asks from each of its own.
const ADDRESSES_MAX: usize = 8;
/// After an error of the socket.
const REST: Duration = Duration::from_millis(10);

/// A datagram, and where it came from.
pub(super) type Datagram = (SocketAddr, Bytes);

/// What has happened to all sessions together.
#[derive(Debug, Default)]
pub struct Counts {
    /// Sessions that began.
    pub sessions: Counter,
    /// Sessions that were refused for a limit.
    pub refused: Counter,
    /// Packets that were sent.
    pub packets: Counter,
    /// Packets that browsers report as lost.
    pub lost: Counter,
    /// Datagrams of no session.
    pub strange: Counter,
    /// Datagrams that were dropped since too many of their session waited.
    pub dropped: Counter,
    /// Datagrams that the system did not take.
    pub unsent: Counter,
    /// Times that a browser was sent the newest key frame once more.
    pub rewinds: Counter,
}

/// The socket, with the sessions.
#[derive(Debug)]
pub struct Port {
    socket: Arc<UdpSocket>,
    /// Whether it has addresses of IPv6, also for those of IPv4.
    is_v6: bool,
    candidates: Vec<SocketAddr>,
    limits: Limits,
    slots: Arc<Slots>,
    shared: Arc<Shared>,
    reads: AbortHandle,
}

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    counts: Counts,
}

/// Sessions by the name that browsers ask for, and by the addresses that have been found good.
#[derive(Debug, Default)]
struct Table {
    sessions: HashMap<String, Entry>,
    addresses: HashMap<SocketAddr, String>,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    inbox: mpsc::Sender<Datagram>,
    stop: Arc<Notify>,
}

/// What a session is known by over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The camera.
    pub camera: String,
    /// Its number, which nobody can guess.
    pub id: String,
}

/// A session's place, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Registered {
    shared: Arc<Shared>,
    /// The name that browsers ask for.
    user: String,
    addresses: Vec<SocketAddr>,
    _slot: Slot,
    pub(super) inbox: mpsc::Receiver<Datagram>,
    pub(super) stop: Arc<Notify>,
}

impl Port {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(super) async fn open(settings: &Settings, places: &Places) -> io::Result<Self> {
        let socket = Arc::new(UdpSocket::bind(places.listen).await?);
        let candidates = places.candidates(socket.local_addr()?.port());
        let shared = Arc::new(Shared::default());
        let reads = read(Arc::clone(&socket), Arc::clone(&shared));
        Ok(Self {
            is_v6: places.listen.is_ipv6(),
            socket,
            candidates,
            limits: Limits {
                all_max: settings.sessions_max,
                per_client_max: settings.sessions_per_client_max,
            },
            slots: Arc::default(),
            shared,
            reads: evenkeel::spawn(reads).abort_handle(),
        })
    }

    /// What browsers are told.
    pub fn candidates(&self) -> &[SocketAddr] {
        &self.candidates
    }

    /// What has happened.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Sessions that there are.
    pub fn sessions(&self) -> usize {
        self.slots.taken()
    }

    /// A place for a session of this client.
    pub(super) fn slot(&self, client: IpAddr) -> Result<Slot, Full> {
        let slot = self.slots.take(Some(client), self.limits);
        if slot.is_err() {
            self.counts().refused.one();
        }
        slot
    }

    /// Has datagrams for a session passed on to it, which asks for this name.
    pub(super) fn register(&self, slot: Slot, user: &str, key: Key) -> Registered {
        let (sender, inbox) = mpsc::channel(WAITING_MAX);
        let stop = Arc::new(Notify::new());
        let entry = Entry {
            key,
            inbox: sender,
            stop: Arc::clone(&stop),
        };
        self.shared.table().sessions.insert(user.to_owned(), entry);
        self.counts().sessions.one();
        Registered {
            shared: Arc::clone(&self.shared),
            user: user.to_owned(),
            addresses: Vec::new(),
            _slot: slot,
            inbox,
            stop,
        }
    }

    /// Has a session end. Whether there was one that was not ending already.
    pub fn end(&self, key: &Key) -> bool {
        let mut table = self.shared.table();
        let found = table.sessions.iter().find(|(_, entry)| entry.key == *key);
        let Some(user) = found.map(|(user, _)| user.clone()) else {
            return false;
        };
        // It answers no more questions; its addresses go with it.
        let Some(entry) = table.sessions.remove(&user) else {
            return false;
        };
        drop(table);
        entry.stop.notify_one();
        true
    }

    /// The name that browsers ask for in this session.
    pub fn user(&self, key: &Key) -> Option<String> {
        let table = self.shared.table();
        let mut sessions = table.sessions.iter();
        let found = sessions.find(|(_, entry)| entry.key == *key);
        found.map(|(user, _)| user.clone())
    }

    /// Has all sessions end.
    pub fn end_all(&self) {
        let sessions = std::mem::take(&mut self.shared.table().sessions);
        for entry in sessions.values() {
            entry.stop.notify_one();
        }
    }

    /// Sends a datagram.
    pub(super) async fn send(&self, target: SocketAddr, datagram: &[u8]) {
        let target = match target {
            SocketAddr::V4(old) if self.is_v6 => {
                SocketAddr::new(old.ip().to_ipv6_mapped().into(), old.port())
            }
            _ => target,
        };
        if self.socket.send_to(datagram, target).await.is_err() {
            self.counts().unsent.one();
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.reads.abort();
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Maps, which no panic leaves half-changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a datagram on to its session.
    fn pass(&self, source: SocketAddr, datagram: &[u8]) {
        let table = self.table();
        let user = match stun::asked(datagram) {
            Some(user) => Some(user),
            None => table.addresses.get(&source).map(String::as_str),
        };
        let Some(entry) = user.and_then(|user| table.sessions.get(user)) else {
            drop(table);
            return self.counts.strange.one();
        };
        // Copied only now, for somebody who wants it. Nobody is woken under the lock but a task.
        let inbox = entry.inbox.clone();
        drop(table);
        let passed = inbox.try_send((source, Bytes::copy_from_slice(datagram)));
        if passed.is_err() {
            self.counts.dropped.one();
        }
    }
}

impl Registered {
    /// The browser has asked from this address, with the session's secret. Whether it may: it has
    /// not too many.
    pub(super) fn reached_from(&mut self, source: SocketAddr) -> bool {
        if self.addresses.contains(&source) {
            return true;
        }
        if self.addresses.len() >= ADDRESSES_MAX {
            return false;
        }
        self.addresses.push(source);
        let mut table = self.shared.table();
        table.addresses.insert(source, self.user.clone());
        true
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.shared.counts
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut table = self.shared.table();
        table.sessions.remove(&self.user);
        for address in &self.addresses {
            // It may be another session's since.
            if table.addresses.get(address) == Some(&self.user) {
                table.addresses.remove(address);
            }
        }
    }
}

async fn read(socket: Arc<UdpSocket>, shared: Arc<Shared>) {
    let mut buffer = vec![0; DATAGRAM_MAX];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((len, source)) => {
                let source = SocketAddr::new(source.ip().to_canonical(), source.port());
                shared.pass(source, &buffer[..len]);
            }
            // Of a datagram that was sent earlier, or of the system: the next one may be good.
            Err(_) => evenkeel::time::sleep(REST).await,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) async fn open() -> Port {
        let settings = Settings {
            listen: "127.0.0.1:0".to_owned(),
            ..Settings::default()
        };
        let places = settings.places().unwrap();
        Port::open(&settings, &places).await.unwrap()
    }

    pub(in super::super) fn register(port: &Port, user: &str) -> Registered {
        let slot = port.slot("192.0.2.1".parse().unwrap()).unwrap();
        let key = Key {
            camera: "gate".to_owned(),
            id: user.to_owned(),
        };
        port.register(slot, user, key)
    }

    /// A datagram of media from this port of a browser.
    fn media(port: u16) -> (SocketAddr, [u8; 4]) {
        (SocketAddr::from(([192, 0, 2, 1], port)), [0x80, 96, 0, 1])
    }

    #[test]
    fn what_is_passed_on_is_bounded_and_what_a_session_had_is_given_back() {
        let runtime = evenkeel::runtime::Builder::new().workers(1).build();
        runtime.unwrap().block_on(async {
            let port = open().await;
            let mut first = register(&port, "first");
            let (source, datagram) = media(1);
            port.shared.pass(source, &datagram);
            assert_eq!(port.counts().strange.total(), 1, "it has not asked yet");
            for browser in 1..=9 {
                assert_eq!(first.reached_from(media(browser).0), browser < 9);
            }
            for _ in 0..=WAITING_MAX {
                port.shared.pass(source, &datagram);
            }
            assert_eq!(port.counts().dropped.total(), 1);
            assert_eq!(first.inbox.try_recv().unwrap().0, source);
            // The same address may be another session's later, and stays with that.
            let mut second = register(&port, "second");
            assert!(second.reached_from(source));
            drop(first);
            let mut table = port.shared.table();
            assert_eq!((table.sessions.len(), table.addresses.len()), (1, 1));
            assert_eq!(table.addresses.remove(&source).as_deref(), Some("second"));
            drop(table);
            drop(second);
            assert!(port.shared.table().sessions.is_empty());
            assert_eq!(port.sessions(), 0);
        });
    }
}
