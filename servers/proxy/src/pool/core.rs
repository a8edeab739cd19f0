//! Which server is next: a structure that knows no clock, thread or socket.
//!
//! ```text
//!             checks fail `fall` times
//!        up ───────────────────────────▶ down       what checks say
//!         ◀───────────────────────────
//!             checks succeed `rise` times
//!
//!     ready ──▶ drain ──▶ maintenance ──▶ ready     what operators say, in any order
//! ```
//!
//! A server gets work while it is up, ready, has a weight and has room, and is not ejected. Backups
//! get some while there are no others; and while there are no backups either, those that are
//! ejected do.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::outlier::{Record, Verdict};
use crate::config::{Balance, Outliers};

/// What operators say of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Admin {
    /// It may have work.
    Ready,
    /// It gets no more, and keeps what it has.
    Drain,
    /// The same, and it is not checked.
    Maintenance,
}

/// What checks and operators have said of a server, as another process is told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// What operators say.
    pub admin: Admin,
    /// Whether checks found it up.
    pub up: bool,
    /// The weight, if operators have changed it.
    pub weight: Option<u32>,
    /// The limit of connections, if operators have changed it.
    pub connections_max: Option<usize>,
}

/// What became of a server by a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Change {
    /// Nothing.
    None,
    /// It went up.
    Up,
    /// It went down.
    Down,
}

/// What became of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Choice {
    /// The server with this index has one connection more.
    Server(usize),
    /// Those that could be chosen have no room.
    Busy,
    /// There are none that could be chosen.
    NoneUp,
}

/// A server.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its part of the work.
    pub weight: u32,
    /// What operators say.
    pub admin: Admin,
    /// Whether checks found it up.
    pub up: bool,
    /// Connections in use.
    pub active: usize,
    /// How many there may be.
    pub active_max: usize,
    /// Since when it has been up or down.
    pub since: Duration,
    /// It gets something only while there are no others.
    pub backup: bool,
    /// What became of its requests.
    pub record: Record,
    /// Checks in a row that say the opposite.
    against: u32,
    /// Where a slow start began, while it lasts.
    starting: Option<Duration>,
    /// What it is owed, by smooth weighted round robin.
    owed: i64,
    /// The hash of its name.
    name: u64,
    /// The key of those who come back to it; 0 if nobody does.
    pub token: u64,
}

/// The servers of a pool.
#[derive(Clone, Debug)]
pub struct Core {
    balance: Balance,
    slow_start: Option<Duration>,
    members: Vec<Member>,
    outliers: Option<Outliers>,
    /// Connections in use, of all.
    active: usize,
    active_max: usize,
    /// Kept from one choice to the next, so that none allocates.
    candidates: Vec<usize>,
}

/// Which servers are chosen from.
#[derive(Clone, Copy, Debug)]
enum Tier {
    /// Those that are no backups.
    Others,
    Backups,
    /// All, since nothing else is left.
    Ejected,
}

impl Tier {
    fn has(self, member: &Member, now: Duration) -> bool {
        let is_in = || !member.record.is_out(now);
        member.is_usable()
            && match self {
                Self::Others => !member.backup && is_in(),
                Self::Backups => member.backup && is_in(),
                Self::Ejected => true,
            }
    }
}

/// Weights are multiplied by this, so that a server that starts slowly can have a part of one.
const SCALE: u64 = 100;

impl Member {
    /// One that is up and ready, as nobody says otherwise.
    pub fn new(name: &str, weight: u32, active_max: usize) -> Self {
        Self {
            weight,
            admin: Admin::Ready,
            up: true,
            active: 0,
            active_max,
            since: Duration::ZERO,
            backup: false,
            record: Record::default(),
            against: 0,
            starting: None,
            owed: 0,
            name: hash(name.as_bytes()),
            token: 0,
        }
    }

    /// Whether it may have work when it has room.
    pub fn is_usable(&self) -> bool {
        self.up && self.admin == Admin::Ready && self.weight > 0
    }

    fn has_room(&self) -> bool {
        self.active < self.active_max
    }

    /// The weight that counts now, scaled, and not 0 for one that is usable.
    fn scaled(&self, now: Duration, slow_start: Option<Duration>) -> u64 {
        let whole = u64::from(self.weight) * SCALE;
        let Some((began, length)) = self.starting.zip(slow_start) else {
            return whole;
        };
        let passed = now.saturating_sub(began).as_millis();
        let length = length.as_millis().max(1);
        let part = u128::from(whole) * passed.min(length) / length;
        u64::try_from(part).unwrap_or(whole).clamp(1, whole.max(1))
    }
}

impl Core {
    /// A pool of these servers.
    pub fn new(balance: Balance, slow_start: Option<Duration>, members: Vec<Member>) -> Self {
        let candidates = Vec::with_capacity(members.len());
        Self {
            balance,
            slow_start,
            members,
            outliers: None,
            active: 0,
            active_max: usize::MAX,
            candidates,
        }
    }

    /// Sets how many connections all servers may have together, and when one is ejected.
    pub fn limit(&mut self, active_max: usize, outliers: Option<Outliers>) {
        (self.active_max, self.outliers) = (active_max, outliers);
    }

    /// The servers.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Chooses a server and counts a connection to it. Those that were tried come last; a key
    /// matters if the choice is by hash.
    pub fn choose(&mut self, now: Duration, key: u64, tried: &[usize]) -> Choice {
        let has_room = self.active < self.active_max;
        // Also at one that is drained, when there is no other.
        if let Some(index) = self.of_token(now, key, tried).filter(|_| has_room) {
            return self.take(index, now);
        }
        let Some(tier) = self.tier(now) else {
            return Choice::NoneUp;
        };
        if !has_room {
            return Choice::Busy;
        }
        let fits = |core: &Self, index: usize, again: bool| {
            let member = &core.members[index];
            tier.has(member, now) && member.has_room() && tried.contains(&index) == again
        };
        let mut candidates = std::mem::take(&mut self.candidates);
        for again in [false, true] {
            candidates.clear();
            candidates.extend((0..self.members.len()).filter(|&index| fits(self, index, again)));
            if let Some(index) = self.best(now, key, &candidates) {
                self.candidates = candidates;
                return self.take(index, now);
            }
        }
        self.candidates = candidates;
        Choice::Busy
    }

    fn take(&mut self, index: usize, now: Duration) -> Choice {
        self.active += 1;
        let member = &mut self.members[index];
        member.active += 1;
        if let Some(outliers) = &self.outliers {
            member.record.chosen(now, outliers);
        }
        Choice::Server(index)
    }

    /// The server to which a client comes back, if it has room.
    fn of_token(&self, now: Duration, key: u64, tried: &[usize]) -> Option<usize> {
        let index = self.stays_at(now, key)?;
        (self.members[index].has_room() && !tried.contains(&index)).then_some(index)
    }

    /// The server to which a client comes back. One that is drained keeps its clients.
    pub fn stays_at(&self, now: Duration, key: u64) -> Option<usize> {
        let is_it = |member: &Member| {
            member.token == key
                && member.up
                && member.admin != Admin::Maintenance
                && !member.record.is_out(now)
        };
        (key != 0)
            .then(|| self.members.iter().position(is_it))
            .flatten()
    }

    /// The first that has a server.
    fn tier(&self, now: Duration) -> Option<Tier> {
        let tiers = [Tier::Others, Tier::Backups, Tier::Ejected];
        let has = |tier: &Tier| self.members.iter().any(|member| tier.has(member, now));
        tiers.into_iter().find(has)
    }

    /// Notes what became of something that a server was chosen for.
    pub fn outcome(&mut self, index: usize, good: bool, now: Duration) -> Verdict {
        let Some(outliers) = self.outliers else {
            return Verdict::None;
        };
        let usable = self.members.iter().filter(|member| member.is_usable());
        let out = usable.clone().filter(|member| member.record.is_ejected());
        let (out, usable) = (out.count() + 1, usable.count());
        let may_eject = || out * 100 <= usable * outliers.ejected_percent_max as usize;
        let record = &mut self.members[index].record;
        record.note(good, now, &outliers, may_eject)
    }

    /// A connection has ended.
    pub fn release(&mut self, index: usize) {
        let member = &mut self.members[index];
        debug_assert!(member.active > 0, "more connections ended than began");
        member.active = member.active.saturating_sub(1);
        self.active = self.active.saturating_sub(1);
        if member.active == 0 {
            member.record.rests();
        }
    }

    /// Notes what a check found.
    pub fn checked(
        &mut self,
        index: usize,
        good: bool,
        (rise, fall): (u32, u32),
        now: Duration,
    ) -> Change {
        let member = &mut self.members[index];
        if good == member.up {
            member.against = 0;
            return Change::None;
        }
        member.against += 1;
        if member.against < if good { rise } else { fall } {
            return Change::None;
        }
        self.set_up(index, good, now)
    }

    /// Says that it is up or down.
    pub fn set_up(&mut self, index: usize, up: bool, now: Duration) -> Change {
        let slow = self.slow_start.is_some();
        let member = &mut self.members[index];
        member.against = 0;
        if member.up == up {
            return Change::None;
        }
        member.up = up;
        member.since = now;
        // What it was before does not count for what it is now.
        member.record = Record::default();
        if up {
            member.starting = slow.then_some(now);
            Change::Up
        } else {
            Change::Down
        }
    }

    /// Says what operators want.
    pub fn set_admin(&mut self, index: usize, admin: Admin, now: Duration) {
        let slow = self.slow_start.is_some();
        let member = &mut self.members[index];
        if member.admin != admin {
            member.since = now;
            if admin == Admin::Ready {
                member.starting = slow.then_some(now);
            }
        }
        member.admin = admin;
    }

    /// Changes how many connections there may be.
    pub fn set_max(&mut self, index: usize, active_max: usize) {
        self.members[index].active_max = active_max;
    }

    /// Changes a weight.
    pub fn set_weight(&mut self, index: usize, weight: u32) {
        self.members[index].weight = weight;
    }

    /// Takes over what checks and operators said of a server in an earlier configuration.
    pub fn inherit(&mut self, index: usize, before: &Member) {
        let member = &mut self.members[index];
        member.admin = before.admin;
        member.up = before.up;
        member.against = before.against;
    }

    /// Takes over what is known of a server that is the same as before, by the same clock.
    pub fn keep(&mut self, index: usize, before: &Member) {
        let member = &mut self.members[index];
        member.weight = before.weight;
        member.active_max = before.active_max;
        member.since = before.since;
        member.starting = before.starting;
        // Without these nothing would say that it is good again.
        if self.outliers.is_some() {
            member.record = before.record.clone();
        }
    }

    /// Takes over what another process says. Nothing starts slowly by it.
    pub fn restore(&mut self, index: usize, up: bool, admin: Admin, now: Duration) {
        let member = &mut self.members[index];
        (member.up, member.admin, member.since) = (up, admin, now);
    }

    fn best(&mut self, now: Duration, key: u64, candidates: &[usize]) -> Option<usize> {
        match self.balance {
            Balance::RoundRobin => self.next_in_turn(now, candidates),
            Balance::LeastConnections => self.least_busy(now, candidates),
            Balance::Hash => self.of_key(now, key, candidates),
        }
    }

    /// Smooth weighted round robin: each gets its weight, and the one that is owed most pays for
    /// all. So the turns of a heavy server are spread among the others'.
    fn next_in_turn(&mut self, now: Duration, candidates: &[usize]) -> Option<usize> {
        let mut total = 0;
        let mut best: Option<usize> = None;
        for &index in candidates {
            let weight = self.members[index].scaled(now, self.slow_start);
            let weight = i64::try_from(weight).unwrap_or(i64::MAX);
            total += weight;
            self.members[index].owed += weight;
            if best.is_none_or(|best| self.members[index].owed > self.members[best].owed) {
                best = Some(index);
            }
        }
        self.members[best?].owed -= total;
        best
    }

    /// The fewest connections for its weight; in turn among equals.
    fn least_busy(&mut self, now: Duration, candidates: &[usize]) -> Option<usize> {
        let slow_start = self.slow_start;
        // Compared as a/b < c/d by a*d < c*b, without rounding.
        let load = |member: &Member| {
            let weight = member.scaled(now, slow_start).max(1);
            (member.active as u128 + 1, u128::from(weight))
        };
        let mut equals: Vec<usize> = Vec::new();
        for &index in candidates {
            let (ours, weight) = load(&self.members[index]);
            let order = equals.first().map(|&first| {
                let (theirs, other) = load(&self.members[first]);
                (ours * other).cmp(&(theirs * weight))
            });
            match order {
                Some(std::cmp::Ordering::Greater) => {}
                Some(std::cmp::Ordering::Equal) => equals.push(index),
                Some(std::cmp::Ordering::Less) | None => equals = vec![index],
            }
        }
        self.next_in_turn(now, &equals)
    }

    /// Weighted rendezvous hashing: each server draws a number for the key, and the least wins. A
    /// server that leaves moves its own keys alone, and one that starts slowly takes its keys back
    /// one after the other.
    fn of_key(&self, now: Duration, key: u64, candidates: &[usize]) -> Option<usize> {
        let draw = |&index: &usize| {
            let member = &self.members[index];
            // In (0, 1], by the 53 bits that a float has.
            let drawn = (mix(key ^ member.name) >> 11) + 1;
            let drawn = drawn as f64 / (1_u64 << 53) as f64;
            // Below 2^53, as a weight is at most 256.
            -drawn.ln() / member.scaled(now, self.slow_start) as f64
        };
        let least = |a: &&usize, b: &&usize| draw(a).total_cmp(&draw(b));
        candidates.iter().min_by(least).copied()
    }
}

/// A hash that is the same in every process and version: FNV-1a with a final mix.
pub fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    mix(bytes.iter().fold(0xCBF2_9CE4_8422_2325, step))
}

/// The finalizer of SplitMix64.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests;
