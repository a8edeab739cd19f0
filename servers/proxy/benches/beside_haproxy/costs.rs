//! The processor time of a proxy's process for each operation.

use std::process::Command;
use std::thread;
use std::time::Duration;

use evenkeel_measure::rounds::alternate;

use super::clients::{Load, Reached, run};
use super::proxies::{Kind, Machine, Proxy};
use super::rows::Rows;
use super::{Plan, Result};

/// So many clients ask at once.
const CLIENTS: usize = 4;

/// A name, what is done, how often each client does it in a measurement of 400 ms or so, and the
/// targets beside each of the others.
type Row = (&'static str, Load, usize, &'static [&'static str]);

const OPERATIONS: [Row; 4] = [
    ("HTTP, kept connections", Load::Kept, 2_000, &["<= 0.80"]),
    (
        "HTTP, a connection for each",
        Load::Closed,
        600,
        &["<= 0.90"],
    ),
    (
        "TCP, a connection for each",
        Load::Connection,
        600,
        &["<= 0.90"],
    ),
    ("H2 10k", Load::Two, 2_000, &["<= 0.95"]),
];

/// The client of HTTP/2.
const H2LOAD: &str = "h2load";

/// No line of a log is kept back for longer.
const GATHERED: Duration = Duration::from_millis(50);

/// How often the operator asks after each of the operations that are learnt from.
const LEARNT_QUESTIONS: usize = 20;

/// Requests of each of its connections at a time.
const STREAMS: usize = 10;

/// Beside HAProxy that copies, that splices, and that copies through larger buffers.
const OF_BYTES: &[&str] = &["<= 0.45", "<= 0.85", "<= 0.45"];

const BYTES: [Row; 2] = [
    ("HTTP, 1 MB", Load::HttpBytes, 120, OF_BYTES),
    ("TCP, 1 MB", Load::TcpBytes, 120, OF_BYTES),
];

pub(crate) fn operations(plan: &Plan<'_>) -> Result<Rows> {
    let kinds = [Kind::Ours, Kind::Copying];
    let what = "processor time of an operation, in us: less is better";
    rows(plan, what, &kinds, &OPERATIONS)
}

pub(crate) fn bytes(plan: &Plan<'_>) -> Result<Rows> {
    let kinds = [Kind::Ours, Kind::Copying, Kind::Splicing, Kind::Large];
    let what = "processor time of a megabyte, in us: less is better";
    rows(plan, what, &kinds, &BYTES)
}

/// Has one proxy of ours do all of it, and the operator ask now and then.
pub(crate) fn learn(machine: &Machine) -> Result<()> {
    let proxy = machine.start(Kind::Ours)?;
    for (name, load, times, _) in OPERATIONS.iter().chain(&BYTES) {
        println!("{name}: {} times", times * CLIENTS);
        measured(&proxy, *load, *times)?;
        for _ in 0..LEARNT_QUESTIONS {
            proxy.ask_admin()?;
        }
    }
    proxy.end_in_order()
}

fn rows(plan: &Plan<'_>, what: &str, kinds: &[Kind], loads: &[Row]) -> Result<Rows> {
    let mut rows = Rows::new(what, kinds, 1);
    let loads: Vec<_> = (loads.iter()).filter(|load| plan.wants(load.0)).collect();
    if loads.is_empty() {
        return Ok(rows);
    }
    let proxies = kinds.iter().map(|&kind| plan.machine.start(kind));
    let proxies = proxies.collect::<Result<Vec<_>>>()?;
    for &&(name, load, times, targets) in &loads {
        if matches!(load, Load::Two) && Command::new(H2LOAD).arg("--version").output().is_err() {
            eprintln!("{name} is not measured: {H2LOAD} is missing, which nghttp2-client brings");
            continue;
        }
        let times = scaled(times, plan);
        for proxy in &proxies {
            measured(proxy, load, times / 4 + 1)?;
        }
        let measure = |proxy: &Proxy| measured(proxy, load, times);
        rows.add(
            name,
            targets,
            &alternate(plan.rounds.rounds(), &proxies, measure)?,
        );
    }
    Ok(rows)
}

/// How often each client asks over its kept connection in a measurement.
pub(crate) fn times_kept(plan: &Plan<'_>) -> usize {
    let kept = OPERATIONS.iter().find(|row| matches!(row.1, Load::Kept));
    kept.map_or(1, |row| scaled(row.2, plan))
}

/// As many as the samples are longer or shorter than by themselves.
fn scaled(times: usize, plan: &Plan<'_>) -> usize {
    let share = plan.rounds.sample(Duration::from_secs(1)).as_secs_f64();
    ((times as f64 * share) as usize).max(1)
}

/// The processor time of an operation, in microseconds.
pub(crate) fn measured(proxy: &Proxy, load: Load, times: usize) -> Result<f64> {
    let before = proxy.processor_us()?;
    let logged = proxy.log_bytes()?;
    match load {
        Load::Two => two(proxy, times * CLIENTS)?,
        _ => all(proxy, load, times)?,
    }
    let spent = proxy.processor_us()? - before;
    // What is logged may be gathered for a moment, and an earlier line may be late.
    thread::sleep(GATHERED);
    if proxy.log_bytes()? == logged {
        return Err("a proxy has logged nothing".into());
    }
    Ok(per_operation(spent, times))
}

/// Of what was spent while all clients did something so often.
pub(crate) fn per_operation(spent: f64, times: usize) -> f64 {
    spent / (times * CLIENTS) as f64
}

/// Has all clients do it so often.
pub(crate) fn all(proxy: &(impl Reached + Sync), load: Load, times: usize) -> Result<()> {
    thread::scope(|scope| {
        let work = || {
            let mut each = 0..times;
            run(proxy, load, || each.next().is_some())
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(work)).collect();
        let ended = clients.into_iter().map(|client| match client.join() {
            Ok(ended) => ended,
            Err(_) => Err("a client has panicked".into()),
        });
        ended.collect::<Result<()>>()
    })
}

/// Has so many requests of HTTP/2 answered.
fn two(proxy: &Proxy, requests: usize) -> Result<()> {
    let output = Command::new(H2LOAD)
        .args(["-n", &requests.to_string()])
        .args(["-c", &CLIENTS.to_string()])
        .args(["-m", &STREAMS.to_string()])
        .arg(format!("http://{}/medium", proxy.http))
        .output()
        .map_err(|error| format!("cannot start {H2LOAD}: {error}; nghttp2-client brings it"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = format!("{requests} 2xx, 0 3xx, 0 4xx, 0 5xx");
    if !text.contains(&expected) || !text.contains(&format!("{requests} succeeded")) {
        return Err(format!("{H2LOAD} has not got all answers: {text}").into());
    }
    Ok(())
}
