//! A configuration at work.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::Class;
use evenkeel::time::Instant;
use servers_common::slots::Slots;
use tokio::sync::watch;
use tracing::{error_span, warn};

use crate::access_log::{Logs, Recorder};
use crate::acme::{Challenges, Wanted};
use crate::check::Checks;
use crate::config::{self, Config};
use crate::counters::OfListener;
use crate::discovery::Discovery;
use crate::http::All;
use crate::pool::{Pool, Pools, Server};
use crate::route::Router;
use crate::runtimes::Runtimes;
use crate::socket::Address;
use crate::tls;
use crate::upgrade::Inherited;

/// The time between two complaints of a listener.
const COMPLAINTS: Duration = Duration::from_secs(1);

/// A configuration at work.
#[derive(Debug)]
pub struct Site {
    /// What the operator wrote.
    pub config: Config,
    /// The listeners, by their places.
    pub fronts: BTreeMap<Place, Arc<Front>>,
    /// The pools, by their names.
    pub pools: BTreeMap<String, Arc<Watched>>,
    /// The logs of requests, by their names.
    pub logs: Logs,
    /// What connections of HTTP/2 hold.
    pub held: Arc<All>,
    /// What authorities are answered.
    pub challenges: Arc<Challenges>,
}

/// What makes a listener the same one in the next configuration: its address, and its name too if
/// the system chooses the port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The address.
    pub address: Address,
    /// Its name, if the system chooses the port.
    pub name: Option<String>,
}

impl Place {
    /// That of a listener.
    pub fn new(name: &str, address: &Address) -> Self {
        Self {
            address: address.clone(),
            name: address.takes_any_port().then(|| name.to_owned()),
        }
    }
}

/// A pool and its checks, which go on as long as this is there.
#[derive(Debug)]
pub struct Watched {
    /// The pool.
    pub pool: Arc<Pool>,
    /// Its checks.
    pub checks: Checks,
}

/// A listener, as far as its connections see it.
#[derive(Debug)]
pub struct Front {
    /// Its name.
    pub name: Arc<str>,
    /// What the configuration says of it.
    pub config: config::Listener,
    /// The class of its connections.
    pub class: Class,
    /// TLS with its clients.
    pub tls: Option<tls::Listening>,
    /// Where its requests go.
    pub router: Router,
    /// Its connections.
    pub slots: Arc<Slots>,
    /// What was counted.
    pub counters: Arc<OfListener>,
    /// Where what is noted of its requests goes.
    pub recorder: Arc<Recorder>,
    /// What connections of HTTP/2 hold, of all listeners.
    pub held: Arc<All>,
    /// What authorities are answered, of all listeners.
    pub challenges: Arc<Challenges>,
    leaving: watch::Receiver<bool>,
    /// Set when a configuration without this listener comes to work; never cleared, as one that
    /// comes back has another. Relaxed: an answer may go out a moment before.
    gone: Arc<AtomicBool>,
    complained: Mutex<Option<Instant>>,
}

impl Site {
    /// One that serves nothing.
    pub(super) fn empty(config: &Config) -> Self {
        Self {
            config: Config {
                process: config.process.clone(),
                events: config.events.clone(),
                resolver: config.resolver.clone(),
                classes: BTreeMap::new(),
                logs: BTreeMap::new(),
                listeners: BTreeMap::new(),
                pools: BTreeMap::new(),
                files: Vec::new(),
            },
            fronts: BTreeMap::new(),
            pools: BTreeMap::new(),
            logs: Logs::new(),
            held: Arc::new(All::new(config.process.get_ref().h2_held_bytes_max)),
            challenges: Arc::default(),
        }
    }

    /// The next one. A pool of which nothing changed is the same one as before.
    pub(super) fn new(
        (config, logs): (Config, Logs),
        before: &Site,
        leaving: &watch::Receiver<bool>,
        runtimes: &Runtimes,
        discovery: &Discovery,
    ) -> Self {
        let pools = pools(&config, before, runtimes, discovery);
        let by_name: Pools = pools
            .iter()
            .map(|(name, watched)| (name.clone(), Arc::clone(&watched.pool)))
            .collect();
        // As many handshakes compute at a time.
        let permits = runtimes.serving.stats().workers.len();
        let classes = |name: &str| runtimes.serving.class(name);
        let mut fronts = BTreeMap::new();
        for (name, listener) in &config.listeners {
            let listener = listener.get_ref();
            let place = Place::new(name, listener.bind.get_ref());
            let known = before.fronts.get(&place);
            let class = listener.class.as_ref();
            let class = class.and_then(|name| classes(name.get_ref()));
            let class = class.unwrap_or_default();
            let tls = listener.tls.as_ref().and_then(|tls| {
                let own = tls.get_ref().class.as_ref();
                let class = own
                    .and_then(|name| classes(name.get_ref()))
                    .unwrap_or(class);
                let known = known.and_then(|known| known.tls.as_ref());
                let side = tls.get_ref().side.as_ref()?;
                Some(tls::Listening::new(side, class, known, permits))
            });
            let name: Arc<str> = name.as_str().into();
            let counters = known.map(|known| Arc::clone(&known.counters));
            let counters = counters.unwrap_or_default();
            let log = listener.log.as_ref();
            let log = log.and_then(|log| logs.get(log.get_ref()));
            let front = Front {
                config: listener.clone(),
                class,
                tls,
                router: Router::new(
                    (&name, listener),
                    &by_name,
                    class,
                    classes,
                    known.map(|known| &known.router),
                ),
                slots: known
                    .map(|known| Arc::clone(&known.slots))
                    .unwrap_or_default(),
                recorder: Recorder::new(log, &name, &counters),
                counters,
                held: Arc::clone(&before.held),
                challenges: Arc::clone(&before.challenges),
                leaving: leaving.clone(),
                gone: known
                    .map(|known| Arc::clone(&known.gone))
                    .unwrap_or_default(),
                complained: Mutex::new(None),
                name,
            };
            fronts.insert(place, Arc::new(front));
        }
        Self {
            config,
            fronts,
            pools,
            logs,
            held: Arc::clone(&before.held),
            challenges: Arc::clone(&before.challenges),
        }
    }

    /// The certificates that listeners get by themselves.
    pub(super) fn wanted(&self) -> impl Iterator<Item = (String, Wanted, Arc<tls::Live>)> + '_ {
        self.fronts.values().filter_map(|front| {
            let acme = front.config.tls.as_ref()?.get_ref().acme.as_ref()?;
            let live = front.tls.as_ref()?.live.as_ref()?;
            let wanted = acme.get_ref().wanted.clone()?;
            Some((front.name.to_string(), wanted, Arc::clone(live)))
        })
    }

    /// Goes on with what an earlier process knows of listeners and servers.
    pub(super) fn restore(&self, inherited: &Inherited) {
        for (place, said) in inherited.said() {
            let Some(front) = self.fronts.get(place) else {
                continue;
            };
            front.slots.switch(!said.is_off);
            if let Some(max) = said.connections_max {
                front.slots.set_max(max);
            }
            if let (Some(tls), Some(keys)) = (&front.tls, &said.tickets) {
                tls.restore(keys);
            }
        }
        for (name, watched) in &self.pools {
            for (index, server) in watched.pool.servers().iter().enumerate() {
                let config = &server.config;
                if let Some(known) = inherited.standing(name, &config.name, &config.address) {
                    watched.pool.restore(index, known);
                }
            }
        }
    }

    /// Closes idle connections to servers that were there before, and are no more. Requests that
    /// are under way go on. Connections of listeners that are no more end with their next answer.
    pub(super) fn retire(&self, before: &Self) {
        for (place, front) in &before.fronts {
            if !self.fronts.contains_key(place) {
                front.gone.store(true, Ordering::Relaxed);
            }
        }
        let servers = |site: &Self| -> Vec<Arc<Server>> {
            let pools = site.pools.values();
            pools
                .flat_map(|watched| watched.pool.servers().to_vec())
                .collect()
        };
        let ours: HashSet<*const Server> = servers(self).iter().map(Arc::as_ptr).collect();
        for server in servers(before) {
            if !ours.contains(&Arc::as_ptr(&server)) {
                server.retire();
            }
        }
    }

    /// Closes idle connections whose time is up.
    pub(super) fn sweep(&self) {
        let pools = self.pools.values();
        for server in pools.flat_map(|watched| watched.pool.servers()) {
            server.sweep(false);
        }
    }
}

/// The pools, of which those are the same ones as before of which nothing changed.
fn pools(
    config: &Config,
    before: &Site,
    runtimes: &Runtimes,
    discovery: &Discovery,
) -> BTreeMap<String, Arc<Watched>> {
    let mut pools = BTreeMap::new();
    for (name, pool) in &config.pools {
        let pool = discovery.resolved(pool.get_ref());
        let watched = match before.pools.get(name) {
            Some(watched) if watched.pool.config == pool => Arc::clone(watched),
            known => {
                let known = known.map(|watched| &*watched.pool);
                let pool = Pool::new(name, pool, known);
                let checks = Checks::begin(&pool, runtimes.control());
                Arc::new(Watched { pool, checks })
            }
        };
        pools.insert(name.clone(), watched);
    }
    pools
}

impl Front {
    /// Whether the proxy ends, another one has taken over, or the listener is gone: the next answer
    /// is the last one of its connection.
    pub fn is_closing(&self) -> bool {
        *self.leaving.borrow() || self.gone.load(Ordering::Relaxed)
    }

    /// Says what cannot be said to a client, once in a second.
    pub fn complain(&self, what: &impl Display) {
        self.say(None, what);
    }

    /// The same of a request by the route with this [index](crate::route::Destination::index).
    pub fn complain_of(&self, route: usize, what: &impl Display) {
        self.say(self.router.route(route), what);
    }

    fn say(&self, route: Option<&str>, what: &impl Display) {
        let now = Instant::now();
        let Ok(mut last) = self.complained.lock() else {
            return;
        };
        if last.is_none_or(|last| now.saturating_duration_since(last) >= COMPLAINTS) {
            *last = Some(now);
            drop(last);
            let listener = &*self.name;
            let span = match route {
                Some(route) => error_span!("request", listener, route),
                None => error_span!("listener", listener),
            };
            span.in_scope(|| warn!("listener {listener}: {what}"));
        }
    }
}
