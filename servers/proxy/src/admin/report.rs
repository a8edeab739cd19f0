//! What `show` says of the proxy, its listeners and its servers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::metrics;
use super::table::Table;
use crate::access_log::Log;
use crate::config::{Balance, HashOn, Mode};
use crate::counters::{Counter, OfListener, OfTls, Statuses};
use crate::pool::{Admin, Member, Pool, Server};
use crate::server::{Context, Front};

/// `show info`: names and values.
pub(super) fn info(context: &Context) -> Vec<(&'static str, Value)> {
    let site = context.site();
    let runtime = context.brief.look(&context.runtimes.serving);
    let fronts = site.fronts.values();
    let sum = |of: fn(&OfListener) -> &Counter| -> u64 {
        fronts
            .clone()
            .map(|front| of(&front.counters).total())
            .sum()
    };
    let lines = |of: fn(&Log) -> u64| -> u64 { site.logs.values().map(|log| of(log)).sum() };
    let requests = sum(|counters| &counters.requests);
    let listening = fronts.clone().filter_map(|front| front.tls.as_ref());
    let handshakes: usize = listening.map(|tls| tls.handshakes.count()).sum();
    vec![
        ("Name", json!("evenkeel-proxy")),
        ("Version", json!(env!("CARGO_PKG_VERSION"))),
        ("Nbthread", json!(runtime.workers)),
        ("RealTime", json!(context.runtimes.real_time)),
        ("Pid", json!(std::process::id())),
        ("Uptime_sec", json!(context.began.elapsed().as_secs())),
        ("Maxconn", json!(context.connections_max)),
        ("CurrConns", json!(context.current())),
        ("CumConns", json!(context.connections.total())),
        ("CumReq", json!(requests)),
        ("CurrTlsHandshakes", json!(handshakes)),
        (
            "CumTlsHandshakes",
            json!(sum(|counters| &counters.tls.done)),
        ),
        (
            "CumTlsResumed",
            json!(sum(|counters| &counters.tls.resumed)),
        ),
        ("CumTlsFailed", json!(sum(|counters| &counters.tls.failed))),
        ("CumTlsShed", json!(sum(|counters| &counters.tls_shed))),
        ("Listeners", json!(site.fronts.len())),
        ("Pools", json!(site.pools.len())),
        ("LogLines", json!(lines(|log| log.written()))),
        ("LogLinesDropped", json!(lines(|log| log.dropped()))),
        ("Reloads", json!(context.reloads.total())),
        ("Tasks", json!(runtime.tasks)),
        (
            "Utilisation_pct",
            json!((runtime.utilisation * 10_000.0).round() / 100.0),
        ),
        ("Stopping", json!(u8::from(*context.closing().borrow()))),
    ]
}

/// `show stat`: HAProxy's first columns in its order, empty where there is no such figure, and then
/// those of this program.
const STAT: [&str; 45] = [
    "pxname",
    "svname",
    "qcur",
    "qmax",
    "scur",
    "smax",
    "slim",
    "stot",
    "bin",
    "bout",
    "dreq",
    "dresp",
    "ereq",
    "econ",
    "eresp",
    "wretr",
    "wredis",
    "status",
    "weight",
    "act",
    "bck",
    "chkfail",
    "chkdown",
    "lastchg",
    "req_tot",
    "reuse",
    "idle_conn_cur",
    "drefused",
    "addr",
    "tls_handshakes",
    "tls_resumed",
    "tls_failed",
    "tls_shed",
    "ejections",
    "req_answered",
    "req_limited",
    "type",
    "mode",
    "algo",
    "qlimit",
    "hrsp_1xx",
    "hrsp_2xx",
    "hrsp_3xx",
    "hrsp_4xx",
    "hrsp_5xx",
];

/// What a row is, by HAProxy's number.
#[derive(Clone, Copy, Debug)]
enum Type {
    Frontend = 0,
    Backend = 1,
    Server = 2,
}

/// Puts a value into its column.
fn put(row: &mut [Value], column: &str, value: Value) {
    if let Some(index) = STAT.iter().position(|name| *name == column) {
        row[index] = value;
    }
}

/// Answers by their statuses, of what speaks HTTP.
fn put_statuses(row: &mut [Value], totals: [u64; 5]) {
    for (class, total) in Statuses::CLASSES.iter().zip(totals) {
        put(row, &format!("hrsp_{class}"), json!(total));
    }
}

fn typed(row: &mut [Value], of: Type) {
    put(row, "type", json!(of as u8));
}

/// By HAProxy's names.
fn algorithm(pool: &Pool) -> &'static str {
    match (
        pool.config.balance,
        pool.config.hash_on.as_ref().map(|on| on.get_ref()),
    ) {
        (Balance::RoundRobin, _) => "roundrobin",
        (Balance::LeastConnections, _) => "leastconn",
        (Balance::Hash, Some(HashOn::Path)) => "uri",
        (Balance::Hash, Some(HashOn::Header(_))) => "hdr",
        (Balance::Hash, _) => "source",
    }
}

pub(super) fn stat(context: &Context) -> Table {
    let site = context.site();
    let mut table = Table::new(&STAT);
    for (place, front) in &site.fronts {
        let mut row = of_front(front);
        row[28] = json!(place.address.to_string());
        row[35] = json!(limited(front));
        table.row(row);
    }
    for watched in site.pools.values() {
        let pool = &watched.pool;
        let members = pool.members();
        for (server, member) in pool.servers().iter().zip(&members) {
            table.row(of_server(pool, server, member));
        }
        table.row(of_pool(pool, &members));
    }
    table
}

fn empty() -> Vec<Value> {
    vec![Value::Null; STAT.len()]
}

fn of_front(front: &Front) -> Vec<Value> {
    let counters = &front.counters;
    let mut row = empty();
    row[0] = json!(&*front.name);
    row[1] = json!("FRONTEND");
    row[4] = json!(front.slots.taken());
    let max = front.slots.max_set();
    row[6] = json!(max.unwrap_or(front.config.connections_max));
    row[7] = json!(counters.connections.total());
    row[8] = json!(counters.bytes_in.total());
    row[9] = json!(counters.bytes_out.total());
    row[12] = json!(counters.bad_requests.total());
    row[17] = json!(if front.slots.is_on() { "OPEN" } else { "STOP" });
    row[24] = json!(counters.requests.total());
    row[34] = json!(counters.answered.total());
    row[27] = json!(counters.refused.total());
    typed(&mut row, Type::Frontend);
    let mode = match front.config.mode {
        Mode::Http => "http",
        Mode::Tcp => "tcp",
    };
    put(&mut row, "mode", json!(mode));
    if front.config.mode == Mode::Http {
        put_statuses(&mut row, counters.statuses.totals());
    }
    if front.tls.is_some() {
        of_tls(&counters.tls, &mut row);
        row[32] = json!(counters.tls_shed.total());
    }
    row
}

/// Requests that exceeded a rate.
fn limited(front: &Front) -> u64 {
    let limits = metrics::limits(std::iter::once(front));
    limits.map(|(_, limit)| limit.refused.total()).sum()
}

fn of_server(pool: &Arc<Pool>, server: &Server, member: &Member) -> Vec<Value> {
    let counters = &server.counters;
    let mut row = empty();
    row[0] = json!(pool.name);
    row[1] = json!(server.config.name);
    row[4] = json!(member.active);
    row[6] = json!(member.active_max);
    row[7] = json!(counters.chosen.total());
    row[8] = json!(counters.bytes_in.total());
    row[9] = json!(counters.bytes_out.total());
    row[13] = json!(counters.connect_errors.total());
    row[14] = json!(counters.answer_errors.total());
    row[15] = json!(counters.retries.total());
    row[17] = json!(status(pool, member));
    row[18] = json!(member.weight);
    row[19] = json!(u8::from(!member.backup));
    row[20] = json!(u8::from(member.backup));
    row[21] = json!(counters.checks_failed.total());
    row[22] = json!(counters.downs.total());
    row[23] = json!(since(pool, member).as_secs());
    row[25] = json!(counters.reused.total());
    row[26] = json!(server.idle_connections());
    row[28] = json!(server.config.address.to_string());
    row[33] = json!(counters.ejections.total());
    typed(&mut row, Type::Server);
    put_statuses(&mut row, counters.statuses.totals());
    if server.tls.is_some() {
        of_tls(&counters.tls, &mut row);
    }
    row
}

fn of_tls(counters: &OfTls, row: &mut [Value]) {
    row[29] = json!(counters.done.total());
    row[30] = json!(counters.resumed.total());
    row[31] = json!(counters.failed.total());
}

fn of_pool(pool: &Pool, members: &[Member]) -> Vec<Value> {
    let sum =
        |of: fn(&Server) -> u64| json!(pool.servers().iter().map(|server| of(server)).sum::<u64>());
    let usable = members.iter().filter(|member| member.is_usable());
    let mut row = empty();
    row[0] = json!(pool.name);
    row[1] = json!("BACKEND");
    row[2] = json!(pool.waiting());
    row[4] = json!(members.iter().map(|member| member.active).sum::<usize>());
    row[7] = sum(|server| server.counters.chosen.total());
    let mut statuses = [0; 5];
    for server in pool.servers() {
        let totals = server.counters.statuses.totals();
        (statuses.iter_mut().zip(totals)).for_each(|(sum, more)| *sum += more);
    }
    put_statuses(&mut row, statuses);
    row[8] = sum(|server| server.counters.bytes_in.total());
    row[9] = sum(|server| server.counters.bytes_out.total());
    row[13] = sum(|server| server.counters.connect_errors.total());
    row[14] = sum(|server| server.counters.answer_errors.total());
    row[15] = sum(|server| server.counters.retries.total());
    row[17] = json!(if usable.clone().next().is_some() {
        "UP"
    } else {
        "DOWN"
    });
    row[18] = json!(
        usable
            .clone()
            .map(|member| u64::from(member.weight))
            .sum::<u64>()
    );
    let (backups, others): (Vec<_>, Vec<_>) = usable.partition(|member| member.backup);
    row[19] = json!(others.len());
    row[20] = json!(backups.len());
    row[33] = sum(|server| server.counters.ejections.total());
    typed(&mut row, Type::Backend);
    put(&mut row, "algo", json!(algorithm(pool)));
    put(&mut row, "qlimit", json!(pool.config.queue.max));
    row
}

fn status(pool: &Pool, member: &Member) -> &'static str {
    match (member.admin, member.up) {
        (Admin::Maintenance, _) => "MAINT",
        (_, false) => "DOWN",
        (Admin::Drain, true) => "DRAIN",
        (Admin::Ready, true) if member.record.is_ejected() => "EJECTED",
        (Admin::Ready, true) if pool.config.check.is_none() => "no check",
        (Admin::Ready, true) => "UP",
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn since(pool: &Pool, member: &Member) -> Duration {
    pool.age().saturating_sub(member.since)
}

/// `show servers state`, in HAProxy's format 1, up to its column for checks, and then for how many
/// more milliseconds a server is ejected.
const STATE: [&str; 11] = [
    "be_id",
    "be_name",
    "srv_id",
    "srv_name",
    "srv_addr",
    "srv_op_state",
    "srv_admin_state",
    "srv_uweight",
    "srv_iweight",
    "srv_time_since_last_change",
    "ejected_ms",
];

/// HAProxy's number for a server that is up.
const RUNNING: u8 = 2;
/// Its bits for what operators say.
const FORCED_MAINTENANCE: u8 = 0x01;
const FORCED_DRAIN: u8 = 0x08;

pub(super) fn servers_state(context: &Context, only: Option<&str>) -> Table {
    let site = context.site();
    let mut table = Table::new(&STATE);
    for (id, watched) in site.pools.values().enumerate() {
        let pool = &watched.pool;
        if only.is_some_and(|only| only != pool.name) {
            continue;
        }
        let members = pool.members();
        for (index, (server, member)) in pool.servers().iter().zip(&members).enumerate() {
            let is_up = member.up && member.admin != Admin::Maintenance;
            table.row(vec![
                json!(id + 1),
                json!(pool.name),
                json!(index + 1),
                json!(server.config.name),
                json!(server.config.address.to_string()),
                json!(if is_up { RUNNING } else { 0 }),
                json!(match member.admin {
                    Admin::Ready => 0,
                    Admin::Drain => FORCED_DRAIN,
                    Admin::Maintenance => FORCED_MAINTENANCE,
                }),
                json!(member.weight),
                json!(server.config.weight),
                json!(since(pool, member).as_secs()),
                json!(ms(member.record.left(pool.age()))),
            ]);
        }
    }
    table
}
