//! Servers that are measured, each a process of its own, and the processor time that they take.

use std::fs;
use std::io::{self, BufRead, BufReader, Lines};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A server's process, which is ended with this.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Where it listens.
    pub address: String,
}

impl Process {
    /// This program's `serve` for a log in this directory.
    ///
    /// # Errors
    ///
    /// It cannot be started, or does not listen.
    pub fn txlog(directory: &Path, options: &[String]) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--listen", "127.0.0.1:0", "--dir"])
            .arg(directory)
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (output, errors) = pipes(&mut child);
        let mut process = Self {
            child,
            address: String::new(),
        };
        let mut output = output.into_iter().flatten().map_while(Result::ok);
        let listening = output.find_map(|line| line.strip_prefix("listening on ").map(Into::into));
        match listening {
            Some(address) => process.address = address,
            None => return Err(process.failed("txlog serve", errors)),
        }
        drain(errors);
        thread::spawn(move || output.for_each(drop));
        Ok(process)
    }

    /// A NATS server with a JetStream in this directory that syncs each record before it
    /// acknowledges it.
    ///
    /// # Errors
    ///
    /// It cannot be started, or does not listen. Servers before version 2.10 cannot do this.
    pub fn nats(program: &Path, directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let address = free_address()?;
        let file = directory.join("nats.conf");
        let text = format!(
            "listen: \"{address}\"\n\
             jetstream {{ store_dir: {directory:?}, sync_interval: always }}\n"
        );
        fs::write(&file, text)?;
        let mut child = Command::new(program)
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let (_, errors) = pipes(&mut child);
        let mut process = Self { child, address };
        let (mut said, mut is_ready) = (Vec::new(), false);
        let mut errors = errors.into_iter().flatten().map_while(Result::ok);
        for line in errors.by_ref() {
            is_ready = line.contains("Server is ready");
            said.push(line);
            if is_ready {
                break;
            }
        }
        if !is_ready {
            let _ = process.child.wait();
            let shown = program.display();
            return Err(io::Error::other(format!("{shown}: {}", said.join("; "))));
        }
        thread::spawn(move || errors.for_each(drop));
        Ok(process)
    }

    /// The processor time that it has taken; `None` where that is not known.
    pub fn cpu(&self) -> Option<Duration> {
        cpu(&self.child.id().to_string())
    }

    fn failed(&mut self, what: &str, errors: Option<Lines<BufReader<ChildStderr>>>) -> io::Error {
        let _ = self.child.wait();
        let said: Vec<String> = errors.into_iter().flatten().map_while(Result::ok).collect();
        io::Error::other(format!("{what}: {}", said.join("; ")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // This process only; nothing of what it has is needed any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processor time that this program has taken; `None` where that is not known.
pub fn own_cpu() -> Option<Duration> {
    cpu("self")
}

/// The ticks in which Linux tells processor time, whatever the clock's are.
const TICK: Duration = Duration::from_millis(10);

fn cpu(process: &str) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which may have spaces and brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    Some(TICK * (ticks()? + ticks()?))
}

type Pipes = (
    Option<Lines<BufReader<ChildStdout>>>,
    Option<Lines<BufReader<ChildStderr>>>,
);

fn pipes(child: &mut Child) -> Pipes {
    let output = child.stdout.take().map(|pipe| BufReader::new(pipe).lines());
    let errors = child.stderr.take().map(|pipe| BufReader::new(pipe).lines());
    (output, errors)
}

/// Reads a pipe to its end: the process would stop at a full one.
fn drain(errors: Option<Lines<BufReader<ChildStderr>>>) {
    thread::spawn(move || errors.into_iter().flatten().for_each(drop));
}

fn free_address() -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn processor_time_grows_with_work() {
        let before = own_cpu().unwrap();
        let mut sum = 0_u64;
        while own_cpu().unwrap() < before + 3 * TICK {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
    }
}
