//! The processes of a run: started tied to the lab, ended with it, however it ends.
//!
//! Three things see to it that an interrupted run leaves nothing behind. A handle ends its process,
//! and all that the process started, when it is dropped. Ctrl-c and SIGTERM end all that are
//! registered, remove the lab's temporary directories, and then the lab. And the kernel kills each
//! of them when the lab's main thread is gone, for which reason only the main thread starts
//! processes.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM};

use crate::error::{Error, Result};
use crate::sys;

/// What has to go when the lab goes, in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Belonging {
    /// A process, and all that it started.
    Group(u32),
    /// A program, with its arguments, that takes back what was set up on the machine.
    Undoing(Vec<String>),
    Directory(PathBuf),
}

static BELONGINGS: Mutex<BTreeSet<Belonging>> = Mutex::new(BTreeSet::new());

fn belongings() -> MutexGuard<'static, BTreeSet<Belonging>> {
    // Every change is one insertion or removal: there is no half-made state to fear.
    BELONGINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Belonging {
    /// What cannot go has gone already, or is left to the system's own sweep.
    fn go(&self) {
        match self {
            Belonging::Group(group) => drop(sys::kill_group(*group, SIGKILL)),
            Belonging::Undoing(words) => {
                drop(run(&words.iter().map(String::as_str).collect::<Vec<_>>()));
            }
            Belonging::Directory(path) => drop(std::fs::remove_dir_all(path)),
        }
    }
}

/// A belonging that goes when this is dropped, or when the lab is interrupted.
struct Owned(Belonging);

impl Owned {
    /// Makes something; the registry is held meanwhile, so that an interruption finds it either
    /// not begun or registered.
    fn make<T>(make: impl FnOnce() -> Result<(T, Belonging)>) -> Result<(T, Owned)> {
        let mut belongings = belongings();
        let (made, belonging) = make()?;
        belongings.insert(belonging.clone());
        Ok((made, Owned(belonging)))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.go();
        belongings().remove(&self.0);
    }
}

/// From now on ctrl-c and SIGTERM end the lab's processes, remove its temporary directories, and
/// end the lab.
pub(crate) fn end_all_on_signal() -> Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(Error::system("cannot install a signal handler"))?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // The lock is kept to the end, so that no process is reaped, and its number reused,
            // meanwhile.
            let belongings = belongings();
            belongings.iter().for_each(Belonging::go);
            eprintln!("\nevenkeel-lab: interrupted; nothing is left running");
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// A process that ends when this is dropped, with all that it started.
pub(crate) struct Process {
    name: String,
    child: Child,
    /// What it writes to standard output and nobody took, where that is piped. The lock is never
    /// waited for: it lets threads share a process.
    lines: Option<Mutex<mpsc::Receiver<String>>>,
    /// Gone before the process is reaped: then its number may be another's.
    group: Option<Owned>,
}

impl Process {
    /// Starts `command` on `cpus` (any, when there are none).
    pub(crate) fn start(name: &str, command: &mut Command, cpus: &[usize]) -> Result<Self> {
        sys::tie_to_parent(command, cpus);
        let (mut child, group) = Owned::make(|| {
            let child = command.spawn().map_err(Error::start(name))?;
            let group = Belonging::Group(child.id());
            Ok((child, group))
        })?;
        Ok(Process {
            name: name.to_owned(),
            lines: child.stdout.take().map(lines).map(Mutex::new),
            child,
            group: Some(group),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has used so far; zero for what the system does not say.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            at: Instant::now(),
            cpu: sys::process_cpu_time(self.pid()).unwrap_or_default(),
            switches: context_switches(self.pid()),
        }
    }

    /// Waits until it has written a line `ready`, and leaves what follows to be read.
    pub(crate) fn until_ready(mut self) -> Result<Self> {
        /// Longer than any load takes to connect to a server that is there.
        const PATIENCE: Duration = Duration::from_secs(600);
        self.said_until_ready(PATIENCE)?;
        Ok(self)
    }

    /// The lines that it writes before one that is `ready`.
    fn said_until_ready(&mut self, patience: Duration) -> Result<Vec<String>> {
        let (mut said, deadline) = (Vec::new(), Instant::now() + patience);
        while let Some(lines) = &mut self.lines {
            let lines = lines.get_mut().unwrap_or_else(PoisonError::into_inner);
            let left = deadline.saturating_duration_since(Instant::now());
            match lines.recv_timeout(left) {
                Ok(line) if line.trim() == "ready" => return Ok(said),
                Ok(line) => said.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Error::not_ready(&self.name, patience));
                }
            }
        }
        // Its own words are on standard error; a status that says success here is a defect of it.
        let ended = self.finish();
        let status = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
        let what = format!("{} ended before it was ready", self.name);
        Err(Error::new(format!(
            "{what} ({status}); its own words are above"
        )))
    }

    /// Waits for it to end by itself, as [`output`](Self::output), and gives what it wrote, read as
    /// JSON.
    pub(crate) fn result<T: DeserializeOwned>(mut self) -> Result<T> {
        let output = self.output()?;
        serde_json::from_str(output.trim()).map_err(|error| {
            Error::unreadable(&self.name, format!("{error} in `{}`", excerpt(&output)))
        })
    }

    /// Ends its standard input, waits for it to end by itself, and gives what it wrote to standard
    /// output. An error holds the end of that.
    pub(crate) fn output(&mut self) -> Result<String> {
        drop(self.child.stdin.take());
        let lines = self.lines.take().and_then(|lines| lines.into_inner().ok());
        let output: String = lines.into_iter().flatten().collect();
        let status = self
            .finish()
            .map_err(Error::system("cannot wait for a process"))?;
        match status.success() {
            true => Ok(output),
            false => Err(failed(&self.name, status, &output)),
        }
    }

    /// Waits for it to end by itself, then ends what it left behind.
    fn finish(&mut self) -> io::Result<ExitStatus> {
        sys::wait_unreaped(self.pid())?;
        self.end()
    }

    /// Ends it and all that it started. Its number is given back last: until then nobody else can
    /// have it.
    fn end(&mut self) -> io::Result<ExitStatus> {
        self.group = None;
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It was killed: how it ended is of no interest.
        let _ = self.end();
    }
}

/// A temporary directory that goes when this is dropped, or when the lab is interrupted.
pub(crate) struct TemporaryDirectory {
    path: PathBuf,
    _owned: Owned,
}

impl TemporaryDirectory {
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        TemporaryDirectory::within(&std::env::temp_dir(), purpose)
    }

    pub(crate) fn within(parent: &Path, purpose: &str) -> Result<Self> {
        let name = format!("evenkeel-lab-{purpose}-{}", std::process::id());
        let path = parent.join(name);
        let ((), owned) = Owned::make(|| {
            std::fs::create_dir(&path).map_err(Error::write(&path))?;
            Ok(((), Belonging::Directory(path.clone())))
        })?;
        Ok(TemporaryDirectory {
            path,
            _owned: owned,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Something set up on the machine that is taken back when this is dropped, or when the lab is
/// interrupted.
pub(crate) struct Undoing {
    _owned: Owned,
}

impl Undoing {
    /// Runs `setup`, after which `undo` takes back what it did. An error holds its words.
    pub(crate) fn after(setup: &[&str], undo: &[&str]) -> Result<Self> {
        let undo = undo.iter().map(|word| (*word).to_owned()).collect();
        let (_, owned) = Owned::make(|| Ok((run(setup)?, Belonging::Undoing(undo))))?;
        Ok(Undoing { _owned: owned })
    }
}

/// Runs a short program to its end; what it wrote to standard output is given. An error holds what
/// it wrote to standard error.
pub(crate) fn run(words: &[&str]) -> Result<String> {
    let (program, args) = words.split_first().unwrap_or((&"true", &[]));
    let mut command = Command::new(program);
    let output = command.args(args).stdin(Stdio::null()).output();
    let output = output.map_err(Error::start(program))?;
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|of| String::from_utf8_lossy(of));
    match output.status.success() {
        true => Ok(stdout.into_owned()),
        false => Err(failed(&words.join(" "), output.status, &stderr)),
    }
}

fn failed(program: &str, status: ExitStatus, words: &str) -> Error {
    Error::new(format!("{program} failed ({status}): {}", excerpt(words)))
}

/// Whether a program can be run: where it is installed, it answers this flag.
pub(crate) fn answers(program: &str, flag: &str) -> bool {
    run(&[program, flag]).is_ok()
}

/// A server that listens. What is declared first ends first. The end of its standard input is its
/// sign to go, should all else fail.
pub(crate) struct Server {
    pub(crate) process: Process,
    addresses: HashMap<String, SocketAddr>,
    _directory: Option<TemporaryDirectory>,
}

/// What a process has used since its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    at: Instant,
    pub(crate) cpu: Duration,
    /// Times that a thread went to sleep, or was put aside for another.
    pub(crate) switches: u64,
}

impl Server {
    /// Starts `command` and waits until it has said where it listens, and `ready`.
    pub(crate) fn start(name: &str, command: &mut Command, cpus: &[usize]) -> Result<Self> {
        const PATIENCE: Duration = Duration::from_secs(20);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(name, command, cpus)?;
        let said = process.said_until_ready(PATIENCE)?;
        // Nobody listens any more.
        process.lines = None;
        let address = |line: &String| {
            let (service, address) = line.trim().split_once(' ')?;
            Some((service.to_owned(), address.parse().ok()?))
        };
        let addresses = said.iter().filter_map(address).collect();
        Ok(Server {
            process,
            addresses,
            _directory: None,
        })
    }

    /// A program that says nothing: where it was told to listen, and the directory of its files.
    pub(crate) fn told(
        process: Process,
        addresses: &[(&str, SocketAddr)],
        directory: TemporaryDirectory,
    ) -> Self {
        let addresses = addresses.iter();
        let addresses = addresses.map(|(service, address)| ((*service).to_owned(), *address));
        Server {
            process,
            addresses: addresses.collect(),
            _directory: Some(directory),
        }
    }

    /// Where it serves `service`.
    pub(crate) fn address(&self, service: &'static str) -> Result<SocketAddr> {
        let address = self.addresses.get(service).copied();
        let program = &self.process.name;
        let what = || format!("{program} listens, but named no address for {service}");
        address.ok_or_else(|| Error::new(what()))
    }
}

impl Usage {
    /// Processor time over wall time since `earlier`, where 1.0 is one whole core.
    pub(crate) fn cores_since(&self, earlier: &Usage) -> f64 {
        let cpu = self.cpu.saturating_sub(earlier.cpu);
        cpu.as_secs_f64() / self.seconds_since(earlier)
    }

    pub(crate) fn switches_per_s_since(&self, earlier: &Usage) -> f64 {
        let switches = self.switches.saturating_sub(earlier.switches);
        switches as f64 / self.seconds_since(earlier)
    }

    fn seconds_since(&self, earlier: &Usage) -> f64 {
        let wall = self.at.saturating_duration_since(earlier.at);
        wall.as_secs_f64().max(f64::EPSILON)
    }
}

/// The lines of a process's standard output, each with its end; they are read whether or not anyone
/// wants them, so that the process never waits for a reader.
fn lines(stdout: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stdout, mut line) = (BufReader::new(stdout), String::new());
        while stdout.read_line(&mut line).is_ok_and(|len| len > 0) {
            // What nobody listens to is dropped.
            let _ = sender.send(std::mem::take(&mut line));
        }
    });
    receiver
}

/// Context switches, voluntary and forced, of all threads that live.
fn context_switches(pid: u32) -> u64 {
    let tasks = procfs::process::Process::new(pid as i32).and_then(|process| process.tasks());
    // A thread that ends meanwhile takes its counts along.
    let all = tasks
        .into_iter()
        .flatten()
        .flatten()
        .flat_map(|task| task.status());
    let counts = all.flat_map(|of| [of.voluntary_ctxt_switches, of.nonvoluntary_ctxt_switches]);
    counts.flatten().sum()
}

/// The end of a process's words, which is where its complaint is.
fn excerpt(output: &str) -> &str {
    const LEN_MAX: usize = 500;
    let output = output.trim();
    let start = output.len().saturating_sub(LEN_MAX);
    &output[output.ceil_char_boundary(start)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_the_end_and_cuts_no_character() {
        assert_eq!(excerpt("  short\n"), "short");
        let long = "é".repeat(400) + "!";
        let cut = excerpt(&long);
        assert!(cut.len() <= 500 && cut.ends_with("é!"), "{cut}");
    }

    #[test]
    fn a_process_that_fails_says_so() {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo the reason; exit 3"])
            .stdout(Stdio::piped());
        let error = Process::start("sh", &mut command, &[]).and_then(|mut p| p.output());
        assert!(error.is_err_and(|e| e.to_string().contains("the reason")));
    }

    #[test]
    fn what_was_set_up_is_taken_back() {
        let directory = TemporaryDirectory::new("undoing").expect("a directory");
        let (made, gone) = (directory.path().join("made"), directory.path().join("gone"));
        let (made, gone) = (made.to_string_lossy(), gone.to_string_lossy());
        let undoing = Undoing::after(&["mkdir", &made], &["mv", &made, &gone]).expect("made");
        assert!(Path::new(&*made).is_dir());
        drop(undoing);
        assert!(Path::new(&*gone).is_dir() && !Path::new(&*made).exists());
        let failed = Undoing::after(&["sh", "-c", "echo why >&2; false"], &["true"]).err();
        assert!(failed.is_some_and(|error| error.to_string().contains("why")));
    }

    #[test]
    fn a_dropped_process_takes_what_it_started_along() {
        let mut command = Command::new("sh");
        command
            .args(["-c", "sleep 600 & echo $!; wait"])
            .stdout(Stdio::piped());
        let mut process = Process::start("sh", &mut command, &[]).expect("sh starts");
        let lines = process.lines.take().expect("it is piped").into_inner();
        let said = lines.expect("nobody has panicked").recv();
        let child = said.expect("sh says its child's number");
        let child = child.trim();
        drop(process);
        let gone = || match std::fs::read_to_string(format!("/proc/{child}/stat")) {
            Err(_) => true,
            // Ended, and waiting for init to notice.
            Ok(stat) => stat.contains(") Z "),
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !gone() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(gone(), "process {child} is left");
    }

    #[test]
    fn a_server_that_ends_before_it_is_ready_is_an_error() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo echo 127.0.0.1:1"]);
        let error = Server::start("sh", &mut command, &[])
            .err()
            .expect("it is not ready");
        let words = error.to_string();
        assert!(words.contains("ended before it was ready"), "{words}");
    }
}
