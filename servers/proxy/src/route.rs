//! Which pool a request goes to, in which class, and by which rules.
//!
//! Paths are compared as they stand in the request: what is written in another way, such as with
//! `%2e` or `..`, is another path.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use evenkeel::Class;

use crate::compress::Compress;
use crate::config::{self, Network, Pattern};
use crate::http::Request;
use crate::policy::{self, Limiter, OfListener, Rules};
use crate::pool::{Pool, Pools};

/// The routes of a listener.
#[derive(Debug)]
pub struct Router {
    routes: Vec<Route>,
    otherwise: Option<Arc<Destination>>,
    /// That of the listener, which is in the rules of all its routes.
    limit: Option<Arc<Limiter>>,
    /// That of the listener, for routes that say nothing.
    compress: Option<Arc<Compress>>,
}

#[derive(Debug)]
struct Route {
    conditions: Conditions,
    destination: Arc<Destination>,
}

/// All of them have to be met.
#[derive(Debug, PartialEq, Eq)]
struct Conditions {
    host: Option<Host>,
    paths: Vec<PathIs>,
    methods: Option<Vec<String>>,
    headers: BTreeMap<String, String>,
    client: Option<Vec<Network>>,
    server_names: Option<Vec<Host>>,
    host_matches: Option<Pattern<true>>,
    path_matches: Option<Pattern>,
    header_matches: BTreeMap<String, Pattern>,
}

/// What a path has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PathIs {
    /// This one, or one below it.
    Below(String),
    /// This one.
    Is(String),
    /// One that begins so.
    Begins(String),
    /// One that ends so.
    Ends(String),
}

/// Where a request goes.
#[derive(Debug)]
pub struct Destination {
    /// Its pool; none, if its rules answer it.
    pub pool: Option<Arc<Pool>>,
    /// Its class.
    pub class: Class,
    /// The name of the class.
    pub class_name: Arc<str>,
    /// The route, such as `web/route1`, or the listener.
    pub route: Arc<str>,
    /// Its place among the routes, by which [`Router::route`] knows it.
    pub index: usize,
    /// What is done with it beside.
    pub rules: Option<Arc<Rules>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Host {
    /// This name.
    Is(String),
    /// A name that ends with this, from its dot on.
    Below(String),
}

impl Router {
    /// The routes of a listener's configuration, which was checked: routes to pools that are not
    /// there would be left out. Without a class of their own they have that of the listener. Limits
    /// that were there before, and have not changed, go on with what they know.
    pub fn new(
        (name, listener): (&str, &config::Listener),
        pools: &Pools,
        class: Class,
        classes: impl Fn(&str) -> Option<Class>,
        before: Option<&Self>,
    ) -> Self {
        let limit = listener.rate_limit.as_ref().map(|limit| {
            let known = before.and_then(|before| before.limit.as_ref());
            policy::kept(known, limit.get_ref())
        });
        let compress = compression(listener, before);
        let whole = OfListener {
            name,
            config: listener,
            limit: limit.as_ref(),
            compress: compress.as_ref(),
        };
        let class_of_listener = listener.class.as_ref().map(|name| name.get_ref().as_str());
        let destination = |(index, route): (usize, &str), own: Option<&config::Route>, before| {
            let route: Arc<str> = route.into();
            let pool = match own {
                Some(own) => own.pool.as_ref(),
                None => listener.pool.as_ref(),
            };
            let pool = pool.map(|pool| pools.get(pool.get_ref()).map(Arc::clone));
            let own_class = own.and_then(|own| own.class.as_ref());
            let own_class = own_class.map(|name| name.get_ref().as_str());
            Some(Arc::new(Destination {
                pool: match pool {
                    Some(pool) => Some(pool?),
                    None => None,
                },
                class: own_class.and_then(&classes).unwrap_or(class),
                class_name: own_class.or(class_of_listener).unwrap_or("normal").into(),
                rules: Rules::new(whole, (&route, own), before),
                route,
                index,
            }))
        };
        let route = |(index, route): (usize, &toml::Spanned<config::Route>)| {
            let route = route.get_ref();
            let conditions = Conditions::new(route);
            let known = before.and_then(|before| before.rules_of(&conditions));
            let name = format!("{name}/route{}", index + 1);
            Some(Route {
                destination: destination((index, &name), Some(route), known)?,
                conditions,
            })
        };
        let ends = listener.pool.is_some() || listener.redirect.is_some();
        let otherwise = ends
            .then(|| destination((usize::MAX, name), None, None))
            .flatten();
        Self {
            routes: listener
                .routes
                .iter()
                .enumerate()
                .filter_map(route)
                .collect(),
            otherwise,
            limit,
            compress,
        }
    }

    /// The rules of the route that takes the same requests.
    fn rules_of(&self, conditions: &Conditions) -> Option<&Rules> {
        let is_like = |route: &&Route| route.conditions == *conditions;
        let route = self.routes.iter().find(is_like)?;
        route.destination.rules.as_deref()
    }

    /// That of the first route that takes the request of this client, or of the listener.
    pub fn find(&self, request: &Request<'_>, client: Option<IpAddr>) -> Option<&Arc<Destination>> {
        let route = self
            .routes
            .iter()
            .find(|route| route.conditions.take(request, client));
        let destination = route.map(|route| &route.destination);
        destination.or(self.otherwise.as_ref())
    }

    /// That of the first route that takes a connection with which this client asks for this name,
    /// or of the listener.
    pub fn find_connection(
        &self,
        name: Option<&str>,
        client: Option<IpAddr>,
    ) -> Option<&Arc<Destination>> {
        let takes = |route: &&Route| route.conditions.take_connection(name, client);
        let route = self.routes.iter().find(takes);
        let destination = route.map(|route| &route.destination);
        destination.or(self.otherwise.as_ref())
    }

    /// Whether routes go by the names that clients ask for by TLS.
    pub fn asks_for_names(&self) -> bool {
        let mut routes = self.routes.iter();
        routes.any(|route| route.conditions.server_names.is_some())
    }

    /// The name of a route, or of the listener, that [`find`](Self::find) has found.
    pub fn route(&self, index: usize) -> Option<&str> {
        let mut all = self.destinations().chain(self.otherwise());
        let found = all.find(|destination| destination.index == index)?;
        Some(&found.route)
    }

    /// Where requests go, by the routes in their order.
    pub fn destinations(&self) -> impl Iterator<Item = &Destination> {
        self.routes.iter().map(|route| &*route.destination)
    }

    /// The classes of the routes, in their order.
    pub fn classes(&self) -> impl Iterator<Item = Class> + '_ {
        self.destinations().map(|destination| destination.class)
    }

    /// The limit of all requests of the listener.
    pub fn limit(&self) -> Option<&Arc<Limiter>> {
        self.limit.as_ref()
    }

    /// The compressions of routes that have one of their own.
    pub fn own_compressions(&self) -> impl Iterator<Item = (&str, &Compress)> {
        let shared = self.compress.as_ref();
        self.destinations().filter_map(move |destination| {
            let own = destination.rules.as_ref()?.compress()?;
            let is_shared = shared.is_some_and(|shared| Arc::ptr_eq(shared, own));
            (!is_shared).then_some((&*destination.route, &**own))
        })
    }

    /// The compression of all answers whose routes say nothing else.
    pub fn compress(&self) -> Option<&Arc<Compress>> {
        self.compress.as_ref()
    }

    /// Where what no route takes goes, and connections without requests.
    pub fn otherwise(&self) -> Option<&Destination> {
        self.otherwise.as_deref()
    }
}

/// The compression of a listener's answers.
fn compression(listener: &config::Listener, before: Option<&Router>) -> Option<Arc<Compress>> {
    let config = listener.compress.as_ref()?.get_ref().on()?;
    let known = before.and_then(|before| before.compress.as_ref());
    Some(Compress::kept(known, config))
}

impl Conditions {
    fn new(route: &config::Route) -> Self {
        Self {
            host: route.host.as_deref().map(Host::new),
            paths: PathIs::all(route),
            methods: route.methods.clone(),
            headers: route.headers.clone(),
            client: route.client.clone(),
            server_names: (route.server_names.as_ref())
                .map(|names| names.iter().map(|name| Host::new(name)).collect()),
            host_matches: route.host_matches.clone(),
            path_matches: route.path_matches.clone(),
            header_matches: route.header_matches.clone(),
        }
    }

    fn take(&self, request: &Request<'_>, client: Option<IpAddr>) -> bool {
        let takes_method =
            |methods: &Vec<String>| methods.iter().any(|method| method == request.method);
        self.host
            .as_ref()
            .is_none_or(|host| host.takes(request.host))
            && self.paths.iter().all(|path| path.takes(request.target))
            && self.methods.as_ref().is_none_or(takes_method)
            && self.headers.iter().all(|(name, value)| {
                request.headers.iter().any(|header| {
                    header.name.eq_ignore_ascii_case(name)
                        && (value == "*" || header.value == value.as_bytes())
                })
            })
            && self.has_client(client)
            && self.match_all(request)
    }

    /// The same of a connection of which no request is known.
    fn take_connection(&self, name: Option<&str>, client: Option<IpAddr>) -> bool {
        let is_asked_for =
            |names: &Vec<Host>| name.is_some_and(|name| names.iter().any(|one| one.takes(name)));
        self.server_names.as_ref().is_none_or(is_asked_for) && self.has_client(client)
    }

    /// Whether it asks for nothing of the client, or for where this one is.
    fn has_client(&self, client: Option<IpAddr>) -> bool {
        self.client.as_ref().is_none_or(|networks| {
            client.is_some_and(|client| networks.iter().any(|network| network.has(client)))
        })
    }

    /// Whether all patterns are found.
    fn match_all(&self, request: &Request<'_>) -> bool {
        let host_fits =
            |pattern: &Pattern<true>| pattern.is_in(without_port(request.host).as_bytes());
        let path_fits = |pattern: &Pattern| pattern.is_in(path(request.target).as_bytes());
        self.host_matches.as_ref().is_none_or(host_fits)
            && self.path_matches.as_ref().is_none_or(path_fits)
            && self.header_matches.iter().all(|(name, pattern)| {
                request.headers.iter().any(|header| {
                    header.name.eq_ignore_ascii_case(name) && pattern.is_in(header.value)
                })
            })
    }
}

impl PathIs {
    fn all(route: &config::Route) -> Vec<Self> {
        let below = route.path.clone().map(Self::Below);
        let is = route.path_is.clone().map(Self::Is);
        let begins = route.path_begins.clone().map(Self::Begins);
        let ends = route.path_ends.clone().map(Self::Ends);
        [below, is, begins, ends].into_iter().flatten().collect()
    }

    fn takes(&self, target: &str) -> bool {
        let path = path(target);
        match self {
            Self::Below(above) => is_below(target, above),
            Self::Is(whole) => path == whole,
            Self::Begins(with) => path.starts_with(with.as_str()),
            Self::Ends(with) => path.ends_with(with.as_str()),
        }
    }
}

impl Host {
    fn new(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        match text.strip_prefix('*') {
            Some(end) => Self::Below(end.to_owned()),
            None => Self::Is(text),
        }
    }

    fn takes(&self, host: &str) -> bool {
        let host = without_port(host);
        match self {
            Self::Is(name) => host.eq_ignore_ascii_case(name),
            Self::Below(end) => {
                let begin = host.len().saturating_sub(end.len());
                begin > 0 && host.is_char_boundary(begin) && host[begin..].eq_ignore_ascii_case(end)
            }
        }
    }
}

/// A target without its query.
fn path(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

/// The name alone, and without the dot that may end it.
fn without_port(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    // `[::1]` without a port ends with a digit after a colon, and a bracket.
    let name = if host.ends_with(']') { host } else { name };
    name.strip_suffix('.').unwrap_or(name)
}

/// Whether a target is this path, or below it.
fn is_below(target: &str, path: &str) -> bool {
    target
        .strip_prefix(path)
        .is_some_and(|rest| path.ends_with('/') || rest.is_empty() || rest.starts_with(['/', '?']))
}

#[cfg(test)]
mod tests;
