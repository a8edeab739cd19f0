//! What the configuration says of the requests of a route, beside where they go.

use std::net::IpAddr;
use std::sync::Arc;

use super::edit::{self, Edits, Lines};
use super::id::RequestIds;
use super::limit::{Key, Limiter};
use super::reply::Reply;
use super::template::{Template, Values};
use crate::compress::{Compress, Offer};
use crate::config::{self, Per, RateLimit, Redirect, RequestEdits};

/// The header with the id of a request.
const REQUEST_ID: &str = "x-request-id";

/// The rules of a route, or of a listener for requests that no route takes.
#[derive(Debug)]
pub struct Rules {
    /// The listener.
    listener: Arc<str>,
    /// The route, such as `web/route1`, or the listener.
    route: Arc<str>,
    /// The route's path.
    path: Option<String>,
    /// That of the listener and that of the route.
    limits: Vec<Arc<Limiter>>,
    /// That of the route.
    own_limit: Option<Arc<Limiter>>,
    end: End,
    request_ids: RequestIds,
    request: Edits,
    own: Option<RequestEdits>,
    listeners: Option<RequestEdits>,
    response: Edits,
    compress: Option<Arc<Compress>>,
    needs_id: bool,
}

/// What a listener has for all its routes.
#[derive(Clone, Copy, Debug)]
pub struct OfListener<'a> {
    /// Its name.
    pub name: &'a str,
    /// What the configuration says of it.
    pub config: &'a config::Listener,
    /// The limit of all its requests.
    pub limit: Option<&'a Arc<Limiter>>,
    /// The compression of all its answers.
    pub compress: Option<&'a Arc<Compress>>,
}

/// What becomes of requests.
#[derive(Debug)]
enum End {
    /// They are passed on.
    Pool,
    Redirect(Redirect),
    Fixed(Reply),
}

/// What is asked, as far as rules look at it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Who asks.
    pub client: Option<IpAddr>,
    /// It came over TLS.
    pub is_tls: bool,
    /// The host, with its port.
    pub host: &'a str,
    /// The path and the query.
    pub target: &'a str,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Verdict {
    /// It is passed on like this.
    Forward(Passage),
    /// It is answered with this.
    Answer(Reply),
}

/// How a request is passed on.
#[derive(Debug)]
pub struct Passage {
    rules: Arc<Rules>,
    /// The target, if it is another one than was asked for.
    pub target: Option<String>,
    /// The host, if it is another one.
    pub host: Option<String>,
    /// Headers that the request gets.
    pub request: Lines,
    /// Headers that the answer gets.
    pub response: Lines,
    /// How its answer may be compressed.
    pub offer: Option<Offer>,
    /// Its id, if it has one.
    pub id: Option<String>,
}

impl Passage {
    /// Whether a header of the request is not passed on.
    pub fn drops_of_request(&self, name: &str) -> bool {
        self.rules.request.drops(name)
    }

    /// Whether a header of the answer is not passed on.
    pub fn drops_of_response(&self, name: &str) -> bool {
        self.rules.response.drops(name)
    }
}

impl Rules {
    /// Those of a route, or of what no route takes; `None` if there are none. Limits of the rules
    /// before, if they are the same, go on with what they know.
    pub fn new(
        listener: OfListener<'_>,
        route: (&Arc<str>, Option<&config::Route>),
        before: Option<&Self>,
    ) -> Option<Arc<Self>> {
        let OfListener {
            name,
            config: listener,
            limit: shared,
            compress,
        } = listener;
        let (route_name, route) = route;
        let own_limit = route.and_then(|route| route.rate_limit.as_ref());
        let own_limit = own_limit.map(|limit| {
            let known = before.and_then(|before| before.own_limit.as_ref());
            kept(known, limit.get_ref())
        });
        let mut request = Edits::default();
        let listeners = listener.request.as_ref().map(|edits| edits.get_ref());
        let own = route.and_then(|route| route.request.as_ref());
        let own = own.map(|edits| edits.get_ref());
        for edits in listeners.into_iter().chain(own) {
            request = request.and(&edits.headers());
        }
        let mut response = Edits::default();
        let of_route = route.and_then(|route| route.response.as_ref());
        for edits in listener.response.iter().chain(of_route) {
            response = response.and(edits.get_ref());
        }
        if listener.request_ids != RequestIds::Off
            && let Ok(id) = Template::try_from("{request_id}".to_owned())
        {
            request = request.set(REQUEST_ID, id);
        }
        let redirect = match route {
            Some(route) => route.redirect.as_ref(),
            None => listener.redirect.as_ref(),
        };
        let fixed = route.and_then(|route| route.answer.as_ref());
        let end = match (redirect, fixed) {
            (Some(redirect), _) => End::Redirect(redirect.get_ref().clone()),
            (None, Some(fixed)) => End::Fixed(Reply::fixed(fixed.get_ref())),
            (None, None) => End::Pool,
        };
        let limits = shared.into_iter().chain(&own_limit).cloned().collect();
        let rules = Self {
            listener: name.into(),
            route: Arc::clone(route_name),
            path: route.and_then(|route| route.path.clone()),
            limits,
            own_limit,
            end,
            request_ids: listener.request_ids,
            needs_id: request.has_request_id() || response.has_request_id(),
            request,
            own: own.cloned(),
            listeners: listeners.cloned(),
            response,
            compress: match route.and_then(|route| route.compress.as_ref()) {
                Some(own) => own.get_ref().on().map(|own| {
                    let known = before.and_then(|before| before.compress.as_ref());
                    Compress::kept(known, own)
                }),
                None => compress.cloned(),
            },
        };
        (!rules.are_empty()).then(|| Arc::new(rules))
    }

    fn are_empty(&self) -> bool {
        let (own, listeners) = (&self.own, &self.listeners);
        self.limits.is_empty()
            && matches!(self.end, End::Pool)
            && self.request.is_empty()
            && self.response.is_empty()
            && self.compress.is_none()
            && own.is_none()
            && listeners.is_none()
    }

    /// The compression of its answers.
    pub fn compress(&self) -> Option<&Arc<Compress>> {
        self.compress.as_ref()
    }

    /// The limit of the route.
    pub fn own_limit(&self) -> Option<&Arc<Limiter>> {
        self.own_limit.as_ref()
    }

    /// What becomes of a request, whose headers are found by their names in lower case.
    pub fn admit<'h>(
        self: &Arc<Self>,
        asked: &Asked<'_>,
        header: impl Fn(&str) -> Option<&'h [u8]>,
    ) -> Verdict {
        let id = (self.needs_id).then(|| self.request_ids.of(header(REQUEST_ID)));
        let values = Values {
            client: asked.client,
            host: asked.host,
            listener: &self.listener,
            target: asked.target,
            request_id: id.as_deref().unwrap_or_default(),
            route: &self.route,
            is_tls: asked.is_tls,
        };
        let answer = |reply: Reply| Verdict::Answer(reply.edited(&self.response, &values));
        for limit in &self.limits {
            let value = match &limit.config().per {
                Per::Header(name) => header(name),
                Per::Client | Per::All => None,
            };
            let key = value.map_or(Key::Client(asked.client), Key::Value);
            if let Err(wait) = limit.check(key) {
                return answer(Reply::too_many(wait));
            }
        }
        match &self.end {
            End::Redirect(redirect) => {
                return answer(Reply::redirect(redirect, self.path.as_deref(), &values));
            }
            End::Fixed(reply) => return answer(reply.clone()),
            End::Pool => {}
        }
        let edits = || self.own.iter().chain(&self.listeners);
        let target =
            edits().find_map(|edits| edit::target(edits, self.path.as_deref(), asked.target));
        let host = edits().find_map(|edits| Some(edits.host.as_ref()?.get_ref().clone()));
        let (request, response) = (self.request.lines(&values), self.response.lines(&values));
        Verdict::Forward(Passage {
            rules: Arc::clone(self),
            // What is asked of the whole server is of no path.
            target: target.filter(|_| asked.target != "*"),
            host,
            request,
            response,
            offer: (self.compress.as_ref())
                .map(|by| by.offer(header("accept-encoding"), header("cache-control"))),
            id,
        })
    }
}

/// A limit that goes on, or a new one.
pub(crate) fn kept(known: Option<&Arc<Limiter>>, config: &RateLimit) -> Arc<Limiter> {
    match known {
        Some(known) if known.config() == config => Arc::clone(known),
        _ => Arc::new(Limiter::new(config)),
    }
}

#[cfg(test)]
mod tests;
