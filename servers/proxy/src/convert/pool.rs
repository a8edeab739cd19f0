//! A pool for each backend.

use rustls::pki_types::ServerName;

use super::Remarks;
use super::check::Times;
use super::options::Meaning;
use super::sections::{Part, Sections};
use super::server::{Server, Tls};
use super::toml::{Table, key, text};
use super::values;

/// So many retries beyond the budget, which HAProxy does not have.
const RESERVE: u32 = 1_000;

/// How long a value of one line is that is easily read.
const LINE_MAX: usize = 80;

/// The tables of a backend that has servers.
pub(super) fn written(part: &Part, sections: &Sections, remarks: &mut Remarks) -> Vec<Table> {
    let settings = &part.settings;
    let path = format!("pool.{}", key(&values::name(&part.name)));
    let mut table = Table::new(&path);
    balance(part, &mut table, remarks);
    if let Some(retries) = &settings.retries
        && retries.value > 10
    {
        remarks.error(retries.line, "there are at most 10 retries");
    }
    // Three are HAProxy's default, and it has no budget.
    let max = settings.retries.as_ref().map_or(3, |retries| retries.value);
    let max = max.min(10);
    table.key(
        "retries",
        &format!("{{ max = {max}, budget_percent = 100, reserve = {RESERVE} }}"),
    );
    spoken(part, &mut table, remarks);
    queue(part, &mut table, remarks);
    match &settings.cookie {
        Some(cookie) if !settings.is_http => {
            remarks.error(cookie.line, "there are no cookies in mode tcp");
        }
        Some(cookie)
            if settings
                .balance
                .as_ref()
                .is_some_and(|at| at.value.hash_on.is_some()) =>
        {
            let said = "clients come back to their server by a cookie or by a hash: drop one";
            remarks.error(cookie.line, said);
        }
        Some(cookie) => table.key("sticky", &cookie.value),
        None => {}
    }
    if let Some(time) = same(part, "slowstart", |server| server.slow_start, remarks) {
        table.key("slow_start", &text(&values::time_shown(time)));
    }
    let idle = same(part, "pool-max-conn", |server| server.idle_max, remarks);
    if settings.is_on(Meaning::CloseServer).is_some() {
        table.key("idle_connections_max", "0");
    } else if let Some(idle) = idle {
        table.key("idle_connections_max", &idle.to_string());
    }
    times(part, &mut table);
    let check = check(part, &path, &mut table, remarks);
    tls(part, sections, &mut table, remarks);
    backups(part, remarks);
    let mut tables = vec![table];
    tables.extend(check);
    for (index, server) in part.servers.iter().enumerate() {
        if part.servers[..index]
            .iter()
            .any(|other| other.name == server.name)
        {
            let said = format!("there is another server {} in this section", server.name);
            remarks.error(server.line, said);
            continue;
        }
        tables.push(of_server(server, &path, sections));
    }
    tables
}

fn balance(part: &Part, table: &mut Table, remarks: &mut Remarks) {
    let settings = &part.settings;
    if let Some(balance) = &settings.balance {
        let mut balance = balance.clone();
        let is_of_request = balance
            .value
            .hash_on
            .as_deref()
            .is_some_and(|on| on != "client");
        if is_of_request && !settings.is_http {
            let said = "servers are chosen by something of requests, in mode tcp";
            remarks.error(balance.line, said);
            balance.value.hash_on = Some("client".to_owned());
        }
        table.key("balance", &text(balance.value.how));
        if let Some(on) = &balance.value.hash_on {
            table.key("hash_on", &text(on));
        }
    }
}

/// HTTP/2, if all servers speak it.
fn spoken(part: &Part, table: &mut Table, remarks: &mut Remarks) {
    let is_h2 = same(part, "HTTP/2", |server| Some(server.is_h2), remarks);
    if is_h2 != Some(true) || !part.settings.is_http {
        return;
    }
    table.key("protocol", "\"h2\"");
    let sender = part
        .servers
        .iter()
        .find(|server| server.send_proxy.is_some());
    if let Some(server) = sender {
        let said = "connections of HTTP/2 are for several clients, so that no header of the PROXY \
                    protocol can say whose they are";
        remarks.error(server.line, said);
    }
}

/// HAProxy goes to the first backup alone, unless it is told otherwise.
fn backups(part: &Part, remarks: &mut Remarks) {
    let mut backups = part.servers.iter().filter(|server| server.is_backup);
    let is_told = part.settings.is_on(Meaning::AllBackups).is_some();
    if let Some(second) = backups.nth(1).filter(|_| !is_told) {
        let said = "the backups of a pool share its work, and do not come one after the other";
        remarks.note(second.line, said);
    }
}

fn times(part: &Part, table: &mut Table) {
    let settings = &part.settings;
    let mut times = Vec::new();
    for (name, from) in [
        ("connect", "connect"),
        ("answer", "server"),
        ("body", "server"),
    ] {
        if let Some(time) = settings.time(&[from]) {
            times.push(format!("{name} = \"{}\"", values::time_shown(time.value)));
        }
    }
    if !times.is_empty() {
        table.key("timeouts", &format!("{{ {} }}", times.join(", ")));
    }
}

/// What all servers of a pool have in common here.
fn same<T: Clone + PartialEq>(
    part: &Part,
    what: &str,
    of: impl Fn(&Server) -> Option<T>,
    remarks: &mut Remarks,
) -> Option<T> {
    let first = part.servers.first()?;
    for server in &part.servers {
        if of(server) != of(first) {
            let said = format!(
                "{what} is the same for all servers of a pool: {}'s is not",
                server.name
            );
            remarks.error(server.line, said);
        }
    }
    of(first)
}

fn queue(part: &Part, table: &mut Table, remarks: &mut Remarks) {
    let mut keys = Vec::new();
    if let Some(max) = same(part, "maxqueue", |server| server.maxqueue, remarks) {
        keys.push(format!("max = {}", max.saturating_mul(part.servers.len())));
    }
    if let Some(time) = part.settings.time(&["queue", "connect"]) {
        keys.push(format!("timeout = \"{}\"", values::time_shown(time.value)));
    }
    if !keys.is_empty() {
        table.key("queue", &format!("{{ {} }}", keys.join(", ")));
    }
}

/// A key of the pool, or a table of its own if that is long.
fn check(part: &Part, path: &str, table: &mut Table, remarks: &mut Remarks) -> Option<Table> {
    let first = part.servers.iter().find(|server| server.is_checked)?;
    for server in &part.servers {
        if server.is_checked != first.is_checked || server.times != first.times {
            let said = format!(
                "all servers of a pool are checked, in the same way: {}'s differs",
                server.name
            );
            remarks.error(server.line, said);
        }
    }
    let mut times: Times = first.times;
    let limit = part.settings.time(&["check"]).map(|time| time.value);
    times.timeout = limit.or(times.interval);
    for (what, count) in [("rise", &mut times.rise), ("fall", &mut times.fall)] {
        if count.is_some_and(|count| !(1..=100).contains(&count)) {
            remarks.error(first.line, format!("{what} is from 1 to 100"));
            *count = None;
        }
    }
    let keys = part.settings.check.written(&times);
    let line = format!("{{ {} }}", keys.join(", "));
    if line.len() <= LINE_MAX {
        table.key("check", &line);
        return None;
    }
    let mut own = Table::new(&format!("{path}.check"));
    keys.iter().for_each(|key| own.line(key));
    Some(own)
}

fn tls(part: &Part, sections: &Sections, table: &mut Table, remarks: &mut Remarks) {
    let of = |server: &Server| server.is_tls.then(|| server.tls.clone());
    let Some(tls) = same(part, "TLS", of, remarks) else {
        return;
    };
    let global = &sections.global;
    let verifies_nobody = tls.verifies_nobody.unwrap_or(global.verifies_nobody);
    let Tls { ca, .. } = &tls;
    for server in &part.servers {
        let named = match &tls.server_name {
            Some(name) => ServerName::try_from(name.as_str())
                .map_err(|_| format!("{name:?} is no name that a certificate could have"))
                .map(drop),
            None => (server.address.parse())
                .and_then(|address| crate::tls::server_name(&address))
                .map(drop),
        };
        if let Err(why) = named {
            let said = format!("{why}: give the server one by sni or verifyhost");
            remarks.error(server.line, said);
        }
    }
    let mut keys = Vec::new();
    if verifies_nobody {
        keys.push("verify = false".to_owned());
    } else if let Some(ca) = ca {
        keys.push(format!("ca = {}", text(ca)));
    }
    if !verifies_nobody && tls.server_name.is_none() {
        let said = "servers are verified, also by their names, which HAProxy does not do without \
                    verifyhost or sni";
        remarks.note(part.servers[0].line, said);
    }
    let texts = [
        ("server_name", &tls.server_name),
        ("certificate", &tls.certificate),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            keys.push(format!("{name} = {}", text(value)));
        }
    }
    let oldest = tls
        .min_version
        .as_ref()
        .or(global.server_min_version.as_ref());
    if oldest.is_some_and(|version| version == "1.3") {
        keys.push("min_version = \"1.3\"".to_owned());
    }
    if keys.is_empty() {
        table.key("tls", "true");
    } else {
        table.key("tls", &format!("{{ {} }}", keys.join(", ")));
    }
}

fn of_server(server: &Server, path: &str, sections: &Sections) -> Table {
    let mut table = Table::list(&format!("{path}.server"));
    table.key("name", &text(&server.name));
    table.key("address", &text(&server.address));
    if let Some(weight) = server.weight {
        table.key("weight", &weight.to_string());
    }
    // Without a limit, as many as there may be clients.
    let of_all = sections.global.maxconn.as_ref().map(|max| max.value);
    let max = server.maxconn.or(of_all.filter(|max| *max > 10_000));
    if let Some(max) = max {
        table.key("connections_max", &max.to_string());
    }
    if let Some(version) = server.send_proxy {
        table.key("send_proxy", &text(version));
    }
    if server.is_disabled {
        table.key("disabled", "true");
    }
    if server.is_backup {
        table.key("backup", "true");
    }
    table
}
