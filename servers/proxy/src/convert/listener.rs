//! A listener for each address of a frontend, with its routes.

use super::Remarks;
use super::bind::{Bind, Tls};
use super::gates::{self, Gates};
use super::options::Meaning;
use super::routes::{self, Here, Match};
use super::rules::{self, Action, Edits, Of};
use super::sections::{Part, Sections};
use super::settings::Settings;
use super::toml::{Table, text};
use super::values::{self, At};

/// By so much a listener's limit is above the one of the whole process.
const BEYOND: usize = 1_000;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum To {
    /// To this backend.
    Pool(String),
    /// It is answered: the keys that say how.
    End(String),
    /// Nowhere, which HAProxy answers with 503.
    Nowhere,
    /// Nowhere, without an answer.
    Rejected,
}

/// What becomes of the rules of a section.
#[derive(Debug, Default)]
struct Ruled {
    /// Which requests go no further.
    ends: Vec<routes::Rule<To>>,
    /// Changes of headers.
    request: Edits,
    response: Edits,
    /// The line by which `X-Forwarded-Proto` is set.
    forwarded_proto: Option<usize>,
}

/// The tables of a frontend.
pub(super) fn written(part: &Part, sections: &Sections, remarks: &mut Remarks) -> Vec<Table> {
    let mut tables = Vec::new();
    for (index, bind) in part.binds.iter().enumerate() {
        let name = name(&values::name(&part.name), index);
        let made = Listener {
            part,
            sections,
            bind,
            remarks: &mut *remarks,
        }
        .tables(&name);
        tables.extend(made);
    }
    if part.binds.len() > 1
        && let Some(max) = &part.settings.maxconn
    {
        remarks.note(
            max.line,
            "the limit holds for each address of its own, not for all together",
        );
    }
    tables
}

/// The name of the listener for one of several addresses.
pub(super) fn name(of_part: &str, index: usize) -> String {
    if index == 0 {
        return of_part.to_owned();
    }
    let end = format!("-{}", index + 1);
    let length = of_part.len().min(64 - end.len());
    format!("{}{end}", &of_part[..length])
}

struct Listener<'a> {
    part: &'a Part,
    sections: &'a Sections,
    bind: &'a Bind,
    remarks: &'a mut Remarks,
}

impl Listener<'_> {
    fn here(&self) -> Here {
        let port = self.bind.address.rsplit_once(':');
        Here {
            is_tls: self.bind.tls.is_some(),
            port: port.and_then(|(_, port)| port.parse().ok()),
        }
    }

    fn tables(mut self, name: &str) -> Vec<Table> {
        let settings = &self.part.settings;
        let list = self.routes();
        let mut ruled = self.ruled(self.part);
        self.id(&mut ruled);
        let mut table = Table::new(&format!("listener.{}", super::toml::key(name)));
        table.key("bind", &text(&self.bind.address));
        table.key(
            "mode",
            if settings.is_http {
                "\"http\""
            } else {
                "\"tcp\""
            },
        );
        let (last, routes) = match list.split_last() {
            Some(((of, to), routes)) if of.is_open() => (to.clone(), routes),
            _ => (To::Nowhere, list.as_slice()),
        };
        if !self.leads_somewhere(&last, routes) {
            return Vec::new();
        }
        let (pool, mut route_tables) = self.destinations(name, last, routes);
        if let Some(pool) = pool {
            table.key("pool", &text(&pool));
        }
        if self.bind.accept_proxy {
            table.key("accept_proxy", "true");
        }
        self.limits(&mut table);
        self.log(&mut table);
        if settings.is_http {
            if let Some(h2) = self.bind.h2() {
                table.key("h2", h2);
            }
            self.compression(&list, &mut table);
            self.forwarded(&ruled, &list, &mut table);
            ruled.request.write("request", &mut table);
            ruled.response.write("response", &mut table);
        }
        let idle = self.idle(&list);
        let times = self.times(idle.as_ref());
        if !times.is_empty() {
            table.key("timeouts", &format!("{{ {} }}", times.join(", ")));
        }
        let mut tables = vec![table];
        if let Some(tls) = &self.bind.tls {
            tables.extend(self.tls(name, tls));
        }
        tables.append(&mut route_tables);
        tables
    }

    /// The header with the id of a request.
    fn id(&mut self, ruled: &mut Ruled) {
        if let Some(header) = &self.part.settings.id_header {
            let set = rules::Edit::Set(header.value.clone(), "{request_id}".to_owned());
            let added = ruled.request.add(set);
            self.remarks.good(header.line, added);
        }
    }

    fn leads_somewhere(&mut self, last: &To, routes: &[(Match, To)]) -> bool {
        let is_http = self.part.settings.is_http;
        let is_there = |to: &To| match is_http {
            true => *to != To::Nowhere,
            false => matches!(to, To::Pool(_)),
        };
        if is_http && (is_there(last) || routes.iter().any(|(_, to)| is_there(to))) {
            return true;
        }
        if !is_http && (is_there(last) || routes.iter().any(|(_, to)| is_there(to))) {
            return true;
        }
        let said = format!(
            "{} sends nothing to a server, so it is left out",
            self.part.name
        );
        self.remarks.error(self.part.lines.start, said);
        false
    }

    /// The whole list of what goes where, with the rules of backends.
    fn routes(&mut self) -> Vec<(Match, To)> {
        let part = self.part;
        let here = self.here();
        let mut rules = self.ruled(part).ends;
        for used in &part.uses {
            let Some((name, condition)) = used.value.split_first() else {
                self.remarks.error(used.line, "use_backend needs a name");
                continue;
            };
            let of = part.conditions.read(condition);
            let of = of.and_then(|of| match gates::out_of_place(&of, part.settings.is_http) {
                Some(why) => Err(why.to_owned()),
                None => Ok(of),
            });
            let to = self.backend(used.line, name);
            if let (Some(of), Some(to)) = (self.remarks.good(used.line, of), to) {
                let line = used.line;
                rules.push(routes::Rule { line, of, to });
            }
        }
        let default = part.settings.default_backend.clone();
        let default = match default {
            Some(At { line, value }) => self.backend(line, &value).unwrap_or(To::Nowhere),
            None if !part.servers.is_empty() => To::Pool(part.name.clone()),
            None => To::Nowhere,
        };
        let list = match routes::compiled(&rules, default, here) {
            Ok(list) => list,
            Err((line, why)) => {
                self.remarks.error(line, why);
                Vec::new()
            }
        };
        let list = self.followed(list, here);
        self.gated(list, here)
    }

    /// The list behind the rules of connections.
    fn gated(&mut self, list: Vec<(Match, To)>, here: Here) -> Vec<(Match, To)> {
        let (gates, is_http) = (Gates::read(self.part), self.part.settings.is_http);
        for (line, why) in &gates.wrong {
            self.remarks.error(*line, why);
        }
        if self.bind.accept_proxy
            && let Some(line) = gates.of_address()
        {
            let said = "with accept-proxy, rules of connections go by the address of the proxy in \
                        front, and here all go by the client's: write tcp-request session for that";
            self.remarks.error(line, said);
        }
        for (line, of) in gates.conditions() {
            if let Some(why) = gates::out_of_place(of, is_http) {
                self.remarks.error(line, why);
                return list;
            }
        }
        if is_http && gates.reject() {
            let said = "what tcp-request rejects is answered with 403";
            self.remarks.note(self.part.gates[0].line, said);
        }
        match gates.before(list.clone(), &To::Rejected, here) {
            Ok(list) => list,
            Err((line, why)) => {
                self.remarks.error(line, why);
                list
            }
        }
    }

    /// What a name of a backend stands for.
    fn backend(&mut self, line: usize, name: &str) -> Option<To> {
        if name.contains('%') {
            let said = "the backend is put together from the request, which cannot be had here";
            self.remarks.error(line, said);
            return None;
        }
        match self.sections.backend(name) {
            Some(part) if part.settings.is_http != self.part.settings.is_http => {
                let said = format!("the backend {name} has another mode");
                self.remarks.error(line, said);
                None
            }
            Some(part) if std::ptr::eq(part, self.part) && part.servers.is_empty() => {
                Some(To::Nowhere)
            }
            Some(_) => Some(To::Pool(name.to_owned())),
            None => {
                self.remarks
                    .error(line, format!("there is no backend {name:?}"));
                None
            }
        }
    }

    /// The list with what the rules of backends end.
    fn followed(&mut self, list: Vec<(Match, To)>, here: Here) -> Vec<(Match, To)> {
        let mut all = Vec::new();
        for (of, to) in list {
            let behind = match &to {
                To::Pool(name) => self.sections.backend(name),
                _ => None,
            };
            // The rules of a section that is both were looked at before.
            let Some(part) = behind.filter(|part| !std::ptr::eq(*part, self.part)) else {
                all.push((of, to));
                continue;
            };
            let end = if part.servers.is_empty() {
                To::Nowhere
            } else {
                to
            };
            let ends = self.ruled(part).ends;
            let within = routes::compiled(&ends, end, here);
            let within = within.and_then(|list| routes::within(&of, list, part.lines.start));
            match within {
                Ok(list) => all.extend(list),
                Err((line, why)) => self.remarks.error(line, why),
            }
        }
        routes::thinned(all)
    }

    /// What becomes of the rules of a section, for this listener.
    fn ruled(&mut self, part: &Part) -> Ruled {
        let here = self.here();
        let mut ruled = Ruled::default();
        let mut rules: Vec<_> = part.rules.iter().collect();
        rules.sort_by_key(|rule| rule.turn);
        for rule in rules {
            if !part.settings.is_http {
                self.remarks
                    .error(rule.line, "rules of HTTP need mode http");
                continue;
            }
            let read = rule.read();
            let Some((action, condition)) = self.remarks.good(rule.line, read) else {
                continue;
            };
            let edit = match action {
                Action::Nothing(why) => {
                    self.remarks
                        .note(rule.line, format!("it is left out: {why}"));
                    continue;
                }
                Action::End(keys) => {
                    let monitored = rule.monitored();
                    let of = match monitored {
                        Some(of) => Ok(of),
                        None => part.conditions.read(condition),
                    };
                    if rule.of == Of::Response {
                        let said = "answers of servers are passed on, and not replaced";
                        self.remarks.error(rule.line, said);
                    } else if let Some(of) = self.remarks.good(rule.line, of) {
                        let (line, to) = (rule.line, To::End(keys));
                        ruled.ends.push(routes::Rule { line, of, to });
                    }
                    continue;
                }
                Action::ForwardedProto(said) => {
                    let is_so = rules::always(&part.conditions, condition, here);
                    let is_so = self.remarks.good(rule.line, is_so) == Some(true);
                    // The proxy says it by itself, and nothing else.
                    if is_so && said.is_some_and(|is_https| is_https != here.is_tls) {
                        let why = "X-Forwarded-Proto says here what clients speak with this \
                                   listener, and not what they speak with a proxy in front of it";
                        self.remarks.error(rule.line, why);
                    } else if is_so {
                        ruled.forwarded_proto = Some(rule.line);
                    }
                    continue;
                }
                Action::Edit(edit) => edit,
            };
            let is_so = rules::always(&part.conditions, condition, here);
            if self.remarks.good(rule.line, is_so) == Some(true) {
                let edits = match rule.of {
                    Of::Request => &mut ruled.request,
                    Of::Response => &mut ruled.response,
                };
                let added = edits.add(edit);
                self.remarks.good(rule.line, added);
            }
        }
        ruled
    }

    /// The pool of the listener, and the tables of its routes.
    fn destinations(
        &mut self,
        name: &str,
        last: To,
        routes: &[(Match, To)],
    ) -> (Option<String>, Vec<Table>) {
        let mut tables = Vec::new();
        let path = format!("listener.{}.route", super::toml::key(name));
        for (of, to) in routes {
            tables.push(self.route(&path, of, to));
        }
        let pool = match &last {
            To::Pool(pool) if !self.changes(pool) => Some(values::name(pool)),
            To::Nowhere if routes.is_empty() => None,
            // What no route takes is reset.
            To::Nowhere | To::Rejected if !self.part.settings.is_http => None,
            To::Pool(_) | To::End(_) | To::Nowhere | To::Rejected => {
                // Whatever has not gone elsewhere.
                let all = Match {
                    path: Some(super::condition::PathIs::Begins("/".to_owned())),
                    ..Match::default()
                };
                tables.push(self.route(&path, &all, &last));
                None
            }
        };
        (pool, tables)
    }

    /// Whether a backend changes headers.
    fn changes(&mut self, pool: &str) -> bool {
        let (request, response) = self.edits_of(pool);
        !(request.is_empty() && response.is_empty())
    }

    fn edits_of(&mut self, pool: &str) -> (Edits, Edits) {
        let part = self.sections.backend(pool);
        let part = part.filter(|part| !std::ptr::eq(*part, self.part));
        let ruled = part.map(|part| self.ruled(part)).unwrap_or_default();
        if let Some(line) = ruled.forwarded_proto {
            let said = "X-Forwarded-Proto is set for all of a frontend, or for none: write the \
                        rule there";
            self.remarks.error(line, said);
        }
        (ruled.request, ruled.response)
    }

    fn route(&mut self, path: &str, of: &Match, to: &To) -> Table {
        let mut table = Table::list(path);
        of.write(&mut table);
        match to {
            To::Pool(pool) => {
                table.key("pool", &text(&values::name(pool)));
                let (request, response) = self.edits_of(pool);
                request.write("request", &mut table);
                response.write("response", &mut table);
            }
            To::End(keys) => table.line(keys),
            To::Nowhere | To::Rejected if !self.part.settings.is_http => {
                table.key("reject", "true");
            }
            To::Nowhere => table.line("answer = { status = 503 }"),
            To::Rejected => table.line("answer = { status = 403 }"),
        }
        table
    }

    fn limits(&mut self, table: &mut Table) {
        let own = self.part.settings.maxconn.as_ref();
        if let Some(own) = own {
            let said = "connections beyond it are refused at once here, and wait in HAProxy";
            self.remarks.note(own.line, said);
        }
        let max = self.bind.maxconn.or(own.map(|max| max.value));
        // What the process has no room for waits, as in HAProxy, and a listener's limit refuses: so
        // that it is not reached before, it is larger.
        let of_all = self.sections.global.maxconn.as_ref();
        let max = max.or(of_all.map(|max| max.value.saturating_add(BEYOND)));
        if let Some(max) = max {
            table.key("connections_max", &max.to_string());
        }
        // There is no such limit in HAProxy.
        let own = max.unwrap_or(10_000).to_string();
        table.key("connections_per_client_max", &own);
        if let Some(buffer) = &self.sections.global.buffer {
            let bytes = buffer.value.clamp(1_024, 1 << 20);
            table.key("head_bytes_max", &bytes.to_string());
        }
    }

    fn log(&mut self, table: &mut Table) {
        let Some(log) = &self.part.settings.log else {
            return;
        };
        if let Some(name) = super::toml::log_name(self.sections, &log.value) {
            table.key("log", &text(&name));
        }
    }

    fn compression(&mut self, list: &[(Match, To)], table: &mut Table) {
        let behind = list.iter().filter_map(|(_, to)| match to {
            To::Pool(name) => self.sections.backend(name),
            _ => None,
        });
        let behind: Vec<&Settings> = behind.map(|part| &part.settings).collect();
        let own = &self.part.settings;
        let count = behind.iter().filter(|one| one.compresses).count();
        let by = match (own.compresses, count) {
            (true, _) => own,
            (false, 0) => return,
            (false, count) if count == behind.len() => behind[0],
            (false, _) => {
                let said = "answers of all backends of a frontend are compressed, or of none";
                return self.remarks.error(self.part.lines.start, said);
            }
        };
        let types = &by.compressed_types;
        let types = types.iter().map(|kind| text(kind)).collect::<Vec<_>>();
        let types = if types.is_empty() {
            String::new()
        } else {
            format!(", types = [{}]", types.join(", "))
        };
        table.key("compress", &format!("{{ codings = [\"gzip\"]{types} }}"));
    }

    fn forwarded(&mut self, ruled: &Ruled, list: &[(Match, To)], table: &mut Table) {
        let own = self.part.settings.is_on(Meaning::ForwardedFor);
        let mut lines = Vec::new();
        let mut is_everywhere = true;
        for (_, to) in list {
            if let To::Pool(name) = to {
                let part = self.sections.backend(name);
                let line = part.and_then(|part| part.settings.is_on(Meaning::ForwardedFor));
                is_everywhere &= line.is_some();
                lines.extend(line);
            }
        }
        let is_on = own.is_some() || (is_everywhere && !lines.is_empty());
        if let Some(line) = lines.first().filter(|_| !is_on) {
            let said = "the client's address is added for all backends of a frontend, or for none";
            self.remarks.error(*line, said);
        }
        let how = match (is_on, ruled.forwarded_proto) {
            (_, Some(line)) => {
                let said = "X-Forwarded-Proto and X-Forwarded-For are set together, so what \
                            clients say of themselves in either is dropped";
                self.remarks.note(line, said);
                "\"replace\""
            }
            (true, None) => "\"append\"",
            (false, None) => "\"keep\"",
        };
        table.key("forwarded_for", how);
    }

    /// How long nothing may come over a connection that is passed on. Backends may have times of
    /// their own, and here it is one of the listener: none is cut short by the longest.
    fn idle(&mut self, list: &[(Match, To)]) -> Option<At<std::time::Duration>> {
        let own = &self.part.settings;
        let of = |behind: &Settings| {
            let others = match own.is_http {
                true => own.time(&["client"]).cloned(),
                false => {
                    let both = [own.time(&["client"]), behind.time(&["server"])];
                    both.into_iter()
                        .flatten()
                        .min_by_key(|at| at.value)
                        .cloned()
                }
            };
            behind.time(&["tunnel"]).cloned().or(others)
        };
        let pools = list.iter().filter_map(|(_, to)| match to {
            To::Pool(name) => self.sections.backend(name),
            _ => None,
        });
        let times: Vec<_> = pools.map(|part| of(&part.settings)).collect();
        let Some(longest) = times.iter().flatten().max_by_key(|at| at.value).cloned() else {
            return of(own);
        };
        if times.iter().flatten().any(|at| at.value != longest.value) {
            let said = format!(
                "tunnels of all backends of {} may be silent for as long as the longest of them",
                self.part.name
            );
            self.remarks.note(longest.line, said);
        }
        Some(longest)
    }

    fn times(&self, idle: Option<&At<std::time::Duration>>) -> Vec<String> {
        let settings = &self.part.settings;
        let mut times = Vec::new();
        let mut put = |key: &str, time: Option<&At<std::time::Duration>>| {
            let time = time.map(|time| values::time_shown(time.value));
            times.extend(time.map(|time| format!("{key} = \"{time}\"")));
        };
        if settings.is_http {
            put("head", settings.time(&["http-request", "client"]));
            put(
                "keep_alive",
                settings.time(&["http-keep-alive", "http-request", "client"]),
            );
            put("body", settings.time(&["client"]));
            put("idle", idle);
        } else {
            put("idle", idle);
            let delay = Gates::read(self.part).delay;
            put("head", delay.map(|time| At::new(0, time)).as_ref());
        }
        if self.bind.tls.is_some() {
            put("handshake", settings.time(&["client-hs"]));
        }
        times
    }

    fn tls(&mut self, name: &str, tls: &Tls) -> Vec<Table> {
        let path = format!("listener.{}.tls", super::toml::key(name));
        let mut table = Table::new(&path);
        if let Some(ca) = &tls.client_ca {
            table.key("client_ca", &text(ca));
        }
        if tls.min_version.as_deref() == Some("1.3") {
            table.key("min_version", "\"1.3\"");
        }
        if !tls.tickets {
            table.key("tickets", "false");
        }
        if !self.part.settings.is_http && !tls.alpn.is_empty() {
            let names: Vec<String> = tls.alpn.iter().map(|name| text(name)).collect();
            table.key("alpn", &format!("[{}]", names.join(", ")));
        }
        let mut tables = vec![table];
        for file in &tls.certificates {
            let mut certificate = Table::list(&format!("{path}.certificate"));
            certificate.key("file", &text(file));
            // As HAProxy looks for it.
            let key = format!("{file}.key");
            if std::path::Path::new(&key).is_file() {
                certificate.key("key", &text(&key));
            }
            tables.push(certificate);
        }
        tables
    }
}
