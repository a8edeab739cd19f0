//! Pools: which server gets a connection, who waits while none has room, and what may be tried
//! again.
//!
//! All of a pool that changes is behind one lock, which is held for the choice alone. Waiters are
//! told without it.

mod budget;
mod core;
mod dial;
mod outlier;
mod queue;
mod server;
mod sticky;

pub use self::core::{Admin, Change, Choice, Core, Member, Standing, hash};
pub use budget::Budget;
pub(crate) use dial::dial_two;
pub use dial::{Dialled, NoConnection, Wanted, dial};
pub use outlier::Verdict;
pub use server::Server;
pub use sticky::said;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel::time::{Instant, timeout};
use tracing::{info, warn};

use crate::config;
use crate::sessions;
use queue::{Queue, Waiter};

/// Servers that do the same.
#[derive(Debug)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// What the configuration says of it.
    pub config: config::Pool,
    servers: Vec<Arc<Server>>,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    core: Core,
    queue: Queue,
    budget: Budget,
}

/// A connection to a server that may be made; the place is free again when this is dropped.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<Pool>,
    index: usize,
    /// How long it was waited for.
    pub queued: Duration,
}

/// Why there is no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoServer {
    /// None may have work.
    #[error(
        "no server of pool {0} is up and ready: see `show servers state` at the admin socket for \
         what checks found"
    )]
    NoneUp(String),
    /// The queue is full.
    #[error(
        "all servers of pool {0} have their connections_max, and its queue of {1} is full: try \
         again later"
    )]
    QueueFull(String, usize),
    /// It took too long.
    #[error("no server of pool {0} has had room within {1:?}, queue.timeout: try again later")]
    QueueTimeout(String, Duration),
}

impl Pool {
    /// A pool by its configuration. Servers that an earlier one had too keep their state, their
    /// figures, their ejections and their idle connections; their connections in use are counted
    /// anew.
    pub fn new(name: &str, config: config::Pool, before: Option<&Pool>) -> Arc<Self> {
        let side = config.tls_side();
        // What is kept for others could not be told from what is encrypted for whom it should be.
        let same_tls = before.is_some_and(|before| before.config.tls_side() == side);
        let mut servers = Vec::new();
        let mut members = Vec::new();
        // Times of servers that stay go on.
        let began = before.map_or_else(Instant::now, |before| before.began);
        let now = began.elapsed();
        for server in &config.servers {
            let server = server.get_ref();
            let mut member = Member::new(&server.name, server.weight, server.connections_max);
            member.backup = server.backup;
            member.token = match config.sticky {
                Some(_) => sticky::token(&server.name),
                None => 0,
            };
            // Until its address is found.
            member.up = server.address.is_known();
            member.since = now;
            members.push(member);
            let known = before.and_then(|before| before.server(&server.name));
            let known = known.filter(|(_, known)| known.config == *server && same_tls);
            servers.push(match known {
                Some((_, known)) => Arc::clone(known),
                None => {
                    // The configuration was checked: each server has a name.
                    let tls = side.and_then(|side| side.connector(server.named()).ok());
                    Arc::new(Server::new(server.clone(), tls))
                }
            });
        }
        let mut core = Core::new(config.balance, config.slow_start, members);
        let outliers = config.outliers.as_ref().map(|outliers| *outliers.get_ref());
        core.limit(config.requests_max, outliers);
        if let Some(before) = before {
            inherit(&mut core, before, &servers, config.check.is_some());
        }
        for (index, server) in servers.iter().enumerate() {
            // What operators say counts for more than what the file has always said.
            let known = before.and_then(|before| before.server(&server.config.name));
            let was = known.is_some_and(|(_, known)| known.config.disabled);
            match (was, server.config.disabled) {
                (false, true) => core.set_admin(index, Admin::Maintenance, now),
                (true, false) => core.set_admin(index, Admin::Ready, now),
                _ => {}
            }
        }
        Arc::new(Self {
            name: name.to_owned(),
            servers,
            began,
            state: Mutex::new(State {
                core,
                queue: Queue::new(config.queue.max),
                budget: Budget::new(config.retries),
            }),
            config,
        })
    }

    /// The servers, in the order of the configuration.
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// A server and its index, by its name.
    pub fn server(&self, name: &str) -> Option<(usize, &Arc<Server>)> {
        let named = |(_, server): &(usize, &Arc<Server>)| server.config.name == name;
        self.servers.iter().enumerate().find(named)
    }

    /// The state of its servers, at the moment.
    pub fn members(&self) -> Vec<Member> {
        self.state().core.members().to_vec()
    }

    /// How long its servers' states have lasted is counted from its beginning.
    pub fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// How many wait for a server.
    pub fn waiting(&self) -> usize {
        self.state().queue.len()
    }

    /// A server for a connection, or a place in the queue and then a server.
    ///
    /// # Errors
    ///
    /// [`NoServer`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the place is given to another one.
    pub async fn take(self: &Arc<Self>, key: u64, tried: &[usize]) -> Result<Lease, NoServer> {
        let now = self.time_of_choice();
        let waiting = {
            let mut state = self.state();
            match state.core.choose(now, key, tried) {
                Choice::Server(index) => return Ok(self.lease(index)),
                Choice::NoneUp => return Err(NoServer::NoneUp(self.name.clone())),
                Choice::Busy => state.queue.join(key, tried),
            }
        };
        let Some(waiting) = waiting else {
            return Err(NoServer::QueueFull(
                self.name.clone(),
                self.config.queue.max,
            ));
        };
        let since = self.age();
        let limit = self.config.queue.timeout;
        match timeout(limit, waiting).await {
            Ok(Ok(mut lease)) => {
                lease.queued = self.age().saturating_sub(since);
                Ok(lease)
            }
            _ => Err(NoServer::QueueTimeout(self.name.clone(), limit)),
        }
    }

    /// A request has come, which pays for a part of a retry.
    pub fn earn_retry(&self) {
        self.state().budget.earn();
    }

    /// Whether the budget has a retry, which is spent.
    #[must_use]
    pub fn spend_retry(&self) -> bool {
        self.state().budget.spend()
    }

    /// Notes what a check of a server found.
    pub fn checked(self: &Arc<Self>, index: usize, good: bool) -> Change {
        let Some(check) = &self.config.check else {
            return Change::None;
        };
        let (now, counts) = (self.age(), (check.rise, check.fall));
        let change = self.change(|core| core.checked(index, good, counts, now));
        self.follow(index, change)
    }

    /// The cookie that has a client come back to a server, if it has none yet for one that it can
    /// come back to: `key` is what it has said.
    pub fn cookie(&self, key: u64, server: &Server) -> Option<String> {
        let sticky = self.config.sticky.as_ref()?.get_ref();
        let name = &server.config.name;
        let now = self.age();
        let comes_back = self.state().core.stays_at(now, key).is_some();
        (!comes_back).then(|| sticky::cookie(sticky, name))
    }

    /// Notes what became of a request or a connection, by which a server may be ejected.
    pub fn outcome(&self, index: usize, good: bool) {
        if self.config.outliers.is_none() {
            return;
        }
        let verdict = self.state().core.outcome(index, good, self.age());
        let server = &self.servers[index];
        let (pool, name) = (&self.name, &server.config.name);
        match verdict {
            Verdict::None => {}
            Verdict::Ejected(time) => {
                server.counters.ejections.one();
                warn!(
                    pool,
                    server = name,
                    ?time,
                    "server {pool}/{name} is ejected for {time:?}"
                );
            }
            Verdict::Back => info!(pool, server = name, "server {pool}/{name} is back"),
        }
    }

    /// Notes the status of an answer, in the same way.
    pub fn answered(&self, index: usize, status: u16) {
        if let Some(outliers) = &self.config.outliers {
            let is_error = outliers.get_ref().server_errors && status >= 500;
            self.outcome(index, !is_error);
        }
    }

    /// Says that a server is up or down, until checks say otherwise.
    pub fn set_up(self: &Arc<Self>, index: usize, up: bool) -> Change {
        let now = self.age();
        let change = self.change(|core| core.set_up(index, up, now));
        self.follow(index, change)
    }

    /// Says what operators want of a server.
    pub fn set_admin(self: &Arc<Self>, index: usize, admin: Admin) {
        let now = self.age();
        self.change(|core| core.set_admin(index, admin, now));
        if admin == Admin::Maintenance {
            self.servers[index].sweep(true);
        }
    }

    /// Changes how many connections a server may have.
    pub fn set_max(self: &Arc<Self>, index: usize, active_max: usize) {
        self.change(|core| core.set_max(index, active_max));
    }

    /// What checks and operators have said of a server.
    pub fn standing(&self, index: usize) -> Standing {
        let member = self.state().core.members()[index].clone();
        let config = &self.servers[index].config;
        let (weight, max) = (config.weight, config.connections_max);
        Standing {
            admin: member.admin,
            up: member.up,
            weight: Some(member.weight).filter(|&now| now != weight),
            connections_max: Some(member.active_max).filter(|&now| now != max),
        }
    }

    /// Goes on with what another process knows of a server.
    pub fn restore(self: &Arc<Self>, index: usize, standing: Standing) {
        let now = self.age();
        // Without checks nothing would say that it is up again.
        let up = standing.up || self.config.check.is_none();
        self.change(|core| {
            core.restore(index, up, standing.admin, now);
            if let Some(weight) = standing.weight {
                core.set_weight(index, weight);
            }
            if let Some(max) = standing.connections_max {
                core.set_max(index, max);
            }
        });
    }

    /// Changes the weight of a server.
    pub fn set_weight(self: &Arc<Self>, index: usize, weight: u32) {
        self.change(|core| core.set_weight(index, weight));
    }

    fn follow(&self, index: usize, change: Change) -> Change {
        if change == Change::Down {
            let server = &self.servers[index];
            server.counters.downs.one();
            server.sweep(true);
        }
        change
    }

    fn lease(self: &Arc<Self>, index: usize) -> Lease {
        self.servers[index].counters.chosen.one();
        Lease {
            pool: Arc::clone(self),
            index,
            queued: Duration::ZERO,
        }
    }

    /// Changes something by which there may be room, and gives that to those who wait, in one step:
    /// whoever comes at this moment does not overtake them.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut Core) -> T) -> T {
        let now = self.time_of_choice();
        let mut state = self.state();
        let State { core, queue, .. } = &mut *state;
        let changed = change(core);
        let choose = |waiter: &Waiter| match core.choose(now, waiter.key, &waiter.tried) {
            Choice::Server(index) => Some(index),
            Choice::Busy | Choice::NoneUp => None,
        };
        let served = queue.serve(choose);
        drop(state);
        for (waiter, index) in served {
            // Without the lock, as this wakes. One that has just left gives its place back, for the
            // next one.
            drop(waiter.lease.send(self.lease(index)));
        }
        changed
    }

    /// The time, if choices go by it: the clock is read for each request.
    fn time_of_choice(&self) -> Duration {
        if self.config.slow_start.is_some() || self.config.outliers.is_some() {
            self.age()
        } else {
            Duration::ZERO
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A choice either is made or is not.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes over what is known of the servers that there were before.
fn inherit(core: &mut Core, before: &Pool, servers: &[Arc<Server>], is_checked: bool) {
    let state = before.state();
    for (index, server) in servers.iter().enumerate() {
        let Some((known, old)) = before.server(&server.config.name) else {
            continue;
        };
        let member = &state.core.members()[known];
        // Without checks nothing would say that it is up again.
        if is_checked && old.config.address == server.config.address {
            core.inherit(index, member);
        } else {
            core.set_admin(index, member.admin, before.age());
        }
        if Arc::ptr_eq(old, server) {
            core.keep(index, member);
        }
    }
}

impl Lease {
    /// The server.
    pub fn server(&self) -> &Arc<Server> {
        &self.pool.servers[self.index]
    }

    /// Its index in the pool.
    pub fn index(&self) -> usize {
        self.index
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.change(|core| core.release(self.index));
        sessions::left(&self.pool, self.index);
    }
}

/// Pools by their names.
pub type Pools = BTreeMap<String, Arc<Pool>>;

#[cfg(test)]
mod tests;
