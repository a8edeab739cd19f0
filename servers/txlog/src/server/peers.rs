//! What the server knows of each connection: the place it has, the memory it holds, and since when
//! it has kept the server waiting.
//!
//! Places are of two sorts. Ordinary ones are for whoever comes. When these are taken, a newcomer
//! gets one in reserve, in which it may ping, and from which its first append or read promotes it
//! to an ordinary one, if there is one by then. So an operator's ping has an answer on a full
//! server. Somebody always makes room for a newcomer: first the oldest of those who have not said
//! hello, then whoever has been idle in reserve for the longest time.
//!
//! Each connection has one [`Peer`], which its own tasks update, and which others read: the
//! server's memory to choose who is cut off, and a newcomer's place. `Peers` locks itself before a
//! peer, and that before its log's [`Past`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::access::Token;

/// How long a connection may be silent before its hello when places are short. A client says it at
/// once, so this is a slow network's round trip.
const SILENCE: Duration = Duration::from_secs(1);

/// How many connections may have lost their place and still be open, in which they are told so. A
/// newcomer that would make it more is refused, or a burst of them would take all descriptors.
pub const LEAVING_MAX: usize = 64;

/// How many bytes count as progress: a client that takes one byte a second is not alive.
pub(super) const PROGRESS_BYTES: usize = 16 * 1024;

/// Why a connection is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Another connection needs its place.
    Place,
    /// Others need the memory that it holds, and it makes no progress.
    Memory,
    /// Its token was removed or changed.
    Token,
}

/// A part of the server's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// For answers to reads.
    Reads,
    /// For appends, from their frame's first bytes until they are answered.
    Appends,
}

/// A connection's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Ordinary,
    Reserve,
    /// It was cut off, and somebody else has its place.
    Lost,
}

/// All connections.
#[derive(Debug)]
pub(super) struct Peers {
    ordinary_max: usize,
    reserve_max: usize,
    state: Mutex<State>,
    /// How many tasks of connections there are.
    alive: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    by_id: HashMap<u64, Arc<Peer>>,
    last_id: u64,
    ordinary: usize,
    reserve: usize,
}

/// The last append to a log by those of its connections that have left.
#[derive(Debug, Default)]
pub(super) struct Past(Mutex<Option<Last>>);

/// How an append ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) ended: Instant,
    pub(super) took: Duration,
    /// Why it is not in the log, or perhaps not.
    pub(super) failure: Option<String>,
}

/// What is known of appends: the oldest one that is pending, and the last one that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    pub(super) oldest: Option<Instant>,
    pub(super) last: Option<Last>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Peer {
    id: u64,
    cut: watch::Sender<Option<Cut>>,
    now: Mutex<Now>,
}

/// A connection's state.
#[derive(Debug)]
struct Now {
    place: Place,
    greeted: bool,
    /// That of its log, as soon as it has one.
    past: Option<Arc<Past>>,
    /// When it last asked for something.
    active: Instant,
    /// How many bytes of each part of the memory it holds.
    held: [usize; 2],
    /// When it last took some of the answer that is being written.
    sending: Option<Instant>,
    /// When it last sent some of the large frame that is being read.
    receiving: Option<Instant>,
    /// When the append came that waits for room in the store.
    submitting: Option<Instant>,
    /// When the append came that is answered next.
    front: Option<Instant>,
    last: Option<Last>,
    /// By which it logged in.
    token: Option<Arc<Token>>,
}

/// A connection's membership, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Member {
    peers: Arc<Peers>,
    pub(super) peer: Arc<Peer>,
}

impl Peers {
    pub(super) fn new(ordinary_max: usize, reserve_max: usize) -> Self {
        Self {
            ordinary_max,
            reserve_max,
            state: Mutex::default(),
            alive: watch::Sender::new(0),
        }
    }

    /// Gives a new connection a place, which another one may lose for it. `None` if there is none.
    pub(super) fn join(self: &Arc<Self>, now: Instant) -> Option<Member> {
        let mut state = self.lock();
        let places = self.ordinary_max.saturating_add(self.reserve_max);
        if state.by_id.len() >= places.saturating_add(LEAVING_MAX) {
            return None;
        }
        let silent = |peer: &Now| now.duration_since(peer.active) >= SILENCE;
        let place = if state.ordinary < self.ordinary_max {
            Place::Ordinary
        } else if let Some(place) = state.evict(|peer| !peer.greeted && silent(peer)) {
            place
        } else if state.reserve < self.reserve_max {
            Place::Reserve
        } else if self.reserve_max > 0 {
            let unknown = state.evict(|peer| !peer.greeted);
            unknown.or_else(|| state.evict(|peer| peer.place == Place::Reserve))?
        } else {
            return None;
        };
        state.take(place);
        state.last_id += 1;
        let id = state.last_id;
        let peer = Arc::new(Peer {
            id,
            cut: watch::Sender::new(None),
            now: Mutex::new(Now {
                place,
                greeted: false,
                past: None,
                active: now,
                held: [0; 2],
                sending: None,
                receiving: None,
                submitting: None,
                front: None,
                last: None,
                token: None,
            }),
        });
        state.by_id.insert(id, Arc::clone(&peer));
        drop(state);
        self.alive.send_modify(|alive| *alive += 1);
        let peers = Arc::clone(self);
        Some(Member { peers, peer })
    }

    /// Waits until no connection is left.
    pub(super) async fn gone(&self) {
        // The sender is in `self`, so this cannot fail.
        let _ = self.alive.subscribe().wait_for(|alive| *alive == 0).await;
    }

    /// Cuts off those that hold something of this part and have made no progress since `before`,
    /// the slowest first, until they have held this many bytes. Returns how many were cut off.
    pub(super) fn relieve(&self, part: Part, mut bytes: usize, before: Instant) -> usize {
        let peers: Vec<Arc<Peer>> = self.lock().by_id.values().map(Arc::clone).collect();
        let mut slow: Vec<(Instant, usize, Arc<Peer>)> = peers
            .into_iter()
            .filter_map(|peer| {
                let now = peer.lock();
                let held = now.held[part as usize];
                let since = [now.sending, now.receiving].into_iter().flatten().min()?;
                drop(now);
                (held > 0 && since <= before).then_some((since, held, peer))
            })
            .collect();
        slow.sort_by_key(|(since, ..)| *since);
        let mut cut = 0;
        for (_, held, peer) in slow {
            if bytes == 0 {
                break;
            }
            bytes = bytes.saturating_sub(held);
            cut += usize::from(peer.cut_off(Cut::Memory));
        }
        cut
    }

    /// How many there are, by what they are.
    pub(super) fn census(&self) -> [(&'static str, u64); 3] {
        let state = self.lock();
        let (mut known, mut strangers, mut reserve) = (0, 0, 0);
        for peer in state.by_id.values() {
            let now = peer.lock();
            match now.place {
                Place::Reserve => reserve += 1,
                _ if now.greeted => known += 1,
                _ => strangers += 1,
            }
        }
        [
            ("known", known),
            ("strangers", strangers),
            ("reserve", reserve),
        ]
    }

    /// Cuts off those whose token is meant. Returns how many were cut off.
    pub(super) fn expel(&self, meant: impl Fn(&Token) -> bool) -> usize {
        let peers: Vec<Arc<Peer>> = self.lock().by_id.values().map(Arc::clone).collect();
        let has_meant = |peer: &&Arc<Peer>| peer.lock().token.as_deref().is_some_and(&meant);
        let expelled = peers.iter().filter(has_meant);
        expelled.filter(|peer| peer.cut_off(Cut::Token)).count()
    }

    /// What is known of the appends of all connections of this log.
    pub(super) fn evidence(&self, of: &Arc<Past>) -> Evidence {
        let state = self.lock();
        let mut evidence = Evidence {
            oldest: None,
            last: of.lock().clone(),
        };
        for peer in state.by_id.values() {
            let now = peer.lock();
            if !(now.past.as_ref()).is_some_and(|past| Arc::ptr_eq(past, of)) {
                continue;
            }
            for pending in [now.submitting, now.front].into_iter().flatten() {
                let oldest = evidence.oldest.get_or_insert(pending);
                *oldest = pending.min(*oldest);
            }
            later(&mut evidence.last, now.last.clone());
        }
        evidence
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Cuts off whoever has been idle for the longest time of those meant, and returns its place.
    fn evict(&mut self, meant: impl Fn(&Now) -> bool) -> Option<Place> {
        let idle = self.by_id.values().filter_map(|peer| {
            let now = peer.lock();
            (now.place != Place::Lost && meant(&now)).then_some((now.active, peer))
        });
        let (_, peer) = idle.min_by_key(|(active, _)| *active)?;
        let place = std::mem::replace(&mut peer.lock().place, Place::Lost);
        peer.cut_off(Cut::Place);
        self.free(place);
        Some(place)
    }

    fn take(&mut self, place: Place) {
        match place {
            Place::Ordinary => self.ordinary += 1,
            Place::Reserve => self.reserve += 1,
            Place::Lost => {}
        }
    }

    fn free(&mut self, place: Place) {
        match place {
            Place::Ordinary => self.ordinary -= 1,
            Place::Reserve => self.reserve -= 1,
            Place::Lost => {}
        }
    }
}

impl Member {
    /// Before its first append or read: moves from the reserve to an ordinary place. False if there
    /// is none.
    pub(super) fn promote(&self) -> bool {
        let mut state = self.peers.lock();
        let place = self.peer.lock().place;
        if place != Place::Reserve {
            return place == Place::Ordinary;
        }
        if state.ordinary >= self.peers.ordinary_max {
            let silent = |peer: &Now| !peer.greeted && peer.place == Place::Ordinary;
            if state.evict(silent).is_none() {
                return false;
            }
        }
        state.free(Place::Reserve);
        state.take(Place::Ordinary);
        self.peer.lock().place = Place::Ordinary;
        true
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.peers.lock();
        state.by_id.remove(&self.peer.id);
        let mut now = self.peer.lock();
        let place = std::mem::replace(&mut now.place, Place::Lost);
        if let Some(past) = now.past.take() {
            later(&mut past.lock(), now.last.take());
        }
        drop(now);
        state.free(place);
        drop(state);
        self.peers.alive.send_modify(|alive| *alive -= 1);
    }
}

impl Past {
    fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer {
    /// Waits until it is cut off.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn cut(&self) -> Cut {
        let mut cut = self.cut.subscribe();
        let cut = cut.wait_for(Option::is_some).await;
        // The sender is in `self`, so this cannot fail.
        cut.ok().and_then(|cut| *cut).unwrap_or(Cut::Place)
    }

    /// Waits until somebody else has its place.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn lost_place(&self) {
        let mut cut = self.cut.subscribe();
        // The sender is in `self`, so this cannot fail.
        let _ = cut.wait_for(|cut| *cut == Some(Cut::Place)).await;
    }

    /// It has said hello.
    pub(super) fn greeted(&self, now: Instant) {
        let mut state = self.lock();
        state.greeted = true;
        state.active = now;
    }

    /// It is for the log of which this is the past.
    pub(super) fn serves(&self, past: &Arc<Past>) {
        self.lock().past = Some(Arc::clone(past));
    }

    /// Whether it may learn that there is a log of this name.
    pub(super) fn may_know(&self, log: &str) -> bool {
        let token = self.lock().token.clone();
        token.is_none_or(|token| !token.rights(log).is_empty())
    }

    /// It has logged in by this token.
    pub(super) fn logged_in(&self, token: Arc<Token>) {
        self.lock().token = Some(token);
    }

    /// It has asked for something, and sent all of it.
    pub(super) fn asked(&self, asked: Instant) {
        let mut now = self.lock();
        now.active = asked;
        now.receiving = None;
    }

    /// It has taken some of an answer, at this time; `None` when it has taken all.
    pub(super) fn sending(&self, now: Option<Instant>) {
        self.lock().sending = now;
    }

    /// It has sent some of a large frame, at this time.
    pub(super) fn receiving(&self, now: Instant) {
        self.lock().receiving = Some(now);
    }

    /// An append that came then waits for room in the store; `None` when it has some.
    pub(super) fn submitting(&self, since: Option<Instant>) {
        self.lock().submitting = since;
    }

    /// An append that came then is answered next.
    pub(super) fn front(&self, since: Instant) {
        self.lock().front = Some(since);
    }

    /// The append that was to be answered next has ended.
    pub(super) fn ended(&self, last: Last) {
        let mut now = self.lock();
        now.front = None;
        now.last = Some(last);
    }

    /// The store did not take an append. Others may be pending, of which this says nothing.
    pub(super) fn refused(&self, last: Last) {
        if last.failure.is_some() {
            self.lock().last = Some(last);
        }
    }

    pub(super) fn hold(&self, part: Part, bytes: usize) {
        self.lock().held[part as usize] += bytes;
    }

    pub(super) fn release(&self, part: Part, bytes: usize) {
        self.lock().held[part as usize] -= bytes;
    }

    /// Returns whether it had not been cut off yet.
    fn cut_off(&self, why: Cut) -> bool {
        self.cut.send_if_modified(|cut| {
            let first = cut.is_none();
            *cut = cut.or(Some(why));
            first
        })
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the later one.
fn later(last: &mut Option<Last>, other: Option<Last>) {
    let ended = |last: &Option<Last>| last.as_ref().map(|last| last.ended);
    if ended(&other) > ended(last) {
        *last = other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_cut(member: &Member) -> Option<Cut> {
        *member.peer.cut.borrow()
    }

    fn peers(ordinary_max: usize, reserve_max: usize) -> Arc<Peers> {
        Arc::new(Peers::new(ordinary_max, reserve_max))
    }

    #[test]
    fn not_too_many_leave_at_a_time() {
        let (peers, begin) = (peers(0, 1), Instant::now());
        let mut leaving: Vec<Member> = (0..=LEAVING_MAX)
            .map(|_| peers.join(begin).unwrap())
            .collect();
        assert!(peers.join(begin).is_none());
        drop(leaving.remove(0));
        assert!(peers.join(begin).is_some());
    }

    #[test]
    fn the_oldest_silent_one_leaves_for_a_newcomer() {
        let (peers, begin) = (peers(3, 1), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let known = peers.join(at(0)).unwrap();
        known.peer.greeted(at(0));
        let (older, newer) = (peers.join(at(1)).unwrap(), peers.join(at(2)).unwrap());
        let third = peers.join(at(9)).unwrap();
        assert_eq!(is_cut(&older), Some(Cut::Place));
        assert_eq!((is_cut(&known), is_cut(&newer)), (None, None));
        // The newcomer has the place at once, and the other one does not give it back later.
        drop(older);
        assert!(third.promote());
        assert_eq!(peers.lock().ordinary, 3);
    }

    #[test]
    fn the_reserve_is_for_those_who_ping_and_the_idlest_leaves_it() {
        let (peers, begin) = (peers(1, 2), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let worker = peers.join(at(0)).unwrap();
        worker.peer.greeted(at(0));
        let first = peers.join(at(1)).unwrap();
        first.peer.greeted(at(1));
        let second = peers.join(at(2)).unwrap();
        second.peer.greeted(at(2));
        first.peer.asked(at(3));
        assert!(!first.promote(), "the ordinary place is taken");
        let third = peers.join(at(4)).unwrap();
        assert_eq!(is_cut(&second), Some(Cut::Place));
        assert!(!second.promote(), "it has no place any more");
        drop(worker);
        assert!(first.promote());
        assert!(!third.promote());
        assert_eq!((is_cut(&first), is_cut(&third)), (None, None));
    }

    #[test]
    fn without_a_reserve_a_newcomer_is_refused() {
        let (peers, now) = (peers(1, 0), Instant::now());
        let known = peers.join(now).unwrap();
        known.peer.greeted(now);
        assert!(peers.join(now).is_none());
        drop(known);
        assert!(peers.join(now).is_some());
    }

    #[test]
    fn what_is_known_of_a_log_is_of_its_own_connections() {
        let (peers, now) = (peers(9, 0), Instant::now());
        let pasts = [Arc::default(), Arc::<Past>::default()];
        let members = [0, 1].map(|at| {
            let member = peers.join(now).unwrap();
            member.peer.serves(&pasts[at]);
            member
        });
        let slow = Last {
            ended: now,
            took: Duration::from_secs(9),
            failure: Some("no room".to_owned()),
        };
        members[0].peer.submitting(Some(now));
        members[0].peer.ended(slow.clone());
        let known = Evidence {
            oldest: Some(now),
            last: Some(slow.clone()),
        };
        assert_eq!(peers.evidence(&pasts[0]), known);
        assert_eq!(peers.evidence(&pasts[1]), Evidence::default());
        drop(members);
        let last = Some(slow);
        assert_eq!(peers.evidence(&pasts[0]), Evidence { oldest: None, last });
        assert_eq!(peers.evidence(&pasts[1]), Evidence::default());
    }

    #[test]
    fn the_slowest_holders_are_cut_off_until_there_is_enough() {
        let (peers, begin) = (peers(9, 0), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let join = |part, bytes, since| {
            let member = peers.join(begin).unwrap();
            member.peer.hold(part, bytes);
            member.peer.sending(since);
            member
        };
        let slow = join(Part::Reads, 100, Some(at(2)));
        let slowest = join(Part::Reads, 100, Some(at(1)));
        let brisk = join(Part::Reads, 100, Some(at(5)));
        let reading = join(Part::Reads, 100, None);
        let appends = join(Part::Appends, 100, Some(at(0)));
        let nothing = join(Part::Reads, 0, Some(at(0)));
        assert_eq!(peers.relieve(Part::Reads, 50, at(3)), 1);
        assert_eq!(is_cut(&slowest), Some(Cut::Memory));
        assert_eq!(is_cut(&slow), None, "the slowest held enough");
        peers.relieve(Part::Reads, 500, at(3));
        assert_eq!(is_cut(&slow), Some(Cut::Memory));
        for kept in [&brisk, &reading, &appends, &nothing] {
            assert_eq!(is_cut(kept), None);
        }
    }
}
