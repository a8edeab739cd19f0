//! Processes: what the system counts for them, signals, and the simulator.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::Result;

/// What the system counts processor time in, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of a process, in seconds.
pub(crate) fn processor_s(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit(')').next().ok_or("no name")?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut field = || -> Result<f64> { Ok(fields.next().ok_or("no time")?.parse()?) };
    Ok((field()? + field()?) / TICKS_PER_SECOND)
}

/// Memory of a process in MiB: the median over two seconds, in which each camera completes a
/// group.
pub(crate) fn memory_mib(pid: u32) -> Result<f64> {
    let mut figures = Vec::new();
    for _ in 0..9 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1));
        figures.push(kib.ok_or("no memory")?.parse::<f64>()? / 1_024.0);
        std::thread::sleep(Duration::from_millis(250));
    }
    figures.sort_by(f64::total_cmp);
    Ok(figures[figures.len() / 2])
}

/// Runs a program that has to succeed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let ran = Command::new(program).args(arguments).output();
    let ran = ran.map_err(|error| format!("cannot start {program}: {error}"))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    Err(format!("{program} {arguments:?} failed: {said}").into())
}

/// Sends a signal by its name.
pub(crate) fn signal(pid: u32, name: &str) -> Result<()> {
    run("kill", &["-s", name, &pid.to_string()])
}

/// Waits until something is so.
pub(crate) fn until(
    what: &str,
    limit: Duration,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<Duration> {
    let began = Instant::now();
    while !is_so()? {
        if began.elapsed() > limit {
            return Err(format!("not within {limit:?}: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(began.elapsed())
}

/// The cameras, which end with this.
pub(crate) struct Simulator {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(crate) address: String,
}

impl Simulator {
    pub(crate) fn start(kbit: u32) -> Result<Self> {
        let kbit = kbit.to_string();
        let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel-cameras"))
            .args(["simulate", "--listen", "127.0.0.1:0", "--kbit", &kbit])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let address = line.trim().strip_prefix("cameras at rtsp://");
        let address = address.and_then(|address| address.strip_suffix("/NAME"));
        let address = address.ok_or("the simulator does not begin")?.to_owned();
        Ok(Self {
            child,
            output,
            address,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stands still while this works.
    pub(crate) fn paused<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        signal(self.pid(), "STOP")?;
        let outcome = work();
        signal(self.pid(), "CONT")?;
        outcome
    }

    /// Ends it. Returns how many pictures it has left out, as nobody took them.
    pub(crate) fn end(mut self) -> Result<f64> {
        signal(self.pid(), "TERM")?;
        let mut said = String::new();
        self.output.read_to_string(&mut said)?;
        let left_out = said.trim().rsplit(' ').next().unwrap_or_default();
        let left_out = left_out.parse();
        Ok(left_out.map_err(|_| format!("the simulator says nothing of its pictures: {said}"))?)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
