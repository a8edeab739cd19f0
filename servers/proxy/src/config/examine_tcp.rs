//! What listeners with mode `tcp` may have: their routes and their pools.

use toml::Spanned;

use super::examine::Examiner;
use super::{HashOn, Protocol, Route};

impl Examiner<'_> {
    /// Requests have a host, and answers.
    pub(super) fn has_nothing_of_tcp(&mut self, route: &Spanned<Route>) {
        if route.get_ref().server_names.is_some() || route.get_ref().reject {
            let said = "server_names and reject are for mode \"tcp\": with \"http\" take host, and \
                        an answer";
            self.say(route.span(), said);
        }
    }

    /// Of connections nothing is known but where they are from, and the name that is asked for.
    pub(super) fn route_of_tcp(&mut self, route: &Spanned<Route>) {
        let (at, route) = (route.span(), route.get_ref());
        if let Some(pool) = &route.pool {
            self.pool_is_there(pool);
        }
        self.class_is_there(route.class.as_ref());
        let plain = Route {
            server_names: route.server_names.clone(),
            client: route.client.clone(),
            reject: route.reject,
            pool: route.pool.clone(),
            class: route.class.clone(),
            ..Route::default()
        };
        if *route != plain {
            let said = "with mode \"tcp\" a route has server_names, client, pool, reject and class \
                        alone";
            self.say(at.clone(), said);
        }
        if route.server_names.is_none() && route.client.is_none() {
            let said = "this route has no condition, so it takes all connections: name the pool as \
                        that of the listener instead";
            self.say(at.clone(), said);
        }
        if route.reject == route.pool.is_some() {
            let said = "with mode \"tcp\" a route has a pool, or reject = true";
            self.say(at.clone(), said);
        }
        let names = route.server_names.iter().flatten();
        let is_name = |name: &&String| !is_server_name(name.strip_prefix("*.").unwrap_or(name));
        if let Some(name) = names.clone().find(is_name) {
            let said = format!(
                "{name:?} is no name that clients ask for: write one such as \"www.example.org\" \
                 or \"*.example.org\""
            );
            self.say(at.clone(), said);
        }
        if route.server_names.as_ref().is_some_and(Vec::is_empty) {
            self.say(
                at,
                "server_names is empty, so that the route takes nothing: drop it",
            );
        }
    }

    pub(super) fn hashes_what_tcp_has(&mut self, name: &Spanned<String>) {
        let Some(pool) = self.config.pools.get(name.get_ref()) else {
            return;
        };
        if pool.get_ref().sticky.is_some() {
            let said = format!(
                "pool {} is sticky by a cookie, and this listener has mode \"tcp\": balance by \
                 \"hash\" of \"client\" instead",
                name.get_ref()
            );
            self.say(name.span(), said);
        }
        match &pool.get_ref().hash_on {
            Some(what) if *what.get_ref() != HashOn::Client => self.say(
                name.span(),
                format!(
                    "pool {} hashes something of requests, and this listener has mode \"tcp\": \
                     give the pool hash_on = \"client\"",
                    name.get_ref()
                ),
            ),
            _ => {}
        }
    }

    /// Connections of TCP are not shared, and nobody there begins with HTTP/2.
    pub(super) fn speaks_what_tcp_has(&mut self, name: &Spanned<String>) {
        let pool = self.config.pools.get(name.get_ref());
        if pool.is_some_and(|pool| pool.get_ref().protocol == Protocol::Two) {
            let said = format!(
                "pool {} has protocol \"h2\", and this listener mode \"tcp\", which passes on what \
                 clients speak: drop the protocol, or give the listener mode \"http\"",
                name.get_ref()
            );
            self.say(name.span(), said);
        }
    }
}

/// Whether clients may ask for this name by TLS.
fn is_server_name(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=253).contains(&name.len()) && name.bytes().all(is_of_name)
}
