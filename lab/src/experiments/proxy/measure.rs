//! Which load goes through which proxy, and one measurement of it.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::servers::{self, Behind, By, KNOBS, PROXIES, Proxy, Running};
use crate::error::{Error, Result};
use crate::load::{Latencies, LatencySummary, PassedSummary};
use crate::process::{self, Process};
use crate::trial::Lab;
use crate::trial::lab::warmup;

/// What passes through, and what is to be reached.
#[derive(Debug, PartialEq)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    load: Load,
    pub(super) of: Of,
    /// Whether it passes as bytes, and not as requests.
    is_tcp: bool,
    /// What is to be reached: processor time for each operation over that of HAProxy as it comes.
    pub(super) cpu_over_haproxy_max: Option<f64>,
}

/// Who puts the load to a proxy.
#[derive(Debug, PartialEq)]
enum Load {
    /// `load passed`, by its flags.
    Own(&'static str),
    /// `h2load`.
    H2,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Operations,
    Megabytes,
    Both,
}

#[rustfmt::skip]
pub(super) static SCENARIOS: [Scenario; 7] = [
    scenario("HTTP, kept connections", Load::Own("--kept 4"), Of::Operations, Some(0.80)),
    scenario("HTTP, a connection for each", Load::Own("--closed 4"), Of::Operations, Some(0.90)),
    tcp("TCP, a connection for each", Load::Own("--connections 4"), Of::Operations, Some(0.90)),
    scenario("HTTP/2, 10 kB", Load::H2, Of::Operations, Some(0.95)),
    scenario("HTTP, 1 MB", Load::Own("--http-bytes 4"), Of::Megabytes, Some(0.45)),
    tcp("TCP, 1 MB", Load::Own("--tcp-bytes 4"), Of::Megabytes, Some(0.45)),
    scenario("mix", Load::Own("--http-pieces 8 --kept 4"), Of::Both, None),
];

const fn scenario(name: &'static str, load: Load, of: Of, cpu: Option<f64>) -> Scenario {
    Scenario {
        name,
        load,
        of,
        is_tcp: false,
        cpu_over_haproxy_max: cpu,
    }
}

const fn tcp(name: &'static str, load: Load, of: Of, cpu: Option<f64>) -> Scenario {
    Scenario {
        name,
        load,
        of,
        is_tcp: true,
        cpu_over_haproxy_max: cpu,
    }
}

/// Calls of the operator.
const ADMIN_HZ: u32 = 50;
/// Connections of `h2load`, and streams of each.
const H2: (u32, u32) = (4, 10);
const H2LOAD: &str = "h2load";
/// In less, it may not have had one answer.
const H2_SHORTEST: Duration = Duration::from_millis(300);

/// A case: which load, through which proxy, with how many threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    pub(super) scenario: &'static Scenario,
    pub(super) proxy: &'static Proxy,
    pub(super) threads: usize,
}

/// Who is there, and what can be measured.
pub(super) struct Company {
    has_haproxy: bool,
    has_nginx: bool,
    has_h2: bool,
    /// Who and what is missing, a line each.
    pub(super) missing: Vec<String>,
}

impl Company {
    pub(super) fn muster() -> Self {
        let [haproxy, nginx] = [PROXIES[1].by, By::Nginx].map(By::missing);
        let h2 = (!process::answers(H2LOAD, "--version")).then(|| {
            "HTTP/2: left out, h2load not installed (lab/setup.sh installs it)".to_owned()
        });
        let streams = (nginx.is_none() && !By::Nginx.has_tcp())
            .then(|| "nginx: without TCP, whose module is not installed".to_owned());
        Company {
            has_haproxy: haproxy.is_none(),
            has_nginx: nginx.is_none(),
            has_h2: h2.is_none(),
            missing: [haproxy, nginx, h2, streams]
                .into_iter()
                .flatten()
                .collect(),
        }
    }

    /// Whether this can be measured.
    fn has(&self, scenario: &Scenario, proxy: &Proxy) -> bool {
        let is_there = match proxy.by {
            By::Ours { .. } => true,
            By::Haproxy { .. } => self.has_haproxy,
            By::Nginx => self.has_nginx,
        };
        is_there
            && (scenario.load != Load::H2 || self.has_h2)
            && (!scenario.is_tcp || proxy.by.has_tcp())
            && (!proxy.is_for_bytes || scenario.of != Of::Operations)
    }

    /// Every load through every proxy that can, the proxies in turn.
    pub(super) fn rows(&self, threads: usize) -> Vec<Row> {
        let of = |scenario: &'static Scenario| {
            let proxies = PROXIES.iter().filter(|proxy| self.has(scenario, proxy));
            proxies.map(move |proxy| Row {
                scenario,
                proxy,
                threads,
            })
        };
        SCENARIOS.iter().flat_map(of).collect()
    }

    /// The mix, through proxies as they are and with one setting changed.
    pub(super) fn knobs(&self) -> Vec<Row> {
        let [.., mix] = &SCENARIOS;
        let as_they_are = PROXIES.iter().filter(|proxy| proxy.by != By::Nginx);
        let all = as_they_are.chain(&KNOBS);
        let all = all.filter(|proxy| self.has(mix, proxy));
        let row = |proxy| Row {
            scenario: mix,
            proxy,
            threads: 1,
        };
        all.map(row).collect()
    }
}

/// What one measurement found.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Found {
    pub(super) seconds: f64,
    /// Operations of a few bytes, and of a megabyte.
    pub(super) small: u64,
    pub(super) megabytes: u64,
    /// What the proxy used meanwhile.
    pub(super) cpu_us: f64,
    /// How long the operator waited for an answer, from when a call was due.
    pub(super) admin: LatencySummary,
    /// Calls without an answer.
    pub(super) unanswered: u64,
}

/// Puts a load to a proxy of its own.
pub(super) fn measure(lab: &Lab, row: Row, behind: &Behind) -> Result<Found> {
    let proxy = servers::start(lab, row.proxy.by, row.threads, behind)?;
    let length = lab.measured(Duration::from_millis(400));
    load(lab, row.scenario, &proxy, warmup(length))?.finish()?;
    let before = proxy.cpu_us();
    let load = load(lab, row.scenario, &proxy, length)?;
    let (admin, unanswered) = lab.call_first(|| calls(&proxy, length));
    let passed = load.finish()?;
    let sum = |of_bytes: bool| {
        let all = passed.operations.iter();
        let of = all.filter(|(name, _)| name.ends_with("bytes") == of_bytes);
        of.map(|(_, count)| count).sum()
    };
    Ok(Found {
        seconds: passed.seconds,
        small: sum(false),
        megabytes: sum(true),
        cpu_us: proxy.cpu_us() - before,
        admin: admin.summary(),
        unanswered,
    })
}

/// A load under way.
enum Loading {
    Own(Process),
    H2(Process),
}

fn load(lab: &Lab, scenario: &Scenario, proxy: &Running, length: Duration) -> Result<Loading> {
    let http = proxy.address("http")?;
    match scenario.load {
        Load::Own(flags) => {
            let words = format!("passed {http} {} {flags}", proxy.address("tcp")?);
            let load = lab.load(words).lasts(length).start();
            load.map(Loading::Own)
        }
        Load::H2 => {
            let mut command = h2load(proxy.address("h2")?, length);
            lab.tool(H2LOAD, &mut command).map(Loading::H2)
        }
    }
}

fn h2load(at: SocketAddr, length: Duration) -> Command {
    let (connections, streams) = H2;
    let mut command = Command::new(H2LOAD);
    command.args(["-c", &connections.to_string(), "-m", &streams.to_string()]);
    command.args(["-D", &format!("{}ms", length.max(H2_SHORTEST).as_millis())]);
    command.arg(format!("http://{at}/medium"));
    command
}

impl Loading {
    fn finish(self) -> Result<PassedSummary> {
        match self {
            Loading::Own(process) => process.result(),
            Loading::H2(mut process) => {
                let output = process.output()?;
                let unreadable = || {
                    let reason = format!("not all was answered well in `{}`", output.trim());
                    Error::unreadable(H2LOAD, reason)
                };
                read(&output).ok_or_else(unreadable)
            }
        }
    }
}

/// What `h2load` prints, if there were no answers but good ones.
fn read(output: &str) -> Option<PassedSummary> {
    let after = |head: &str| output.lines().find_map(|line| line.strip_prefix(head));
    let (seconds, _) = after("finished in ")?.split_once(',')?;
    let seconds = match seconds.strip_suffix("ms") {
        Some(ms) => ms.parse::<f64>().ok()? / 1e3,
        None => seconds.strip_suffix('s')?.parse().ok()?,
    };
    let (good, others) = after("status codes: ")?.split_once(" 2xx, ")?;
    let is_good = others.trim() == "0 3xx, 0 4xx, 0 5xx" && output.contains(" 0 failed, 0 errored");
    let good = good.parse().ok();
    let good = good.filter(|&good: &u64| is_good && good > 0)?;
    Some(PassedSummary {
        seconds,
        operations: [("h2".to_owned(), good)].into(),
    })
}

/// Asks the proxy how it is, at a steady rate whatever it does, and counts those without an answer.
fn calls(proxy: &Running, length: Duration) -> (Latencies, u64) {
    let (mut latencies, mut unanswered) = (Latencies::new(), 0);
    let (begun, pause) = (Instant::now(), Duration::from_secs(1) / ADMIN_HZ);
    let mut due = begun;
    while due.duration_since(begun) < length {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        match proxy.ask() {
            Ok(()) => latencies.record(due.elapsed()),
            Err(_) => unanswered += 1,
        }
        due += pause;
    }
    (latencies, unanswered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_the_loads_that_it_can_have() {
        let all = Company {
            has_haproxy: true,
            has_nginx: true,
            has_h2: true,
            missing: Vec::new(),
        };
        let rows = all.rows(1);
        let of = |name: &str| rows.iter().filter(|row| row.proxy.name == name).count();
        assert_eq!((of("evenkeel-proxy"), of("haproxy")), (7, 7));
        // Megabytes by HTTP and by TCP, and the mix.
        assert_eq!((of("haproxy, 64 KiB"), of("haproxy, splicing")), (3, 3));
        assert_eq!(all.knobs().len(), 4 + KNOBS.len());
        let alone = Company {
            has_haproxy: false,
            has_nginx: false,
            has_h2: false,
            missing: Vec::new(),
        };
        let rows = alone.rows(2);
        assert!(rows.iter().all(|row| row.proxy.by.is_ours()), "{rows:?}");
        assert_eq!((rows.len(), alone.knobs().len()), (6, 1 + 6));
    }

    #[test]
    fn a_report_of_h2load_is_read_if_all_was_answered() {
        let report = "\
finished in 502.43ms, 39808.00 req/s, 374.97MB/s
requests: 19904 total, 19944 started, 19904 done, 19904 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 19904 2xx, 0 3xx, 0 4xx, 0 5xx
";
        let found = read(report).expect("every line is there");
        assert_eq!(found.operations["h2"], 19_904);
        assert!((found.seconds - 0.50243).abs() < 1e-9);
        let seconds = report.replace("502.43ms", "2.50s");
        assert_eq!(read(&seconds).map(|found| found.seconds), Some(2.5));
        for (good, bad) in [
            ("0 5xx", "1 5xx"),
            (" 0 failed", " 3 failed"),
            ("19904 2xx", "0 2xx"),
        ] {
            assert_eq!(read(&report.replace(good, bad)), None, "{bad}");
        }
    }
}
