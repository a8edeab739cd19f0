//! Who relays, under which traffic, and one measurement of it.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Serialize;

use self::By::{Haproxy, Own};
use crate::error::{Error, Result};
use crate::load::{EchoSummary, MixSummary};
use crate::peers::{Peer, ServerSpec};
use crate::process::{self, Server, TemporaryDirectory};
use crate::trial::{Lab, client};

/// Clients at once: two thirds fetch large objects, one third empty ones.
const LARGE: u32 = 200;
const EMPTY: u32 = 100;
const ADMIN_HZ: u32 = 200;

/// A relay, and when it is measured.
#[derive(Debug, PartialEq)]
pub(super) struct Relay {
    name: &'static str,
    pub(super) by: By,
    /// Whether the verdicts need it, so that it is measured in brief, too.
    in_brief: bool,
    /// Whether it is also measured with parts of the traffic.
    apart: bool,
}

/// Who relays, and how it is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum By {
    /// One of the lab's own relays, by its flags; without shares all is in one class.
    Own(Peer, &'static str),
    /// HAProxy, by a line of its configuration.
    Haproxy(&'static str),
}

const fn relay(name: &'static str, by: By, in_brief: bool, apart: bool) -> Relay {
    Relay {
        name,
        by,
        in_brief,
        apart,
    }
}

const OURS: Peer = Peer::Evenkeel;

/// Shares are of urgent, normal and bulk: first as HAProxy's first three classes had it, then what
/// HAProxy had next, and one that gives bulk nearly all. The bound between two I/O checks says how
/// much is run in between.
#[rustfmt::skip]
const RELAYS: [Relay; 13] = [
    relay("evenkeel, 16:33:50", Own(OURS, "--shares urgent=16,normal=33,bulk=50"), true, true),
    relay("evenkeel, one class", Own(OURS, ""), true, false),
    relay("haproxy", Haproxy(""), true, true),
    relay("evenkeel, 33:50:17", Own(OURS, "--shares urgent=33,normal=50,bulk=17"), false, false),
    relay("evenkeel, 4:16:80", Own(OURS, "--shares urgent=4,normal=16,bulk=80"), false, false),
    relay("evenkeel, 16:33:50, I/O check bound 50 us",
        Own(OURS, "--shares urgent=16,normal=33,bulk=50 --io-check-us 50"), false, false),
    relay("evenkeel, 16:33:50, I/O check bound 500 us",
        Own(OURS, "--shares urgent=16,normal=33,bulk=50 --io-check-us 500"), false, false),
    relay("evenkeel, 16:33:50, I/O check bound 5000 us",
        Own(OURS, "--shares urgent=16,normal=33,bulk=50 --io-check-us 5000"), false, false),
    relay("evenkeel, 16:33:50, 8 events a check",
        Own(OURS, "--shares urgent=16,normal=33,bulk=50 --io-check-events 8"), false, false),
    relay("evenkeel, 16:33:50, 2048 events a check",
        Own(OURS, "--shares urgent=16,normal=33,bulk=50 --io-check-events 2048"), false, false),
    relay("haproxy, tune.runqueue-depth 20", Haproxy("tune.runqueue-depth 20"), false, false),
    relay("haproxy, tune.maxpollevents 20", Haproxy("tune.maxpollevents 20"), false, false),
    relay("tokio", Own(Peer::Tokio, ""), false, true),
];

impl By {
    /// Whether classes part what is urgent from bulk.
    pub(super) fn has_classes(self) -> bool {
        matches!(self, Own(_, flags) if flags.contains("--shares"))
    }
}

/// What passes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Large objects, empty ones, admin calls.
    Mix,
    /// Large objects alone.
    Bulk,
    /// Large objects and admin calls.
    BulkAndAdmin,
    /// Admin calls alone: what they take where nothing is in their way but the machine.
    Admin,
}

impl Traffic {
    /// What it adds to the name of a relay; clients that fetch large objects, and empty ones.
    fn facts(self) -> (&'static str, u32, u32) {
        match self {
            Traffic::Mix => ("", LARGE, EMPTY),
            Traffic::Bulk => (": bulk alone", LARGE, 0),
            Traffic::BulkAndAdmin => (": bulk and admin", LARGE, 0),
            Traffic::Admin => (": admin alone", 0, 0),
        }
    }
}

/// A relay under one kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    pub(super) relay: &'static Relay,
    pub(super) traffic: Traffic,
}

/// First every relay that takes part under the whole mix, then those with parts of it.
pub(super) fn rows(takes_part: impl Fn(By) -> bool, brief: bool) -> Vec<Row> {
    let measured = |relay: &&Relay| takes_part(relay.by) && (relay.in_brief || !brief);
    let relays = RELAYS.iter().filter(measured);
    use self::Traffic::{Admin, Bulk, BulkAndAdmin, Mix};
    let under = |traffic| {
        let is_under = move |relay: &&Relay| relay.apart || traffic == Mix;
        let relays = relays.clone().filter(is_under);
        relays.map(move |relay| Row { relay, traffic })
    };
    let traffics = [Mix, Bulk, BulkAndAdmin, Admin];
    traffics.into_iter().flat_map(under).collect()
}

impl Row {
    pub(super) fn name(self) -> String {
        format!("{}{}", self.relay.name, self.traffic.facts().0)
    }

    /// The name of the relay, whatever passes through.
    pub(super) fn relay_name(self) -> &'static str {
        self.relay.name
    }

    /// The same relay under other traffic.
    pub(super) fn under(self, traffic: Traffic) -> Row {
        Row { traffic, ..self }
    }
}

/// What one measurement found.
#[derive(Serialize)]
pub(super) struct Found {
    pub(super) mix: MixSummary,
    pub(super) admin: Option<EchoSummary>,
    /// Processor time of the relay over wall time.
    pub(super) cpu_cores: f64,
}

impl Found {
    /// A figure of the admin calls; not a number where there were none.
    pub(super) fn admin(&self, figure: fn(&EchoSummary) -> f64) -> f64 {
        self.admin.as_ref().map_or(f64::NAN, figure)
    }
}

/// Starts a relay in front of `target`, with an admin page.
fn start(lab: &Lab, by: By, target: SocketAddr) -> Result<Server> {
    let (peer, flags) = match by {
        Haproxy(tuning) => return start_haproxy(lab, target, tuning),
        Own(peer, flags) => (peer, flags),
    };
    let classes = "--relay-class normal --bulk-class bulk --admin-class urgent";
    let classes = if by.has_classes() { classes } else { "" };
    let spec = ServerSpec::of(&["admin"]).to("relay", target);
    lab.serve(peer, &spec.own(classes).own(flags))
}

pub(super) fn measure(lab: &Lab, row: Row, target: SocketAddr) -> Result<Found> {
    /// From the first connection until the load is steady.
    const RAMP: Duration = Duration::from_millis(400);
    let relay = start(lab, row.relay.by, target)?;
    let (relayed, admin) = (relay.address("relay")?, relay.address("admin")?);
    let length = lab.measured(Duration::from_millis(1_000));
    let (_, large, empty) = row.traffic.facts();
    let (ramp, nice) = (RAMP.as_secs_f64(), lab.load_nice());
    let mix = format!(
        "mix {relayed} --large {large} --empty {empty} --warmup {ramp} --nice {nice} --say-ready"
    );
    let mix = lab.load(mix).lasts(length).start()?.until_ready()?;
    std::thread::sleep(RAMP);
    let before = relay.process.usage();
    let admin = if row.traffic == Traffic::Bulk {
        std::thread::sleep(length);
        None
    } else {
        let calls = format!("calls {admin} --rate {ADMIN_HZ} --warmup 0 --drain 1");
        Some(lab.load(calls).lasts(length).result()?)
    };
    Ok(Found {
        cpu_cores: relay.process.usage().cores_since(&before),
        mix: mix.result()?,
        admin,
    })
}

const PROGRAM: &str = "haproxy";

/// Why it cannot take part, as a line.
pub(super) fn missing() -> Option<String> {
    let missing = || "haproxy: left out, not installed (lab/setup.sh installs it)".to_owned();
    (!process::answers(PROGRAM, "-v")).then(missing)
}

/// Starts one in front of `origin`, with one more line of its configuration, and waits until it
/// listens.
fn start_haproxy(lab: &Lab, origin: SocketAddr, tuning: &str) -> Result<Server> {
    let directory = TemporaryDirectory::new(PROGRAM)?;
    let (relay, admin) = (lab.free_address()?, lab.free_address()?);
    let path = directory.path().join("haproxy.cfg");
    let text = configuration(lab.workers, [relay, admin, origin], tuning);
    std::fs::write(&path, text).map_err(Error::write(&path))?;
    let mut command = Command::new(PROGRAM);
    // In the foreground and without a word: what it complains of is on standard error.
    command.args(["-db", "-q", "-f"]).arg(&path);
    let process = lab.server_tool(PROGRAM, command.stdout(Stdio::null()))?;
    let haproxy = Server::told(process, &[("relay", relay), ("admin", admin)], directory);
    client::until_listening(PROGRAM, admin, Duration::from_secs(10))?;
    Ok(haproxy)
}

/// A relay by TCP, as the lab's own is, and a page that needs no backend.
fn configuration(threads: usize, [relay, admin, origin]: [SocketAddr; 3], tuning: &str) -> String {
    format!(
        "\
global
    nbthread {threads}
    maxconn 8000
    {tuning}
defaults
    mode tcp
    timeout connect 10s
    timeout client 60s
    timeout server 60s
frontend relay
    bind {relay}
    default_backend origin
backend origin
    server origin {origin}
frontend admin
    mode http
    bind {admin}
    http-request return status 200 content-type text/plain string \"up\"
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_brief_only_what_the_verdicts_need_is_measured() {
        let names = |evenkeel, tokio, haproxy, brief| {
            let takes_part = |by| match by {
                Own(peer, _) => {
                    if peer == OURS {
                        evenkeel
                    } else {
                        tokio
                    }
                }
                Haproxy(_) => haproxy,
            };
            let rows = rows(takes_part, brief).into_iter();
            rows.map(Row::name).collect::<Vec<_>>()
        };
        let brief = names(true, true, true, true);
        assert_eq!(brief.len(), 9);
        assert_eq!(brief[2], "haproxy");
        let full = names(true, true, true, false);
        assert_eq!(full.len(), 22);
        assert!(full.contains(&"evenkeel, 33:50:17".to_owned()), "{full:?}");
        assert!(full.contains(&"haproxy, tune.maxpollevents 20".to_owned()));
        assert_eq!(names(false, true, false, true).len(), 0);
    }

    #[test]
    fn names_say_how_relays_are_set() {
        for Relay { name, by, .. } in &RELAYS {
            let flags = match by {
                Own(_, flags) | Haproxy(flags) => *flags,
            };
            for number in flags.split(|c: char| !c.is_ascii_digit()) {
                assert!(name.contains(number), "{name}: {flags}");
            }
            assert_eq!(by.has_classes(), name.matches(':').count() == 2, "{name}");
        }
    }

    #[test]
    fn its_configuration_says_who_is_where_and_how_it_is_tuned() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let text = configuration(2, [1, 2, 3].map(address), "tune.runqueue-depth 20");
        for line in [
            "    nbthread 2\n",
            "    tune.runqueue-depth 20\ndefaults\n",
            "    bind 127.0.0.1:1\n",
            "    bind 127.0.0.1:2\n",
            "    server origin 127.0.0.1:3\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn the_page_says_the_same() {
        let clients = format!("{LARGE} clients fetch objects of 1 MB and {EMPTY} fetch empty");
        let calls = format!("{ADMIN_HZ} admin calls a second");
        crate::experiments::tests::assert_page_says("classes", &[clients, calls]);
    }
}
