//! Servers by name: their addresses are asked for in the background, by
//! [hickory](https://docs.rs/hickory-resolver), and known when a connection is made.
//!
//! ```text
//!   config ──▶ names ──▶ a task for each, in control ──▶ what is known ──▶ another site
//!                          ▲            │                                   (if it has changed)
//!                          └── its TTL ─┘
//! ```
//!
//! What is known stays known while nobody answers, and while an answer says that there is nothing:
//! an address that is no server's any more fails its check, and an answer that is wrong for a
//! moment takes no server away. The same holds for each host that a service names.
//!
//! - `names`: which names there are, and which servers they come to.
//! - `runtime`: what the resolver stands on.

mod names;
mod runtime;

pub use names::{Found, Name};

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use evenkeel::Class;
use evenkeel::task::{AbortHandle, JoinSet};
use evenkeel::time::{sleep, timeout};
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig,
};
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::{Resolver, ResolverBuilder};
use tracing::{error, info, warn};

use crate::config::{self, Config, Pool};
use crate::runtimes::Runtimes;
use crate::server::Context;
use runtime::Runtime;

/// How long a configuration waits for names that are new in it. The servers of those that come
/// later, if they come, are down until then.
const LEARN_MAX: Duration = Duration::from_secs(5);

/// After a failure it is asked again after the shortest time, and then after twice the time, up to
/// this.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// What is known of names, and who asks for them.
#[derive(Default)]
pub struct Discovery(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    resolver: Option<Arc<Resolver<Runtime>>>,
    settings: config::Resolver,
    known: names::Known,
    asking: BTreeMap<Name, AbortHandle>,
}

impl fmt::Debug for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Discovery")
            .field("known", &self.state().known)
            .finish_non_exhaustive()
    }
}

/// What the hosts of a service came to last. It has those that the service names, and no others.
#[derive(Debug, Default)]
struct Hosts {
    known: HashMap<String, Vec<IpAddr>>,
    /// A host of which nothing is known is left out, as nobody knows more than that.
    is_first: bool,
}

/// Whom a configuration asks for names, and how.
pub struct Asks {
    resolver: Option<Arc<Resolver<Runtime>>>,
    settings: config::Resolver,
}

/// Why the servers of a name are not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotFound {
    /// Nobody answers, or there is no such name.
    #[error("{0}")]
    Net(#[from] NetError),
    /// There are none.
    #[error("the name has no address")]
    Nothing,
}

impl Discovery {
    /// Asks for names that are new, by the settings of this configuration. Waits for a while.
    /// Others are asked for as before until [`follow`](Self::follow): the configuration may still
    /// fail.
    pub async fn learn(&self, config: &Config, runtimes: &Runtimes) -> Asks {
        let wanted = names::names(config);
        let settings = config.resolver.get_ref();
        // Made anew each time, as it reads the system's files.
        let resolver = (!wanted.is_empty()).then(|| Arc::new(resolver(settings)));
        let asks = Asks {
            resolver: resolver.clone(),
            settings: settings.clone(),
        };
        let is_new = |name: &Name| !self.state().known.contains_key(name);
        let new: Vec<Name> = wanted.into_iter().filter(is_new).collect();
        let Some(resolver) = resolver.filter(|_| !new.is_empty()) else {
            return asks;
        };
        let all = ask_all(Arc::clone(&self.0), resolver, new, settings.addresses_max);
        // Who has not answered by then is asked again.
        let all = async { timeout(LEARN_MAX, all).await };
        let _ = runtimes.in_control(all).await;
        asks
    }

    /// The pool with the addresses of its servers instead of their names, as far as these are
    /// known.
    pub fn resolved(&self, pool: &Pool) -> Pool {
        names::resolved(pool, &self.state().known)
    }

    /// Goes on asking for the names of this configuration, and for no others, as
    /// [`learn`](Self::learn) did.
    pub fn follow(&self, context: &Arc<Context>, config: &Config, asks: Asks) {
        let wanted = names::names(config);
        let mut state = self.state();
        let state = &mut *state;
        (state.resolver, state.settings) = (asks.resolver, asks.settings);
        state.known.retain(|name, _| wanted.contains(name));
        for (_, asking) in state
            .asking
            .extract_if(.., |name, _| !wanted.contains(name))
        {
            asking.abort();
        }
        for name in wanted {
            let first = state.known.contains_key(&name);
            state.asking.entry(name.clone()).or_insert_with(|| {
                let asking = keep_asking(Arc::downgrade(context), name, first);
                let control = context.runtimes.control();
                control.spawn_in(Class::NORMAL, asking).abort_handle()
            });
        }
    }

    /// Notes what a name comes to. Whether that is something else than before.
    fn note(&self, name: &Name, found: Vec<Found>) -> bool {
        let mut state = self.state();
        if !state.asking.contains_key(name) || state.known.get(name) == Some(&found) {
            return false;
        }
        state.known.insert(name.clone(), found);
        true
    }

    fn resolver(&self) -> Option<Arc<Resolver<Runtime>>> {
        self.state().resolver.clone()
    }

    fn settings(&self) -> config::Resolver {
        self.state().settings.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        state(&self.0)
    }
}

fn state(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Each change is made whole.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for these names, all at once, and notes what is found.
async fn ask_all(
    known: Arc<Mutex<State>>,
    resolver: Arc<Resolver<Runtime>>,
    names: Vec<Name>,
    max: usize,
) {
    let mut asking = JoinSet::new();
    for name in names {
        let resolver = Arc::clone(&resolver);
        asking.spawn_in(Class::NORMAL, async move {
            let mut hosts = Hosts::new(true);
            let answer = ask(&resolver, &name, max, &mut hosts).await;
            (name, answer)
        });
    }
    while let Some(answer) = asking.join_next().await {
        if let Ok((name, Ok((found, _)))) = answer {
            state(&known).known.insert(name, found);
        }
    }
}

/// Asks for a name until the proxy ends, or the task is.
async fn keep_asking(context: Weak<Context>, name: Name, mut was_found: bool) {
    let (mut retry, mut hosts) = (Duration::ZERO, Hosts::new(!was_found));
    // It may have been asked for a moment ago; then its time is known next.
    loop {
        let Some(context) = context.upgrade() else {
            return;
        };
        let settings = context.discovery.settings();
        let Some(resolver) = context.discovery.resolver() else {
            return;
        };
        let max = settings.addresses_max;
        let wait = match ask(&resolver, &name, max, &mut hosts).await {
            Ok((found, until)) => {
                hosts.is_first = false;
                if !was_found {
                    info!(%name, "{name} is found");
                }
                let shown = shown(&found);
                let is_new = context.discovery.note(&name, found);
                if is_new && was_found {
                    info!(%name, addresses = shown, "{name} is at {shown} now");
                }
                (was_found, retry) = (true, Duration::ZERO);
                if is_new {
                    context.addresses_changed().await;
                }
                until.saturating_duration_since(Instant::now())
            }
            Err(why) => {
                if was_found || retry.is_zero() {
                    warn!(
                        %name,
                        %why,
                        "{name} cannot be looked up: {why}; what is known of it \
                         stays"
                    );
                }
                was_found = false;
                retry = (retry * 2).clamp(settings.ttl_min, RETRY_MAX);
                retry
            }
        };
        drop(context);
        sleep(wait.clamp(settings.ttl_min, settings.ttl_max)).await;
    }
}

/// The first of these addresses, for operators.
fn shown(found: &[Found]) -> String {
    const SHOWN_MAX: usize = 8;
    let first = found.iter().take(SHOWN_MAX);
    let mut shown: Vec<String> = first.map(|one| one.address.to_string()).collect();
    if found.len() > SHOWN_MAX {
        shown.push(format!("{} more", found.len() - SHOWN_MAX));
    }
    shown.join(", ")
}

/// The servers of a name, in a certain order, and until when that is so.
async fn ask(
    resolver: &Resolver<Runtime>,
    name: &Name,
    max: usize,
    hosts: &mut Hosts,
) -> Result<(Vec<Found>, Instant), NotFound> {
    let (mut found, until) = match name {
        Name::Host(host) => {
            let (addresses, until) = addresses(resolver, host).await?;
            (servers(&addresses, 0, 0).collect(), until)
        }
        Name::Service(service) => of_service(resolver, service, max, hosts).await?,
    };
    found.sort();
    found.dedup();
    if found.len() > max {
        warn!(
            %name,
            count = found.len(),
            max,
            "{name} has {} addresses, and the first {max} of them are used, \
             resolver.addresses_max",
            found.len()
        );
        found.truncate(max);
    }
    if found.is_empty() {
        return Err(NotFound::Nothing);
    }
    Ok((found, until))
}

/// The servers of a service, of the best priority alone. A host that nobody answers for stays as it
/// was.
async fn of_service(
    resolver: &Resolver<Runtime>,
    service: &str,
    max: usize,
    hosts: &mut Hosts,
) -> Result<(Vec<Found>, Instant), NotFound> {
    let lookup = resolver.srv_lookup(service).await?;
    let mut until = lookup.valid_until();
    let records = lookup.answers().iter();
    let records: Vec<_> = records
        .filter_map(|record| match &record.data {
            RData::SRV(server) => Some(server),
            _ => None,
        })
        .collect();
    let best = records.iter().map(|server| server.priority).min();
    let (mut found, mut last) = (Vec::new(), None);
    let mut known = HashMap::new();
    for server in records
        .into_iter()
        .filter(|server| Some(server.priority) == best)
        .take(max)
    {
        let host = server.target.to_string();
        let its = match addresses(resolver, &host).await {
            Ok((its, its_until)) => {
                until = until.min(its_until);
                its
            }
            Err(why) => match hosts.after(&host, why) {
                Ok(its) => its,
                // One that does not exist does not hide the others.
                Err(why) if hosts.is_first || why.is_answer() => {
                    last = Some(why);
                    continue;
                }
                Err(why) => return Err(why),
            },
        };
        found.extend(servers(&its, server.port, server.weight));
        known.insert(host, its);
    }
    hosts.known = known;
    match last {
        Some(why) if found.is_empty() => Err(why),
        _ => Ok((found, until)),
    }
}

impl Hosts {
    fn new(is_first: bool) -> Self {
        Self {
            known: HashMap::new(),
            is_first,
        }
    }

    /// What holds for a host that could not be asked for.
    fn after(&self, host: &str, why: NotFound) -> Result<Vec<IpAddr>, NotFound> {
        match self.known.get(host) {
            Some(its) if !why.is_answer() => Ok(its.clone()),
            _ => Err(why),
        }
    }
}

impl NotFound {
    /// Whether somebody has answered, that there is nothing.
    fn is_answer(&self) -> bool {
        match self {
            Self::Net(why) => why.is_no_records_found(),
            Self::Nothing => true,
        }
    }
}

async fn addresses(
    resolver: &Resolver<Runtime>,
    host: &str,
) -> Result<(Vec<IpAddr>, Instant), NotFound> {
    let lookup = resolver.lookup_ip(host).await?;
    Ok((lookup.iter().collect(), lookup.valid_until()))
}

fn servers(addresses: &[IpAddr], port: u16, weight: u16) -> impl Iterator<Item = Found> {
    addresses.iter().map(move |&ip| Found {
        address: SocketAddr::new(ip, port),
        weight,
    })
}

/// A resolver by these settings, and otherwise by the system's.
fn resolver(settings: &config::Resolver) -> Resolver<Runtime> {
    let builder = if settings.servers.is_empty() {
        Resolver::builder(Runtime).unwrap_or_else(|why| {
            warn!(
                %why,
                "the system names no servers for names: {why}; set \
                 resolver.servers, or write addresses"
            );
            by(&[])
        })
    } else {
        by(&settings.servers)
    };
    built(builder, settings).unwrap_or_else(|why| {
        error!(%why, "cannot look names up: {why}");
        // Without servers there is nothing that could fail.
        built(by(&[]), settings).expect("a resolver that asks nobody")
    })
}

fn built(
    mut builder: ResolverBuilder<Runtime>,
    settings: &config::Resolver,
) -> Result<Resolver<Runtime>, NetError> {
    let options = builder.options_mut();
    options.timeout = settings.timeout;
    options.attempts = settings.attempts;
    options.ip_strategy = LookupIpStrategy::Ipv4thenIpv6;
    // Each is asked for when its time is up, and not before.
    options.cache_size = 0;
    builder.build()
}

fn by(servers: &[SocketAddr]) -> ResolverBuilder<Runtime> {
    let servers = servers.iter().map(|server| {
        let mut both = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
        for connection in &mut both {
            connection.port = server.port();
        }
        NameServerConfig::new(server.ip(), true, both.to_vec())
    });
    let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
    Resolver::builder_with_config(config, Runtime)
}
