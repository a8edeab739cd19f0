//! A list of rules as routes, of which the first one that fits is taken.
//!
//! Routes say what has to be so, and rules also what must not be. A rule "if A and not B" becomes
//! two steps: requests with A and B go where the rules below would send them, and only then those
//! with A are taken. So the list is made from its end, where everything goes to the default.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::condition::{Alternatives, Atom, PathIs};
use super::toml::{Table, text};

/// A rule: what of, and where to.
#[derive(Clone, Debug)]
pub(super) struct Rule<T> {
    /// The line.
    pub line: usize,
    /// Which requests.
    pub of: Alternatives,
    /// Where they go.
    pub to: T,
}

/// What a route asks for, of which all has to be so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Match {
    /// The host.
    pub host: Option<String>,
    /// The path.
    pub path: Option<PathIs>,
    /// One of these methods.
    pub methods: Option<Vec<String>>,
    /// Headers with their values.
    pub headers: BTreeMap<String, String>,
    /// The client's networks.
    pub client: Option<Vec<IpNet>>,
    /// The name that is asked for by TLS.
    pub server_name: Option<String>,
    /// Patterns of the host, the path and headers.
    pub host_matches: Option<String>,
    pub path_matches: Option<String>,
    pub header_matches: BTreeMap<String, String>,
}

/// What is the same for all requests of a listener.
#[derive(Clone, Copy, Debug)]
pub(super) struct Here {
    /// Whether clients speak TLS.
    pub is_tls: bool,
    /// The port.
    pub port: Option<u16>,
}

/// So many routes may come of the rules of a listener.
const ROUTES_MAX: usize = 256;

/// The routes of these rules, ending with the default if something may come to it.
///
/// # Errors
///
/// The line of the rule that cannot be said, and why not.
pub(super) fn compiled<T: Clone + PartialEq>(
    rules: &[Rule<T>],
    default: T,
    here: Here,
) -> Result<Vec<(Match, T)>, (usize, String)> {
    let mut list = vec![(Match::default(), default)];
    for rule in rules.iter().rev() {
        // From the last one on, as the list is.
        for alternative in rule.of.iter().rev() {
            let added = before(alternative, &rule.to, &list, here);
            list = added.map_err(|why| (rule.line, why))?;
        }
        if list.len() > ROUTES_MAX {
            let said = format!("the rules down from here become more than {ROUTES_MAX} routes");
            return Err((rule.line, said));
        }
    }
    Ok(list)
}

/// The list without routes that change nothing: what they take would go to the same place further
/// down.
pub(super) fn thinned<T: PartialEq>(mut list: Vec<(Match, T)>) -> Vec<(Match, T)> {
    let mut index = list.len();
    while index > 0 {
        index -= 1;
        let (of, to) = &list[index];
        let mut needed = true;
        for (below, there) in &list[index + 1..] {
            match of.and(below) {
                Ok(None) => {}
                // All of it comes here.
                Ok(Some(both)) if both == *of => {
                    needed = there != to;
                    break;
                }
                Ok(Some(_)) if there == to => {}
                Ok(Some(_)) | Err(_) => break,
            }
        }
        if !needed {
            list.remove(index);
        }
    }
    list
}

/// A list, for what else is asked for besides.
///
/// # Errors
///
/// The line, if it cannot be said.
pub(super) fn within<T: PartialEq>(
    of: &Match,
    list: Vec<(Match, T)>,
    line: usize,
) -> Result<Vec<(Match, T)>, (usize, String)> {
    let mut routes = Vec::new();
    for (inner, to) in list {
        if let Some(both) = of.and(&inner).map_err(|why| (line, why))? {
            push(&mut routes, (both, to));
        }
    }
    Ok(routes)
}

/// The list with the routes of one alternative before it.
fn before<T: Clone + PartialEq>(
    alternative: &[super::condition::Literal],
    to: &T,
    list: &[(Match, T)],
    here: Here,
) -> Result<Vec<(Match, T)>, String> {
    let mut taken = vec![Match::default()];
    for literal in alternative.iter().filter(|literal| !literal.is_not) {
        taken = narrowed(&taken, &literal.any_of, here)?;
    }
    let refused: Vec<Atom> = alternative
        .iter()
        .filter(|literal| literal.is_not)
        .flat_map(|literal| literal.any_of.clone())
        .collect();
    let mut routes: Vec<(Match, T)> = Vec::new();
    for one in &taken {
        for except in narrowed(std::slice::from_ref(one), &refused, here)? {
            for (below, there) in list {
                if let Some(both) = except.and(below)? {
                    push(&mut routes, (both, there.clone()));
                }
            }
        }
        push(&mut routes, (one.clone(), to.clone()));
        if routes.len() > ROUTES_MAX {
            return Err(format!("it becomes more than {ROUTES_MAX} routes"));
        }
    }
    for route in list {
        push(&mut routes, route.clone());
    }
    Ok(routes)
}

/// Adds a route, if a request could come to it.
fn push<T: PartialEq>(routes: &mut Vec<(Match, T)>, route: (Match, T)) {
    let is_covered = |known: &(Match, T)| {
        let both = route.0.and(&known.0);
        both.is_ok_and(|both| both.as_ref() == Some(&route.0))
    };
    if !routes.iter().any(is_covered) {
        routes.push(route);
    }
}

/// Each of these with each of the tests, as far as both can be so.
fn narrowed(all: &[Match], any_of: &[Atom], here: Here) -> Result<Vec<Match>, String> {
    let mut narrowed = Vec::new();
    for one in all {
        for atom in any_of {
            let of = Match::of(atom, here);
            if let Some(both) = of.map(|of| one.and(&of)).transpose()?.flatten()
                && !narrowed.contains(&both)
            {
                narrowed.push(both);
            }
        }
        if narrowed.len() > ROUTES_MAX {
            return Err(format!("it becomes more than {ROUTES_MAX} routes"));
        }
    }
    Ok(narrowed)
}

impl Match {
    /// Whether it takes every request.
    pub(super) fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// The keys that ask for it.
    pub(super) fn write(&self, table: &mut Table) {
        if let Some(host) = &self.host {
            table.key("host", &text(host));
        }
        match &self.path {
            None => {}
            Some(PathIs::Is(path)) => table.key("path_is", &text(path)),
            // With a `/` at its end it means the same.
            Some(PathIs::Begins(path)) if path.ends_with('/') => table.key("path", &text(path)),
            Some(PathIs::Begins(path)) => table.key("path_begins", &text(path)),
            Some(PathIs::Ends(end)) => table.key("path_ends", &text(end)),
            Some(PathIs::Both(from, to)) => {
                table.key("path_begins", &text(from));
                table.key("path_ends", &text(to));
            }
        }
        if let Some(methods) = &self.methods {
            let names: Vec<String> = methods.iter().map(|name| text(name)).collect();
            table.key("methods", &format!("[{}]", names.join(", ")));
        }
        if let Some(name) = &self.server_name {
            table.key("server_names", &format!("[{}]", text(name)));
        }
        if let Some(networks) = &self.client {
            let names: Vec<String> = networks.iter().map(|one| text(&one.to_string())).collect();
            table.key("client", &format!("[{}]", names.join(", ")));
        }
        for (key, pattern) in [
            ("host_matches", &self.host_matches),
            ("path_matches", &self.path_matches),
        ] {
            if let Some(pattern) = pattern {
                table.key(key, &text(pattern));
            }
        }
        for (key, headers) in [
            ("headers", &self.headers),
            ("header_matches", &self.header_matches),
        ] {
            let pairs = headers.iter();
            let pairs = pairs.map(|(name, value)| format!("{} = {}", text(name), text(value)));
            let pairs: Vec<String> = pairs.collect();
            if !pairs.is_empty() {
                table.key(key, &format!("{{ {} }}", pairs.join(", ")));
            }
        }
    }

    /// What one test asks for; nothing, if it is never so here.
    fn of(atom: &Atom, here: Here) -> Option<Self> {
        let mut of = Self::default();
        match atom {
            Atom::Host(host) => of.host = Some(host.clone()),
            Atom::Path(path) => of.path = Some(path.clone()),
            Atom::Methods(methods) => of.methods = Some(methods.clone()),
            Atom::Header(name, value) => {
                of.headers.insert(name.to_ascii_lowercase(), value.clone());
            }
            Atom::HeaderMatches(name, pattern) => {
                let pattern = pattern.clone();
                of.header_matches.insert(name.to_ascii_lowercase(), pattern);
            }
            Atom::HostMatches(pattern) => of.host_matches = Some(pattern.clone()),
            Atom::PathMatches(pattern) => of.path_matches = Some(pattern.clone()),
            Atom::Client(networks) => of.client = Some(networks.clone()),
            Atom::ServerName(name) => of.server_name = Some(name.clone()),
            Atom::Tls(is_tls) if *is_tls == here.is_tls => {}
            Atom::Port(port) if Some(*port) == here.port => {}
            Atom::Http | Atom::Always(true) => {}
            Atom::Tls(_) | Atom::Port(_) | Atom::Always(false) => return None,
        }
        Some(of)
    }

    /// What both ask for; nothing, if no request has both.
    ///
    /// # Errors
    ///
    /// Some may have both, and it cannot be said.
    fn and(&self, other: &Self) -> Result<Option<Self>, String> {
        let host = both(&self.host, &other.host, |a, b| Ok(host_of_both(a, b)))?;
        let path = both(&self.path, &other.path, path_of_both)?;
        let methods = both(&self.methods, &other.methods, |a, b| {
            let common: Vec<String> = a.iter().filter(|name| b.contains(name)).cloned().collect();
            Ok((!common.is_empty()).then_some(common))
        })?;
        let client = both(&self.client, &other.client, |a, b| {
            Ok(networks_of_both(a, b))
        })?;
        let server_name = both(&self.server_name, &other.server_name, |a, b| {
            Ok(host_of_both(a, b))
        })?;
        let (Some(host), Some(path), Some(methods), Some(client), Some(server_name)) =
            (host, path, methods, client, server_name)
        else {
            return Ok(None);
        };
        let host_matches = pattern_of_both("the host", &self.host_matches, &other.host_matches)?;
        let path_matches = pattern_of_both("the path", &self.path_matches, &other.path_matches)?;
        let mut header_matches = self.header_matches.clone();
        for (name, pattern) in &other.header_matches {
            let known = header_matches.get(name).cloned();
            let what = format!("the header {name}");
            if let Some(pattern) = pattern_of_both(&what, &known, &Some(pattern.clone()))? {
                header_matches.insert(name.clone(), pattern);
            }
        }
        let mut headers = self.headers.clone();
        for (name, value) in &other.headers {
            let known = headers.get(name).cloned();
            match known {
                Some(known) if known == *value || value == "*" => {}
                Some(known) if known != "*" => {
                    return Err(format!(
                        "a route asks for one value of the header {name}, not for {known:?} and \
                         {value:?}"
                    ));
                }
                _ => {
                    headers.insert(name.clone(), value.clone());
                }
            }
        }
        Ok(Some(Self {
            host,
            path,
            methods,
            headers,
            client,
            server_name,
            host_matches,
            path_matches,
            header_matches,
        }))
    }
}

/// What both ask for, if each may ask for nothing: `None`, if no request has both.
fn both<T: Clone>(
    a: &Option<T>,
    b: &Option<T>,
    common: impl Fn(&T, &T) -> Result<Option<T>, String>,
) -> Result<Option<Option<T>>, String> {
    match (a, b) {
        (None, other) | (other, None) => Ok(Some(other.clone())),
        (Some(a), Some(b)) => Ok(common(a, b)?.map(Some)),
    }
}

/// The networks in which clients of both are: of two, one is in the other, or they have no client
/// in common.
fn networks_of_both(a: &Vec<IpNet>, b: &Vec<IpNet>) -> Option<Vec<IpNet>> {
    if a == b {
        return Some(a.clone());
    }
    let mut common = Vec::new();
    for one in a {
        for other in b {
            let inner = if other.contains(one) {
                one
            } else if one.contains(other) {
                other
            } else {
                continue;
            };
            if !common.contains(inner) {
                common.push(*inner);
            }
        }
    }
    (!common.is_empty()).then_some(common)
}

fn pattern_of_both(
    what: &str,
    a: &Option<String>,
    b: &Option<String>,
) -> Result<Option<String>, String> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => Err(format!(
            "a route asks for one pattern of {what}, not for {a:?} and {b:?}"
        )),
        (a, b) => Ok(a.clone().or_else(|| b.clone())),
    }
}

fn host_of_both(a: &String, b: &String) -> Option<String> {
    let is_below = |host: &str, of: &str| {
        of.strip_prefix('*')
            .is_some_and(|end| host.len() > end.len() && host.ends_with(end))
    };
    if a == b || is_below(a, b) {
        Some(a.clone())
    } else if is_below(b, a) {
        Some(b.clone())
    } else {
        None
    }
}

fn path_of_both(a: &PathIs, b: &PathIs) -> Result<Option<PathIs>, String> {
    use PathIs::{Begins, Both, Ends, Is};
    let fits = |path: &str, what: &PathIs| match what {
        Is(whole) => path == whole,
        Begins(with) => path.starts_with(with.as_str()),
        Ends(with) => path.ends_with(with.as_str()),
        Both(from, to) => path.starts_with(from.as_str()) && path.ends_with(to.as_str()),
    };
    match (a, b) {
        (a, b) if a == b => Ok(Some(a.clone())),
        (Is(path), other) | (other, Is(path)) => Ok(fits(path, other).then(|| Is(path.clone()))),
        (Begins(one), Begins(two)) => Ok(match (fits(one, b), fits(two, a)) {
            (true, _) => Some(a.clone()),
            (_, true) => Some(b.clone()),
            _ => None,
        }),
        (Ends(one), Ends(two)) => Ok(match (fits(one, b), fits(two, a)) {
            (true, _) => Some(a.clone()),
            (_, true) => Some(b.clone()),
            _ => None,
        }),
        // Every path has this beginning.
        (Begins(root), other) | (other, Begins(root)) if root == "/" => Ok(Some(other.clone())),
        (Begins(from), Ends(to)) | (Ends(to), Begins(from)) => {
            Ok(Some(Both(from.clone(), to.clone())))
        }
        (Both(from, to), other) | (other, Both(from, to)) => {
            let (from, to) = (Begins(from.clone()), Ends(to.clone()));
            match (path_of_both(&from, other)?, path_of_both(&to, other)?) {
                (Some(Begins(from)), Some(Both(_, to))) | (Some(Both(from, _)), Some(Ends(to))) => {
                    Ok(Some(Both(from, to)))
                }
                (None, _) | (_, None) => Ok(None),
                _ => Err("a route asks for one beginning and one end of a path".to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
