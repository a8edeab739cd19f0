//! What the format cannot say: names that have to be there, values out of range, and keys that
//! mean nothing together.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use servers_common::config::Found;
use toml::Spanned;

use super::addresses;
use super::class::{BUILT_IN, OWN_MAX, OfClass};
use super::http2::Protocol;
use super::pool::{Balance, CheckKind, Pool, Resolve};
use super::values::{self, WEIGHT_MAX};
use super::{Config, Listener, ListenerTls, Mode, NETWORKS_MAX, RealTime, Route, examine_policy};

/// Everything that is wrong.
pub(super) fn problems(config: &Config) -> Vec<Found> {
    let mut examiner = Examiner {
        config,
        found: Vec::new(),
    };
    examiner.process();
    examiner.resolver();
    examiner.classes();
    examiner.logs();
    for (name, listener) in &config.listeners {
        examiner.name("listener", name, listener.span());
        examiner.listener(name, listener);
        examiner
            .found
            .extend(examine_policy::problems(name, listener));
    }
    examiner.found.extend(addresses::problems(config));
    for (name, pool) in &config.pools {
        examiner.name("pool", name, pool.span());
        examiner.pool(name, pool);
    }
    examiner.found
}

/// Sizes of windows: no smaller than every connection begins with, and no larger than they can be.
const WINDOWS: RangeInclusive<usize> = 65_535..=(1 << 31) - 1;

/// The longest name of a service that is checked.
const SERVICE_BYTES_MAX: usize = 255;

/// Looks at a configuration, and notes what is wrong with it.
pub(super) struct Examiner<'a> {
    pub(super) config: &'a Config,
    found: Vec<Found>,
}

impl Examiner<'_> {
    pub(super) fn say(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.found.push(Found::new(at, message.into()));
    }

    fn process(&mut self) {
        let (at, process) = (self.config.process.span(), self.config.process.get_ref());
        let (workers, connections) = (process.workers, process.connections_max);
        if self.config.listeners.is_empty() {
            let example = values::BIND_EXAMPLE;
            self.say(
                0..0,
                format!("nothing listens: add a [listener.NAME] with bind = \"{example}\""),
            );
        }
        if workers.is_some_and(|workers| !(1..=1_024).contains(&workers)) {
            self.say(at.clone(), "process.workers has to be between 1 and 1024");
        }
        let bounds = Duration::from_micros(10)..=Duration::from_secs(1);
        if process
            .io_check_bound
            .is_some_and(|bound| !bounds.contains(&bound))
        {
            self.say(
                at.clone(),
                "process.io_check_bound has to be from 10us to 1s",
            );
        }
        if process.real_time == RealTime::Yes && process.looks_late() {
            let said = "process.io_check_bound has to be 2ms or less with process.real_time = true";
            self.say(at.clone(), said);
        }
        let events = process.io_check_events;
        if events.is_some_and(|events| !(1..=65_536).contains(&events)) {
            self.say(
                at.clone(),
                "process.io_check_events has to be between 1 and 65536",
            );
        }
        if connections == 0 {
            self.say(at.clone(), "process.connections_max has to be 1 or more");
        }
        if process.h2_held_bytes_max < 1 << 20 {
            let said = "process.h2_held_bytes_max has to be 1048576 or more: a megabyte";
            self.say(at.clone(), said);
        }
        // Whoever asks for an upgrade waits for a minute for what it comes to.
        let (least, most) = (Duration::from_millis(100), Duration::from_secs(50));
        if !(least..=most).contains(&process.upgrade_timeout) {
            self.say(at, "process.upgrade_timeout has to be from 100ms to 50s");
        }
    }

    fn resolver(&mut self) {
        let (at, resolver) = (self.config.resolver.span(), self.config.resolver.get_ref());
        let ranges = [
            ("attempts", resolver.attempts, 1..=10),
            ("addresses_max", resolver.addresses_max, 1..=1_000),
        ];
        self.within(at.clone(), "resolver", ranges);
        if resolver.ttl_min > resolver.ttl_max {
            self.say(at, "resolver.ttl_min is more than resolver.ttl_max");
        }
    }

    fn classes(&mut self) {
        let is_own = |name: &&String| !BUILT_IN.contains(&name.as_str());
        let own = self.config.classes.keys().filter(is_own).count();
        if own > OWN_MAX {
            let said = format!("there are {own} classes of your own, and {OWN_MAX} are allowed");
            self.say(0..0, said);
        }
        for (name, class) in &self.config.classes {
            self.class(name, class);
        }
    }

    fn class(&mut self, name: &str, class: &Spanned<OfClass>) {
        let (at, class) = (class.span(), class.get_ref());
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if !(1..=32).contains(&name.len()) || !name.bytes().all(is_of_name) {
            self.say(
                at.clone(),
                format!("{name:?} is no name for a class: take 1 to 32 letters, digits, `_`, `-`"),
            );
        }
        let share = class.share.unwrap_or(1) as usize;
        self.within(
            at.clone(),
            &format!("class {name}"),
            [("share", share, 1..=10_000)],
        );
        let (least, most) = (Duration::from_micros(10), Duration::from_secs(10));
        let target = class.latency_target;
        if target.is_some_and(|target| !(least..=most).contains(&target)) {
            let said = format!("class {name}: latency_target has to be from 10us to 10s");
            self.say(at, said);
        }
    }

    fn logs(&mut self) {
        for (name, log) in &self.config.logs {
            self.name("log", name, log.span());
            let bytes = log.get_ref().queue_bytes_max;
            let ranges = [("queue_bytes_max", bytes, 16 * 1_024..=1 << 30)];
            self.within(log.span(), &format!("log {name}"), ranges);
        }
    }

    fn log_is_there(&mut self, log: &Spanned<String>) {
        let name = log.get_ref();
        if !self.config.logs.contains_key(name) {
            self.say(
                log.span(),
                format!("there is no log {name:?}: add [log.{name}], or name another one"),
            );
        }
    }

    pub(super) fn class_is_there(&mut self, class: Option<&Spanned<String>>) {
        let Some(class) = class else { return };
        let name = class.get_ref();
        if BUILT_IN.contains(&name.as_str()) || self.config.classes.contains_key(name) {
            return;
        }
        let own = self.config.classes.keys().map(String::as_str);
        let names: Vec<&str> = BUILT_IN.into_iter().chain(own).collect();
        self.say(
            class.span(),
            format!(
                "there is no class {name:?}: add [class.{name}], or take one of {}",
                names.join(", ")
            ),
        );
    }

    /// Names stand in commands and in columns.
    fn name(&mut self, of: &str, name: &str, at: Range<usize>) {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_of_name) {
            self.say(
                at,
                format!(
                    "{name:?} is no name for a {of}: take up to 64 letters, digits, `_`, `-` and \
                     `.`"
                ),
            );
        }
    }

    fn listener(&mut self, name: &str, listener: &Spanned<Listener>) {
        let (at, listener) = (listener.span(), listener.get_ref());
        if let Some(pool) = &listener.pool {
            self.pool_is_there(pool);
        }
        self.class_is_there(listener.class.as_ref());
        if let Some(log) = &listener.log {
            self.log_is_there(log);
        }
        match listener.mode {
            Mode::Tcp => {
                if listener.pool.is_none() && listener.routes.is_empty() {
                    self.say(
                        at.clone(),
                        format!("listener {name} has mode \"tcp\" and no pool"),
                    );
                }
                let of_routes = listener.routes.iter();
                let of_routes = of_routes.filter_map(|route| route.get_ref().pool.as_ref());
                for pool in listener.pool.iter().chain(of_routes) {
                    self.hashes_what_tcp_has(pool);
                    self.speaks_what_tcp_has(pool);
                }
            }
            Mode::Http
                if listener.pool.is_none()
                    && listener.redirect.is_none()
                    && listener.routes.is_empty() =>
            {
                self.say(
                    at.clone(),
                    format!("listener {name} sends requests nowhere: give it a pool, or routes"),
                );
            }
            Mode::Http => {}
        }
        for route in &listener.routes {
            match listener.mode {
                Mode::Http => {
                    self.has_nothing_of_tcp(route);
                    self.route(route);
                }
                Mode::Tcp => self.route_of_tcp(route),
            }
        }
        if let Some(tls) = &listener.tls {
            self.listener_tls(name, listener.mode, tls);
        }
        let ranges = [
            ("connections_max", listener.connections_max, 1..=usize::MAX),
            (
                "connections_per_client_max",
                listener.connections_per_client_max,
                1..=usize::MAX,
            ),
            ("head_bytes_max", listener.head_bytes_max, 1_024..=1 << 20),
        ];
        self.within(at.clone(), &format!("listener {name}"), ranges);
        self.listener_h2(name, listener, at);
    }

    fn listener_h2(&mut self, name: &str, listener: &Listener, at: Range<usize>) {
        let h2 = listener.h2;
        if h2.only && !h2.enabled {
            let said = format!("listener {name} speaks nothing: h2.only needs h2.enabled");
            self.say(at.clone(), said);
        }
        let ranges = [
            ("h2.streams_max", h2.streams_max, 1..=10_000),
            ("h2.window", h2.window, WINDOWS),
            ("h2.connection_window", h2.connection_window, WINDOWS),
            ("h2.held_bytes_max", h2.held_bytes_max, 16_384..=1 << 30),
            ("h2.resets_max", h2.resets_max, 1..=1_000_000),
            ("h2.controls_max", h2.controls_max, 1..=1_000_000),
        ];
        self.within(at, &format!("listener {name}"), ranges);
    }

    fn listener_tls(&mut self, name: &str, mode: Mode, tls: &Spanned<ListenerTls>) {
        let (at, tls) = (tls.span(), tls.get_ref());
        self.class_is_there(tls.class.as_ref());
        if let Some(alpn) = &tls.alpn {
            let is_name = |name: &String| (1..=255).contains(&name.len());
            if mode == Mode::Http {
                let said = format!(
                    "listener {name} has mode \"http\", whose protocols are known: drop alpn"
                );
                self.say(alpn.span(), said);
            } else if alpn.get_ref().is_empty() || !alpn.get_ref().iter().all(is_name) {
                let said = "alpn has names of 1 to 255 bytes, such as [\"h2\", \"http/1.1\"]";
                self.say(alpn.span(), said);
            }
        }
        let ranges = [
            ("tls.handshakes_max", tls.handshakes_max, 1..=1_000_000),
            ("tls.sessions_max", tls.sessions_max, 0..=1_000_000),
        ];
        self.within(at, &format!("listener {name}"), ranges);
    }

    fn within<const N: usize>(
        &mut self,
        at: Range<usize>,
        whose: &str,
        ranges: [(&str, usize, RangeInclusive<usize>); N],
    ) {
        for (key, value, range) in ranges {
            if range.contains(&value) {
                continue;
            }
            let (least, most) = (range.start(), range.end());
            let said = if *most == usize::MAX {
                format!("{whose}: {key} is {value}, and has to be {least} or more")
            } else {
                format!("{whose}: {key} is {value}, and has to be between {least} and {most}")
            };
            self.say(at.clone(), said);
        }
    }

    pub(super) fn pool_is_there(&mut self, pool: &Spanned<String>) {
        if self.config.pools.contains_key(pool.get_ref()) {
            return;
        }
        let names: Vec<&str> = self.config.pools.keys().map(String::as_str).collect();
        let there = if names.is_empty() {
            "there is none".to_owned()
        } else {
            format!("there are {}", names.join(", "))
        };
        let name = pool.get_ref();
        self.say(
            pool.span(),
            format!("there is no pool {name:?}: add [pool.{name}], or name another one; {there}"),
        );
    }

    fn paths(&mut self, at: &Range<usize>, route: &Route) {
        let paths = [&route.path, &route.path_is, &route.path_begins];
        for path in paths.into_iter().flatten().filter(|path| !is_path(path)) {
            self.say(
                at.clone(),
                format!("{path:?} is no beginning of a path: write it from its \"/\" on"),
            );
        }
        if let Some(end) = route.path_ends.as_deref().filter(|end| !is_of_path(end)) {
            let said =
                format!("{end:?} is no end of a path: it has characters that paths have not");
            self.say(at.clone(), said);
        }
        let bare = [&route.path_is, &route.path_begins].into_iter().flatten();
        let bare = bare
            .chain(&route.path_ends)
            .filter(|path| path.contains('?'));
        for path in bare {
            let said = format!(
                "{path:?} has a query, which is not looked at here: leave it out, or use path"
            );
            self.say(at.clone(), said);
        }
    }

    fn route(&mut self, route: &Spanned<Route>) {
        let (at, route) = (route.span(), route.get_ref());
        if let Some(pool) = &route.pool {
            self.pool_is_there(pool);
        }
        self.class_is_there(route.class.as_ref());
        if takes_all(route) {
            self.say(
                at.clone(),
                "this route has no condition, so it takes all requests: name the pool as that of \
                 the listener instead",
            );
        }
        if let Some(host) = &route.host {
            let name = host.strip_prefix("*.").unwrap_or(host);
            let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
            let has_port = !name.starts_with('[') && name.contains(':');
            if name.is_empty() || has_port || !name.bytes().all(is_of_host) {
                self.say(
                    at.clone(),
                    format!(
                        "{host:?} is no host: write a name without a port, such as \
                         \"www.example.org\" or \"*.example.org\""
                    ),
                );
            }
        }
        self.paths(&at, route);
        let methods = route.methods.iter().flatten();
        let headers = route.headers.keys().chain(route.header_matches.keys());
        for name in methods.chain(headers) {
            if !values::is_token(name) {
                self.say(
                    at.clone(),
                    format!("{name:?} is no name of a method or a header"),
                );
            }
        }
        let networks = route.client.as_ref().map_or(1, Vec::len);
        let ranges = [(
            "client, the number of networks,",
            networks,
            1..=NETWORKS_MAX,
        )];
        self.within(at.clone(), "this route", ranges);
        if route.methods.as_ref().is_some_and(Vec::is_empty) {
            self.say(
                at,
                "methods is empty, so this route takes nothing: leave the key out",
            );
        }
    }

    fn pool(&mut self, name: &str, pool: &Spanned<Pool>) {
        let (at, pool) = (pool.span(), pool.get_ref());
        if pool.servers.is_empty() {
            let said = format!("pool {name} has no server: add a [[pool.{name}.server]]");
            self.say(at.clone(), said);
        }
        match (&pool.hash_on, pool.balance) {
            (None, Balance::Hash) => self.say(
                at.clone(),
                format!("pool {name} is balanced by hash of nothing: add hash_on = \"client\""),
            ),
            (Some(what), Balance::RoundRobin | Balance::LeastConnections) => self.say(
                what.span(),
                format!("pool {name} hashes nothing: add balance = \"hash\", or drop hash_on"),
            ),
            _ => {}
        }
        let mut names = BTreeSet::new();
        for server in &pool.servers {
            let (at, server) = (server.span(), server.get_ref());
            self.name("server", &server.name, at.clone());
            if !names.insert(&server.name) {
                let said = format!("pool {name} has two servers with the name {}", server.name);
                self.say(at.clone(), said);
            }
            let ranges = [
                ("weight", server.weight as usize, 0..=WEIGHT_MAX as usize),
                ("connections_max", server.connections_max, 1..=usize::MAX),
            ];
            self.within(
                at.clone(),
                &format!("server {name}/{}", server.name),
                ranges,
            );
            if server.resolve == Resolve::All && server.address.is_known() {
                let said = format!(
                    "server {name}/{} has an address and no name: drop resolve",
                    server.name
                );
                self.say(at, said);
            }
        }
        let retries = pool.retries;
        let ranges = [
            ("retries.max", retries.max as usize, 0..=10),
            (
                "retries.budget_percent",
                retries.budget_percent as usize,
                0..=100,
            ),
            ("retries.reserve", retries.reserve as usize, 0..=100_000),
        ];
        self.within(at.clone(), &format!("pool {name}"), ranges);
        self.found
            .extend(examine_policy::of_pool(name, pool, at.clone()));
        self.pool_h2(name, pool, &at);
        self.check(name, pool, at);
    }

    fn pool_h2(&mut self, name: &str, pool: &Pool, at: &Range<usize>) {
        let ranges = [
            ("h2.streams_max", pool.h2.streams_max, 1..=10_000),
            ("h2.window", pool.h2.window, WINDOWS),
        ];
        self.within(at.clone(), &format!("pool {name}"), ranges);
        let mut servers = pool.servers.iter();
        if pool.protocol == Protocol::Two
            && let Some(server) = servers.find(|server| server.get_ref().send_proxy.is_some())
        {
            let said = format!(
                "connections of pool {name} have requests of several clients, as it speaks h2: \
                 drop send_proxy, which would name one of them"
            );
            self.say(server.span(), said);
        }
    }

    fn check(&mut self, name: &str, pool: &Pool, at: Range<usize>) {
        let Some(check) = &pool.check else { return };
        let ranges = [
            ("check.rise", check.rise as usize, 1..=100),
            ("check.fall", check.fall as usize, 1..=100),
        ];
        self.within(at.clone(), &format!("pool {name}"), ranges);
        let host = check.host.as_deref().unwrap_or("host");
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_method = values::is_token(&check.method) && check.method != "CONNECT";
        if !is_path(&check.path) || host.is_empty() || !is_plain(host) || !is_method {
            let said =
                format!("pool {name}: check.method, check.path and check.host make no request");
            self.say(at.clone(), said);
        }
        if check.kind == CheckKind::Tcp && !(check.expect.is_empty() && check.host.is_none()) {
            let said = format!("pool {name}: a check by \"tcp\" has no host and expects no status");
            self.say(at.clone(), said);
        }
        if check.kind == CheckKind::Grpc
            && (pool.protocol != Protocol::Two || !check.expect.is_empty())
        {
            let said = format!(
                "pool {name}: a check by \"grpc\" needs protocol = \"h2\", and expects SERVING and \
                 no status"
            );
            self.say(at.clone(), said);
        }
        match &check.service {
            Some(service) if check.kind != CheckKind::Grpc || service.len() > SERVICE_BYTES_MAX => {
                let said = format!(
                    "pool {name}: check.service is for kind \"grpc\", and has up to \
                     {SERVICE_BYTES_MAX} bytes"
                );
                self.say(at.clone(), said);
            }
            _ => {}
        }
        if check
            .expect
            .iter()
            .any(|status| !(200..600).contains(status))
        {
            self.say(
                at,
                format!("pool {name}: check.expect has to be of 200 to 599"),
            );
        }
    }
}

/// Whether a route has no condition.
fn takes_all(route: &Route) -> bool {
    let paths = [
        &route.path,
        &route.path_is,
        &route.path_begins,
        &route.path_ends,
    ];
    let has_path = route.path_matches.is_some() || paths.iter().any(|path| path.is_some());
    let has_host = route.host.is_some() || route.host_matches.is_some();
    let has_header = !(route.headers.is_empty() && route.header_matches.is_empty());
    !has_path && !has_host && !has_header && route.client.is_none() && route.methods.is_none()
}

fn is_path(text: &str) -> bool {
    text.starts_with('/') && is_of_path(text)
}

fn is_of_path(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#')
}
