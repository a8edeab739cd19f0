//! What the format cannot say of limits, edits, redirects and fixed answers.

use std::ops::Range;
use std::time::Duration;

use servers_common::config::Found;
use toml::Spanned;

use super::policy::{
    Compress, FixedAnswer, Per, RateLimit, Redirect, RequestEdits, Switch, is_type,
};
use super::{Balance, Listener, Mode, Pool, Route, SameSite, Server, Sticky, values};

/// Everything that is wrong with those of a listener and its routes.
pub(super) fn problems(name: &str, listener: &Spanned<Listener>) -> Vec<Found> {
    let mut examiner = Examiner { found: Vec::new() };
    let (at, listener) = (listener.span(), listener.get_ref());
    if listener.mode == Mode::Tcp && has_any(listener) {
        examiner.say(
            at.clone(),
            format!(
                "listener {name} has mode \"tcp\", in which there are no requests to change or \
                 answer"
            ),
        );
    }
    if let Some(limit) = &listener.rate_limit {
        if listener.mode == Mode::Tcp && matches!(limit.get_ref().per, Per::Header(_)) {
            let said = format!("listener {name} has mode \"tcp\", in which there are no headers");
            examiner.say(limit.span(), said);
        }
        examiner.limit(limit);
    }
    if let Some(compress) = &listener.compress {
        examiner.compress(compress);
    }
    if let Some(edits) = &listener.request {
        examiner.edits(edits, None);
    }
    if let Some(redirect) = &listener.redirect {
        if listener.pool.is_some() {
            examiner.say(
                redirect.span(),
                format!("listener {name} has both a redirect and a pool; drop one of them"),
            );
        }
        examiner.redirect(redirect, None);
    }
    for route in &listener.routes {
        examiner.route(route);
    }
    examiner.found
}

/// What is wrong with the limits, the outliers and the backups of a pool.
pub(super) fn of_pool(name: &str, pool: &Pool, at: Range<usize>) -> Vec<Found> {
    let mut examiner = Examiner { found: Vec::new() };
    if pool.requests_max == 0 {
        let said = format!("pool {name}: requests_max is 0, and has to be 1 or more");
        examiner.say(at.clone(), said);
    }
    let is_backup = |server: &Spanned<Server>| server.get_ref().backup;
    if !pool.servers.is_empty() && pool.servers.iter().all(is_backup) {
        let said = format!("pool {name} has backups alone: let one of its servers be none");
        examiner.say(at, said);
    }
    if let Some(sticky) = &pool.sticky {
        examiner.sticky(name, pool, sticky);
    }
    let Some(outliers) = &pool.outliers else {
        return examiner.found;
    };
    let (at, outliers) = (outliers.span(), outliers.get_ref());
    for (key, value) in [
        ("failure_percent", outliers.failure_percent),
        ("ejected_percent_max", outliers.ejected_percent_max),
    ] {
        if value > 100 {
            let said = format!("pool {name}: outliers.{key} is {value}, and is 100 at most");
            examiner.say(at.clone(), said);
        }
    }
    if outliers.consecutive == 0 && outliers.failure_percent == 0 {
        let said = "outliers says nothing: give consecutive or failure_percent, or drop it";
        examiner.say(at.clone(), said);
    }
    if outliers.ejection > outliers.ejection_max {
        let said = format!("pool {name}: outliers.ejection is longer than ejection_max");
        examiner.say(at, said);
    }
    examiner.found
}

fn has_any(listener: &Listener) -> bool {
    listener.request.is_some()
        || listener.response.is_some()
        || listener.redirect.is_some()
        || listener.compress.is_some()
        || listener.request_ids != crate::policy::RequestIds::Off
}

struct Examiner {
    found: Vec<Found>,
}

impl Examiner {
    fn say(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.found.push(Found::new(at, message.into()));
    }

    fn route(&mut self, route: &Spanned<Route>) {
        let (at, route) = (route.span(), route.get_ref());
        let ends = [
            route.pool.is_some(),
            route.redirect.is_some(),
            route.answer.is_some(),
            route.reject,
        ];
        if ends.into_iter().filter(|is_there| *is_there).count() != 1 {
            self.say(
                at.clone(),
                "a route has one of pool, redirect and answer, which say what becomes of its \
                 requests",
            );
        }
        if let Some(limit) = &route.rate_limit {
            self.limit(limit);
        }
        if let Some(compress) = &route.compress {
            self.compress(compress);
        }
        if let Some(edits) = &route.request {
            if route.pool.is_none() {
                let said = "request changes what is passed on, and this route passes nothing on";
                self.say(edits.span(), said);
            }
            self.edits(edits, route.path.as_deref());
        }
        if let Some(redirect) = &route.redirect {
            self.redirect(redirect, route.path.as_deref());
        }
        if let Some(answer) = &route.answer {
            self.answer(answer);
        }
    }

    fn limit(&mut self, limit: &Spanned<RateLimit>) {
        /// A bucket has to be full again in a time that somebody could mean.
        const REFILL_MAX: Duration = Duration::from_secs(24 * 3_600);
        let (at, limit) = (limit.span(), limit.get_ref());
        if limit.interval().is_zero() {
            let said = "rate_limit: more than one request per nanosecond is no limit";
            self.say(at.clone(), said);
        }
        if limit.interval().saturating_mul(limit.burst().get()) > REFILL_MAX {
            self.say(
                at.clone(),
                "rate_limit: a burst takes more than 24h to be saved up: take a smaller burst, or \
                 a higher rate",
            );
        }
        if !(1..=10_000_000).contains(&limit.clients_max) {
            self.say(
                at,
                format!(
                    "rate_limit: clients_max is {}, and has to be between 1 and 10000000",
                    limit.clients_max
                ),
            );
        }
    }

    fn sticky(&mut self, name: &str, pool: &Pool, sticky: &Spanned<Sticky>) {
        let (at, sticky) = (sticky.span(), sticky.get_ref());
        if !values::is_token(&sticky.cookie) {
            let said = format!("sticky: {:?} is no name of a cookie", sticky.cookie);
            self.say(at.clone(), said);
        }
        if pool.balance == Balance::Hash {
            let said =
                format!("pool {name} is sticky both by hash and by cookie; drop one of them");
            self.say(at.clone(), said);
        }
        // Browsers count in seconds, and drop one that holds for none.
        if sticky
            .max_age
            .is_some_and(|age| age < Duration::from_secs(1))
        {
            let said = "sticky: max_age is shorter than a second: browsers would drop the cookie";
            self.say(at.clone(), said);
        }
        if sticky.same_site == SameSite::None && !sticky.secure {
            let said =
                "sticky: browsers drop a cookie with same_site = \"none\" that is not secure";
            self.say(at, said);
        }
    }

    fn compress(&mut self, compress: &Spanned<Switch<Compress>>) {
        let at = compress.span();
        let Some(compress) = compress.get_ref().on() else {
            return;
        };
        if compress.codings.is_empty() || compress.types.is_empty() {
            let said = "compress: codings or types are empty, so that nothing is compressed";
            self.say(at.clone(), said);
        }
        if let Some(kind) = compress.types.iter().find(|kind| !is_type(kind)) {
            self.say(
                at.clone(),
                format!(
                    "compress: {kind:?} is no type: write one such as \"text/html\" or \"text/*\""
                ),
            );
        }
        if !(1..=100_000).contains(&compress.answers_max) {
            self.say(
                at,
                format!(
                    "compress: answers_max is {}, and has to be between 1 and 100000",
                    compress.answers_max
                ),
            );
        }
    }

    fn edits(&mut self, edits: &Spanned<RequestEdits>, route_path: Option<&str>) {
        let edits = edits.get_ref();
        if let Some(host) = edits.host.as_ref().filter(|host| !is_host(host.get_ref())) {
            self.say(host.span(), format!("{:?} is no host", host.get_ref()));
        }
        for path in edits.path.iter().chain(&edits.prefix) {
            if !is_path(path.get_ref()) || path.get_ref().contains('?') {
                self.say(
                    path.span(),
                    format!(
                        "{:?} is no path: write it from its \"/\" on",
                        path.get_ref()
                    ),
                );
            }
        }
        if let Some(prefix) = &edits.prefix {
            self.prefix(prefix.span(), edits.path.is_some(), route_path);
        }
    }

    fn prefix(&mut self, at: Range<usize>, has_path: bool, route_path: Option<&str>) {
        if has_path {
            self.say(at, "path and prefix both say the path; drop one of them");
        } else if route_path.is_none() {
            self.say(
                at,
                "prefix takes the place of the route's path, and there is none: add it",
            );
        } else if route_path.is_some_and(|path| path.contains('?')) {
            self.say(at, "prefix takes the place of a path without a query");
        }
    }

    fn redirect(&mut self, redirect: &Spanned<Redirect>, route_path: Option<&str>) {
        let (at, redirect) = (redirect.span(), redirect.get_ref());
        if ![301, 302, 307, 308].contains(&redirect.status) {
            self.say(
                at.clone(),
                format!(
                    "redirect: the status is {}, and has to be 301, 302, 307 or 308",
                    redirect.status
                ),
            );
        }
        let goes = redirect.scheme.is_some()
            || redirect.host.is_some()
            || redirect.port.is_some()
            || redirect.path.is_some()
            || redirect.prefix.is_some();
        if !goes {
            let said = "redirect goes where it comes from: give scheme, host, port, path or prefix";
            self.say(at.clone(), said);
        }
        if let Some(host) = redirect.host.as_deref()
            && (!is_host(host) || has_port(host))
        {
            self.say(
                at.clone(),
                format!("redirect: {host:?} is no host without a port"),
            );
        }
        let prefix = redirect.prefix.as_ref();
        if let Some(path) = redirect
            .path
            .iter()
            .chain(prefix)
            .find(|path| !is_path(path))
        {
            self.say(
                at.clone(),
                format!("redirect: {path:?} is no path: write it from its \"/\" on"),
            );
        }
        if prefix.is_some() {
            self.prefix(at, redirect.path.is_some(), route_path);
        }
    }

    fn answer(&mut self, answer: &Spanned<FixedAnswer>) {
        for problem in answer.get_ref().problems() {
            self.say(answer.span(), format!("answer: {problem}"));
        }
    }
}

fn is_host(text: &str) -> bool {
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_host)
}

fn has_port(host: &str) -> bool {
    !host.starts_with('[') && host.contains(':') || host.contains("]:")
}

fn is_path(text: &str) -> bool {
    let is_of_path = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    text.starts_with('/') && !text.starts_with("//") && text.bytes().all(is_of_path)
}
