//! Who is measured, and how each is started.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::serve::BusyWait;

/// Whoever can be measured; those that `--peers` can name have names there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Peer {
    #[value(skip)]
    Evenkeel,
    /// The same, with workers of real-time priority.
    #[value(skip)]
    EvenkeelRealTime,
    Tokio,
    Go,
    Erlang,
    /// No runtime: what the kernel's scheduler alone makes of it.
    #[value(skip)]
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
    pub(crate) host: Option<IpAddr>,
    pub(crate) workers: usize,
    pub(crate) busy_wait: Option<BusyWait>,
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
        let value = path.display().to_string();
        self.flags.extend([flag.to_owned(), value]);
        self
    }

    /// With a service that leads somewhere.
    pub(crate) fn to(self, service: &str, target: SocketAddr) -> Self {
        self.with(format_args!("--{service} 127.0.0.1:0={target}"))
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
    let flags = flags.to_string();
    flags.split_whitespace().map(str::to_owned).collect()
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
    pub(crate) fn muster(asked: &[Peer]) -> Result<Self> {
        let lab = std::env::current_exe().map_err(Error::system("cannot find this program"))?;
        let built = built_directory(&lab);
        std::fs::create_dir_all(&built).map_err(Error::write(&built))?;
        let (mut present, mut missing) = (vec![Peer::Evenkeel], Vec::new());
        for peer in [Peer::Tokio, Peer::Go, Peer::Erlang] {
            if !asked.contains(&peer) {
                continue;
            }
            let made = match peer {
                Peer::Go => build_go(&built),
                Peer::Erlang => build_erlang(&built),
                _ => Ok(()),
            };
            match made {
                Ok(()) => present.push(peer),
                Err(reason) => missing.push(format!("{}: left out, {reason}", peer.name())),
            }
        }
        Ok(Lineup {
            present,
            missing,
            lab,
            built,
        })
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
        let any_port = SocketAddr::new(spec.host.unwrap_or(Ipv4Addr::LOCALHOST.into()), 0);
        for service in &spec.services {
            command.args([format!("--{service}"), any_port.to_string()]);
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
        command.arg("-pa").arg(&self.built);
        command.args(["-run", "lab_peer", "main"]);
        command
    }
}

/// `target/lab-peers`, beside the profile's directory that the lab runs from.
fn built_directory(lab: &Path) -> PathBuf {
    let is_profile =
        |directory: &&Path| directory.ends_with("debug") || directory.ends_with("release");
    let profile = lab.ancestors().skip(1).find(is_profile);
    let target = profile.and_then(Path::parent).map(Path::to_owned);
    target.unwrap_or_else(std::env::temp_dir).join("lab-peers")
}

fn build_go(into: &Path) -> Result<(), String> {
    let mut command = Command::new("go");
    command
        .arg("build")
        .arg("-o")
        .arg(into.join("go-peer"))
        .arg(".");
    // The toolchain that is installed, never one from the network.
    command.envs([("GOTOOLCHAIN", "local"), ("GOFLAGS", "-mod=readonly")]);
    build(&mut command, "go", "Go")
}

fn build_erlang(into: &Path) -> Result<(), String> {
    let modules = ["peer", "camera", "disk", "handlers"].map(|name| format!("lab_{name}.erl"));
    let mut command = Command::new("erlc");
    build(
        command.arg("-o").arg(into).args(modules),
        "erlang",
        "Erlang/OTP",
    )
}

/// Runs a compiler; the reason why there is no result is a clause for one line.
fn build(command: &mut Command, directory: &str, language: &str) -> Result<(), String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("peers")
        .join(directory);
    if !sources.is_dir() {
        return Err(format!("its program is not at {}", sources.display()));
    }
    match command.current_dir(sources).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let words = [output.stdout, output.stderr].concat();
            let words = String::from_utf8_lossy(&words);
            let last = words.trim_end().lines().last().unwrap_or_default();
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
            workers: 2,
            busy_wait: Some(BusyWait::VeryLong),
            ..ServerSpec::of(&["echo", "sink"])
        };
        let target = SocketAddr::from(([127, 0, 0, 1], 7));
        let spec = spec.with("--hogs 4 --work-us 7").to("relay", target);
        let spec = spec.own("--echo-class urgent");
        let services = "--echo 127.0.0.1:0 --sink 127.0.0.1:0";
        let flags = "--hogs 4 --work-us 7 --relay 127.0.0.1:0=127.0.0.1:7";
        let class = "--echo-class urgent";
        let end = "--exit-with-parent";
        let settings = "--workers 2 --busy-wait very_long";
        let start = "-pa built -run lab_peer main";
        for (peer, expected) in [
            (
                Peer::Evenkeel,
                format!("lab serve evenkeel {settings} {services} {flags} {class}"),
            ),
            (
                Peer::EvenkeelRealTime,
                format!(
                    "lab serve evenkeel {settings} --real-time-workers {services} {flags} {class}"
                ),
            ),
            (
                Peer::Tokio,
                format!("lab serve tokio {settings} {services} {flags} {class}"),
            ),
            (
                Peer::OsThread,
                format!("lab serve os-thread --workers 2 {services} {flags}"),
            ),
            (
                Peer::Go,
                format!("built/go-peer --workers 2 {services} {flags}"),
            ),
            (
                Peer::Erlang,
                format!("erl -noshell +Bd +S 2:2 +sbwt very_long {start} {services} {flags}"),
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
        let reason = build(&mut command, "go", "Cobol").expect_err("there is none");
        assert_eq!(reason, "Cobol is not installed (lab/setup.sh installs it)");
    }
}
