//! Who is measured, and how each is started.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::serve::{Burn, BusyWait, HogPoll, HogYield};

/// The peers that `--peers` can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PeerName {
    Tokio,
    Go,
    Erlang,
}

/// Whoever can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Peer {
    Evenkeel,
    /// The same, with workers of real-time priority.
    EvenkeelRealTime,
    Tokio,
    Go,
    Erlang,
    /// No runtime: what the kernel's scheduler alone makes of it.
    OsThread,
}

impl Peer {
    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Peer::Evenkeel => "evenkeel",
            Peer::EvenkeelRealTime => "evenkeel, real time",
            Peer::Tokio => "tokio",
            Peer::Go => "go",
            Peer::Erlang => "erlang",
            Peer::OsThread => "OS thread",
        }
    }

    /// Whether its tasks are futures, which may yield in more than one way.
    pub(crate) fn has_futures(self) -> bool {
        self.is_evenkeel() || self == Peer::Tokio
    }

    pub(crate) fn is_evenkeel(self) -> bool {
        matches!(self, Peer::Evenkeel | Peer::EvenkeelRealTime)
    }

    /// Whether its server answers `GET /stats`.
    pub(crate) fn has_stats(self) -> bool {
        self.has_futures()
    }
}

/// A server that an experiment wants.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerSpec {
    /// Services by their flag without dashes, each on a port of its own choosing.
    pub(crate) services: Vec<&'static str>,
    /// The address of all services, if it is not the loopback device's.
    pub(crate) host: Option<std::net::IpAddr>,
    /// Where the relay, if asked for, leads.
    pub(crate) relay_target: Option<std::net::SocketAddr>,
    /// Where the proxy, if asked for, leads.
    pub(crate) proxy_target: Option<std::net::SocketAddr>,
    pub(crate) workers: usize,
    pub(crate) hogs: usize,
    pub(crate) hog_poll: Option<HogPoll>,
    pub(crate) hog_yield: HogYield,
    pub(crate) burn: Option<Burn>,
    pub(crate) busy_wait: Option<BusyWait>,
    pub(crate) io_check_us: Option<u64>,
    /// Further flags, which whoever is asked knows.
    pub(crate) flags: Vec<String>,
    /// Further flags, of which only the lab's own servers know.
    pub(crate) own_flags: Vec<String>,
}

impl ServerSpec {
    /// A server of these services, and of nothing else.
    pub(crate) fn of(services: &[&'static str]) -> Self {
        ServerSpec {
            services: services.to_vec(),
            ..ServerSpec::default()
        }
    }

    /// With flags that whoever is asked knows, parted by spaces.
    pub(crate) fn with(mut self, flags: impl Display) -> Self {
        self.flags.extend(words(flags));
        self
    }

    /// With a flag whose value may hold spaces.
    pub(crate) fn set(mut self, flag: &str, path: &Path) -> Self {
        self.flags
            .extend([flag.to_owned(), path.display().to_string()]);
        self
    }

    /// With flags of which only the lab's own servers know, parted by spaces.
    pub(crate) fn own(mut self, flags: impl Display) -> Self {
        self.own_flags.extend(words(flags));
        self
    }

    /// With OTP's schedulers asleep when they have nothing to do: what they spin away would be
    /// charged to the work.
    pub(crate) fn without_spin(mut self, peer: Peer) -> Self {
        self.busy_wait = (peer == Peer::Erlang).then_some(BusyWait::None);
        self
    }
}

fn words(flags: impl Display) -> Vec<String> {
    flags
        .to_string()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

/// Who takes part in a run.
#[derive(Clone)]
pub(crate) struct Lineup {
    /// Evenkeel first.
    pub(crate) present: Vec<Peer>,
    /// One clear line for each who was asked for and cannot take part.
    pub(crate) missing: Vec<String>,
    lab: PathBuf,
    built: PathBuf,
}

impl Lineup {
    /// Builds the peers that were asked for and can be built.
    ///
    /// # Errors
    /// When there is no place to build them in.
    pub(crate) fn muster(asked: &[PeerName]) -> Result<Self> {
        let lab = std::env::current_exe().map_err(Error::system("cannot find this program"))?;
        let built = built_directory(&lab);
        std::fs::create_dir_all(&built).map_err(|source| Error::Write {
            path: built.clone(),
            source,
        })?;
        let mut lineup = Lineup {
            present: vec![Peer::Evenkeel],
            missing: Vec::new(),
            lab,
            built,
        };
        if asked.contains(&PeerName::Tokio) {
            lineup.present.push(Peer::Tokio);
        }
        if asked.contains(&PeerName::Go) {
            let built = build_go(&lineup.built);
            lineup.enlist(Peer::Go, built);
        }
        if asked.contains(&PeerName::Erlang) {
            let built = build_erlang(&lineup.built);
            lineup.enlist(Peer::Erlang, built);
        }
        Ok(lineup)
    }

    fn enlist(&mut self, peer: Peer, built: Result<(), String>) {
        match built {
            Ok(()) => self.present.push(peer),
            Err(reason) => self
                .missing
                .push(format!("{}: left out, {reason}", peer.name())),
        }
    }

    /// The lab itself, for its load generators.
    pub(crate) fn lab(&self) -> Command {
        Command::new(&self.lab)
    }

    /// The command that starts `peer` as `spec` wants it.
    pub(crate) fn server(&self, peer: Peer, spec: &ServerSpec) -> Command {
        let mut command = match peer {
            Peer::Evenkeel | Peer::EvenkeelRealTime => self.serve("evenkeel"),
            Peer::Tokio => self.serve("tokio"),
            Peer::OsThread => self.serve("os-thread"),
            Peer::Go => Command::new(self.built.join("go-peer")),
            Peer::Erlang => self.erlang(spec),
        };
        if peer != Peer::Erlang {
            command.args(["--workers", &spec.workers.to_string()]);
        }
        // Go has no busy wait to set, and Erlang's is the virtual machine's own flag.
        if peer.has_stats()
            && let Some(level) = spec.busy_wait
        {
            command.args(["--busy-wait", &level.to_string()]);
        }
        if peer == Peer::EvenkeelRealTime {
            command.arg("--real-time-workers");
        }
        if peer.is_evenkeel()
            && let Some(us) = spec.io_check_us
        {
            command.args(["--io-check-us", &us.to_string()]);
        }
        for service in &spec.services {
            let host = spec.host.unwrap_or(std::net::Ipv4Addr::LOCALHOST.into());
            let any_port = std::net::SocketAddr::new(host, 0).to_string();
            command.args([&format!("--{service}"), &any_port]);
        }
        if let Some(target) = spec.proxy_target {
            command.args(["--proxy", &format!("127.0.0.1:0={target}")]);
        }
        if let Some(target) = spec.relay_target {
            command.args(["--relay", &format!("127.0.0.1:0={target}")]);
        }
        if spec.hogs > 0 {
            let poll = spec.hog_poll.unwrap_or(HogPoll::Micros(100));
            command.args([
                "--hogs",
                &spec.hogs.to_string(),
                "--hog-poll-us",
                &poll.to_string(),
            ]);
            if peer.has_futures() {
                command.args(["--hog-yield", spec.hog_yield.word()]);
            }
        }
        if let Some(burn) = spec.burn {
            command.args(["--burn", &burn.to_string()]);
        }
        command.args(&spec.flags);
        if peer.has_futures() {
            command.args(&spec.own_flags);
        }
        command.arg("--exit-with-parent");
        command
    }

    fn serve(&self, runtime: &str) -> Command {
        let mut command = self.lab();
        command.args(["serve", runtime]);
        command
    }

    fn erlang(&self, spec: &ServerSpec) -> Command {
        let schedulers = format!("{0}:{0}", spec.workers);
        let mut command = Command::new("erl");
        command.args(["-noshell", "+Bd", "+S", &schedulers]);
        if let Some(level) = spec.busy_wait {
            command.args(["+sbwt", &level.to_string()]);
        }
        command
            .arg("-pa")
            .arg(&self.built)
            .args(["-run", "lab_peer", "main"]);
        command
    }
}

/// `target/lab-peers`, beside the profile's directory that the lab runs from.
fn built_directory(lab: &Path) -> PathBuf {
    let profile = lab.ancestors().skip(1).find(|directory| {
        directory
            .file_name()
            .is_some_and(|name| name == "debug" || name == "release")
    });
    let target = profile.and_then(Path::parent).map(Path::to_owned);
    target.unwrap_or_else(std::env::temp_dir).join("lab-peers")
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

fn build_go(into: &Path) -> Result<(), String> {
    let mut command = Command::new("go");
    command
        .arg("build")
        .arg("-o")
        .arg(into.join("go-peer"))
        .arg(".");
    // The toolchain that is installed, never one from the network.
    command
        .env("GOTOOLCHAIN", "local")
        .env("GOFLAGS", "-mod=readonly");
    build(command.current_dir(sources().join("go")), "Go")
}

fn build_erlang(into: &Path) -> Result<(), String> {
    let mut command = Command::new("erlc");
    command.arg("-o").arg(into);
    command.args([
        "lab_peer.erl",
        "lab_camera.erl",
        "lab_disk.erl",
        "lab_handlers.erl",
    ]);
    build(command.current_dir(sources().join("erlang")), "Erlang/OTP")
}

/// Runs a compiler; the reason why there is no result is a clause for one line.
fn build(command: &mut Command, language: &str) -> Result<(), String> {
    let directory = command
        .get_current_dir()
        .map(Path::to_owned)
        .unwrap_or_default();
    if !directory.is_dir() {
        return Err(format!("its program is not at {}", directory.display()));
    }
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let words = [output.stdout, output.stderr].concat();
            let words = String::from_utf8_lossy(&words);
            let last = words
                .lines()
                .rfind(|line| !line.trim().is_empty())
                .unwrap_or_default();
            Err(format!("its program does not compile: {}", last.trim()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(format!(
            "{language} is not installed (lab/setup.sh installs it)"
        )),
        Err(error) => Err(format!("its compiler does not start: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(peer: Peer, spec: &ServerSpec) -> String {
        let lineup = Lineup {
            present: vec![Peer::Evenkeel],
            missing: Vec::new(),
            lab: "lab".into(),
            built: "built".into(),
        };
        format!("{:?}", lineup.server(peer, spec)).replace('"', "")
    }

    #[test]
    fn every_peer_is_asked_for_the_same_in_its_own_words() {
        let spec = ServerSpec {
            services: vec!["echo", "sink"],
            workers: 2,
            hogs: 4,
            hog_poll: Some(HogPoll::Never),
            hog_yield: HogYield::Wake,
            busy_wait: Some(BusyWait::VeryLong),
            io_check_us: Some(50),
            burn: Some(Burn {
                per_second: 50,
                us: 20_000,
            }),
            flags: vec!["--work-us".to_owned(), "7".to_owned()],
            own_flags: vec!["--echo-class".to_owned(), "urgent".to_owned()],
            ..ServerSpec::default()
        };
        let services = "--echo 127.0.0.1:0 --sink 127.0.0.1:0";
        let hogs = "--hogs 4 --hog-poll-us never";
        let burn = "--burn 50:20000 --work-us 7";
        let class = "--echo-class urgent";
        let end = "--exit-with-parent";
        let settings = "--workers 2 --busy-wait very_long --io-check-us 50";
        let level = "--busy-wait very_long";
        let start = "-pa built -run lab_peer main";
        let yields = "--hog-yield wake";
        for (peer, expected) in [
            (
                Peer::Evenkeel,
                format!("lab serve evenkeel {settings} {services} {hogs} {yields} {burn} {class}"),
            ),
            (
                Peer::EvenkeelRealTime,
                format!(
                    "lab serve evenkeel --workers 2 {level} --real-time-workers --io-check-us 50 \
                     {services} {hogs} {yields} {burn} {class}"
                ),
            ),
            (
                Peer::Tokio,
                format!(
                    "lab serve tokio --workers 2 {level} {services} {hogs} {yields} {burn} {class}"
                ),
            ),
            (
                Peer::Go,
                format!("built/go-peer --workers 2 {services} {hogs} {burn}"),
            ),
            (
                Peer::Erlang,
                format!("erl -noshell +Bd +S 2:2 +sbwt very_long {start} {services} {hogs} {burn}"),
            ),
        ] {
            assert_eq!(words(peer, &spec), format!("{expected} {end}"));
        }
    }

    #[test]
    fn peers_are_built_beside_the_profile() {
        for lab in [
            "/w/target/release/evenkeel-lab",
            "/w/target/debug/deps/evenkeel_lab-0123",
        ] {
            assert_eq!(
                built_directory(Path::new(lab)),
                Path::new("/w/target/lab-peers")
            );
        }
    }

    #[test]
    fn a_missing_language_is_one_clear_line() {
        let mut command = Command::new("no-such-compiler");
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        let reason = build(&mut command, "Cobol").expect_err("there is none");
        assert_eq!(reason, "Cobol is not installed (lab/setup.sh installs it)");
    }
}
