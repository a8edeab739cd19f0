//! The other ends of idle connections, in a process of their own, so that they are not counted.
//!
//! It is told a number on a line of its input, opens so many connections more, sees each of them
//! answer, and says so with a line. When its input ends, so does it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

const DONE: &str = "done";
const PATIENCE: Duration = Duration::from_secs(10);

/// The process, seen from the server's.
pub(crate) struct Holder {
    child: Child,
    /// Taken when the process shall end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Holder {
    /// Starts a process that connects to `port`.
    pub(crate) fn start(port: u16) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--hold-connections", &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().expect("a pipe was asked for");
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    /// Opens connections, each of which has answered when this returns.
    pub(crate) fn open(&mut self, count: usize) -> io::Result<()> {
        if let Some(input) = &mut self.input {
            writeln!(input, "{count}")?;
        }
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.trim_end() == DONE {
            Ok(())
        } else {
            let problem = format!("the process that holds connections did not open {count}");
            Err(io::Error::other(problem))
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends by itself now; how it ended no longer matters.
        let _ = self.child.wait();
    }
}

/// What the process does.
pub(crate) fn connections(port: u16) -> io::Result<()> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut held = Vec::new();
    for line in io::stdin().lines() {
        let count: usize = line?.trim().parse().map_err(io::Error::other)?;
        for _ in 0..count {
            held.push(connect(address)?);
        }
        println!("{DONE}");
    }
    Ok(())
}

/// Gives a connection whose server has answered, and so waits for more.
fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"x")?;
    stream.read_exact(&mut [0])?;
    Ok(stream)
}
