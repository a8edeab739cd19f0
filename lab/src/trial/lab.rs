//! What every experiment needs.

use std::fmt::Display;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::args::{Pin, RunArgs};
use crate::error::{Error, Result};
use crate::load::CpuList;
use crate::peers::{Lineup, Peer, ServerSpec};
use crate::process::{Process, Server};
use crate::sys;

/// A run of the lab.
#[derive(Clone)]
pub(crate) struct Lab {
    pub(crate) lineup: Lineup,
    /// Where servers run, and where load does; empty is anywhere.
    pub(crate) server_cpus: Vec<usize>,
    load_cpus: Vec<usize>,
    /// Whether it was left to the lab where that is.
    chooses_places: bool,
    /// Workers of every server: as many as it has processors.
    pub(crate) workers: usize,
    /// Seconds of each measurement; `None` in brief.
    pub(crate) seconds: Option<Duration>,
    pub(crate) rounds_asked: Option<u32>,
    /// The program evenkeel-proxy, if it is not the one in the lab.
    pub(crate) proxy: Option<PathBuf>,
    /// What the names of all measurements have in them.
    only: String,
    /// Some have.
    has_some: Arc<AtomicBool>,
    started: Instant,
}

impl Lab {
    pub(crate) fn open(args: &RunArgs) -> Result<Self> {
        let cores = cores();
        let (server_cpus, load_cpus) = places(&args.pin, cores);
        let lineup = Lineup::muster(&args.peers)?;
        for line in &lineup.missing {
            eprintln!("{line}");
        }
        let lab = Lab {
            lineup,
            workers: match server_cpus.len() {
                0 => cores,
                cpus => cpus,
            },
            server_cpus,
            load_cpus,
            chooses_places: args.pin == Pin::Auto,
            seconds: args.seconds,
            rounds_asked: args.rounds,
            proxy: args.proxy.clone(),
            only: args.only.clone(),
            has_some: Arc::default(),
            started: Instant::now(),
        };
        if let Some(rough) = lab.roughness() {
            eprintln!("{}", rough.replace('`', ""));
        }
        Ok(lab)
    }

    /// The same run with servers and load on processors of their own, as far as there are two and
    /// nobody has said otherwise: for measurements in which load would take what servers leave.
    pub(crate) fn apart(&self) -> Lab {
        let cores = cores();
        let mut lab = self.clone();
        if self.chooses_places && self.server_cpus.is_empty() && cores > 1 {
            lab.server_cpus = (0..cores / 2).collect();
            lab.load_cpus = (cores / 2..cores).collect();
            lab.workers = lab.server_cpus.len();
        }
        lab
    }

    /// How much load gives way to probes beside it: only where it has processors of its own, as
    /// anywhere else it would give way to the servers too.
    pub(crate) fn load_nice(&self) -> &'static str {
        if self.load_cpus.is_empty() { "0" } else { "10" }
    }

    /// Whether figures may be rough.
    pub(crate) fn is_brief(&self) -> bool {
        self.seconds.is_none()
    }

    /// The sentence that stands before figures that are rough; `None` if they are not.
    pub(crate) fn roughness(&self) -> Option<String> {
        /// Shorter than this, a measurement is rough whoever asked for it.
        const FULL: f64 = 5.0;
        let measured = match self.seconds.map(|length| length.as_secs_f64()) {
            None => "In brief: each measurement took about a second, most of them once".to_owned(),
            Some(seconds) if seconds < FULL => format!("Each measurement took {seconds} s"),
            Some(_) => return None,
        };
        Some(format!(
            "{measured}. These figures are rough and no verdict on them is final; `--seconds 10` \
             gives full ones."
        ))
    }

    /// Seconds of each measurement, which an experiment in brief chooses itself.
    pub(crate) fn measured(&self, brief: Duration) -> Duration {
        self.seconds.unwrap_or(brief)
    }

    /// Whether a measurement of this name is asked for.
    pub(crate) fn asks_for(&self, name: &str) -> bool {
        let is_asked = name.contains(&self.only);
        // Relaxed: the flag guards nothing.
        self.has_some.fetch_or(is_asked, Ordering::Relaxed);
        is_asked
    }

    /// Fails if nothing of what was asked for alone is there.
    pub(crate) fn has_what_was_asked_for(&self) -> Result<()> {
        // Relaxed: see above.
        let is_there = self.only.is_empty() || self.has_some.load(Ordering::Relaxed);
        is_there.then_some(()).ok_or_else(|| {
            Error::new(format!(
                "no measurement has {:?} in its name: run it without --only to see the names",
                self.only
            ))
        })
    }

    /// Rounds, in each of which everyone has a turn.
    pub(crate) fn rounds(&self) -> u32 {
        let unasked = if self.is_brief() { 1 } else { 3 };
        self.rounds_asked.unwrap_or(unasked)
    }

    /// The sentence of a report that says where things ran and how often.
    pub(crate) fn conditions(&self) -> String {
        let list = |cpus: &[usize]| CpuList(cpus.to_vec()).to_string();
        let places = match [&self.server_cpus, &self.load_cpus].map(|cpus| list(cpus)) {
            _ if self.load_cpus.is_empty() => "Servers and load share all processors".to_owned(),
            [servers, load] => format!("Servers run on processors {servers}, load on {load}"),
        };
        let turns = match self.rounds() {
            1 => "peers take turns, in a single round".to_owned(),
            n => format!("peers take turns within each of {n} rounds, whose median is quoted"),
        };
        format!(
            "{places}, and whoever probes or calls asks the system to go first on its own; every \
             server has {} workers and is started afresh for each measurement; {turns}.",
            self.workers
        )
    }

    /// Starts a server and waits until it listens.
    pub(crate) fn serve(&self, peer: Peer, spec: &ServerSpec) -> Result<Server> {
        let mut spec = spec.clone();
        spec.workers = self.workers;
        let mut command = self.lineup.server(peer, &spec);
        Server::start(peer.name(), &mut command, &self.server_cpus)
    }

    /// One of the lab's own load generators, by its name, its target and its flags.
    pub(crate) fn load(&self, words: impl Display) -> Generator<'_> {
        self.load_from(None, words)
    }

    /// As [`load`](Self::load), from a network of its own if one is named.
    pub(crate) fn load_from(&self, network: Option<&str>, words: impl Display) -> Generator<'_> {
        let mut command = self.lineup.lab();
        if let Some(network) = network {
            let inside = std::mem::replace(&mut command, Command::new("ip"));
            command.args(["netns", "exec", network]);
            command.arg(inside.get_program());
        }
        // Whoever goes on until it is told is told by the end of this.
        command.args(["load", "--json"]).stdin(Stdio::piped());
        Generator::new("load", command, &self.load_cpus).with(words)
    }

    /// A split, where servers run.
    pub(crate) fn split(&self, words: impl Display) -> Generator<'_> {
        let mut command = self.lineup.lab();
        command.arg("split").stdin(Stdio::null());
        Generator::new("split", command, &self.server_cpus).with(words)
    }

    /// Starts a program where servers run.
    pub(crate) fn server_tool(&self, name: &str, command: &mut Command) -> Result<Process> {
        command.stdin(Stdio::null());
        Process::start(name, command, &self.server_cpus)
    }

    /// Starts one of the lab's own servers that is not measured.
    pub(crate) fn helper(&self, args: &[&str]) -> Result<Server> {
        let mut command = self.lineup.lab();
        Server::start("load", command.arg("load").args(args), &self.load_cpus)
    }

    /// Starts a program where load runs, with its standard output to be read.
    pub(crate) fn tool(&self, name: &str, command: &mut Command) -> Result<Process> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Process::start(name, command, &self.load_cpus)
    }

    /// Calls something from where load runs, ahead of it: whoever measures how long a server takes
    /// must not wait for load, nor take the server's place.
    pub(crate) fn call_first<T: Send>(&self, call: impl FnOnce() -> T + Send) -> T {
        let caller = || {
            if !self.load_cpus.is_empty() {
                // Anywhere, then: what it takes is a little less certain.
                let _ = sys::pin(&self.load_cpus);
            }
            sys::ask_to_go_first();
            call()
        };
        std::thread::scope(|scope| match scope.spawn(caller).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// A port that nobody listened on a moment ago, for programs that cannot find one themselves.
    ///
    /// The system gives it to nobody who does not ask for this one. One that it chose itself it
    /// might give to another program before this one has it.
    pub(crate) fn free_address(&self) -> Result<SocketAddr> {
        const TRIES: usize = 100;
        let bound = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = (0..TRIES).find_map(|_| bound(asked_for_port()?).ok());
        listener
            .map_or_else(|| bound(0), Ok)
            .and_then(|listener| listener.local_addr())
            .map_err(Error::system("cannot find a free port"))
    }

    /// One line of progress.
    pub(crate) fn progress(&self, line: &str) {
        eprintln!("[{:>4} s] {line}", self.started.elapsed().as_secs());
    }
}

/// A port below those that the system chooses from, by chance.
fn asked_for_port() -> Option<u16> {
    const BELOW: u16 = 12_000;
    let chosen = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let first: u16 = chosen.split_whitespace().next()?.parse().ok()?;
    // Each state has other keys.
    let chance = RandomState::new().hash_one(()) % u64::from(BELOW);
    first.checked_sub(1 + u16::try_from(chance).ok()?)
}

/// One of the lab's own programs that is about to start; its result is JSON.
pub(crate) struct Generator<'a> {
    name: &'static str,
    command: Command,
    cpus: &'a [usize],
}

impl<'a> Generator<'a> {
    fn new(name: &'static str, command: Command, cpus: &'a [usize]) -> Self {
        Generator {
            name,
            command,
            cpus,
        }
    }

    /// Adds words, parted by spaces.
    pub(crate) fn with(mut self, words: impl Display) -> Self {
        self.command.args(words.to_string().split_whitespace());
        self
    }

    /// Adds a word that may hold spaces.
    pub(crate) fn at(mut self, path: &Path) -> Self {
        self.command.arg(path);
        self
    }

    /// How long it goes on.
    pub(crate) fn lasts(self, length: Duration) -> Self {
        self.with(format_args!("--seconds {}", length.as_secs_f64()))
    }

    /// How long it goes on, with what comes before and after. These grow with what is measured, up
    /// to where more brings nothing.
    pub(crate) fn lasts_with_margins(self, length: Duration) -> Self {
        let drain = (length / 2).min(Duration::from_secs(1));
        let [warmup, drain] = [warmup(length), drain].map(|length| length.as_secs_f64());
        self.lasts(length)
            .with(format_args!("--warmup {warmup} --drain {drain}"))
    }

    pub(crate) fn start(mut self) -> Result<Process> {
        self.command.stdout(Stdio::piped());
        Process::start(self.name, &mut self.command, self.cpus)
    }

    /// Waits for what it found.
    pub(crate) fn result<T: DeserializeOwned>(self) -> Result<T> {
        self.start()?.result()
    }
}

/// What comes before a measurement of that length.
pub(crate) fn warmup(length: Duration) -> Duration {
    (length / 4).min(Duration::from_millis(500))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Processors of servers and of load.
fn places(pin: &Pin, cores: usize) -> (Vec<usize>, Vec<usize>) {
    /// Fewer processors than this are shared: one alone for load would leave the servers too
    /// little.
    const CORES_TO_SHARE_OUT: usize = 4;
    let load: Vec<usize> = match pin {
        Pin::None => return Default::default(),
        Pin::Auto if cores < CORES_TO_SHARE_OUT => return Default::default(),
        Pin::Auto => (cores - cores / 4..cores).collect(),
        Pin::Load(cpus) => cpus.0.clone(),
    };
    let servers: Vec<usize> = (0..cores).filter(|cpu| !load.contains(cpu)).collect();
    (servers, load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn ports_to_ask_for_are_below_those_that_the_system_chooses() {
        let chosen = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let chosen = chosen.local_addr().expect("it is bound").port();
        let ports: Vec<u16> = (0..20).filter_map(|_| asked_for_port()).collect();
        assert!(ports.iter().all(|&port| port < chosen), "{ports:?}");
        let first = ports.first().expect("Linux says where it chooses");
        assert!(ports.iter().any(|port| port != first), "{ports:?}");
    }

    #[test]
    fn few_processors_are_shared_and_many_shared_out() {
        assert_eq!(places(&Pin::Auto, 2), (vec![], vec![]));
        assert_eq!(places(&Pin::Auto, 8), ((0..6).collect(), vec![6, 7]));
        assert_eq!(places(&Pin::None, 8), (vec![], vec![]));
        assert_eq!(places(&Pin::Load(CpuList(vec![1])), 2), (vec![0], vec![1]));
    }
}
