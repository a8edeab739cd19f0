//! Commands that a test talks to.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::LIMIT;
use super::program::wait;

/// A command of the program, with pipes to and from it.
pub(crate) struct Piped {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    errors: Receiver<String>,
}

impl Piped {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_txlog"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut lines = errors.lines().map_while(Result::ok);
            lines.try_for_each(|line| sender.send(line))
        });
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            errors: lines,
            child,
        }
    }

    pub(crate) fn say(&mut self, text: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The next line that is not for the output.
    pub(crate) fn complaint(&mut self) -> String {
        self.errors.recv_timeout(LIMIT).unwrap()
    }

    pub(crate) fn interrupt(&self) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", "INT", &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Ends its input, and waits for it: whether it succeeded, the rest of its output, its errors.
    pub(crate) fn end(mut self) -> (bool, String, String) {
        drop(self.input.take());
        let status = wait(&mut self.child);
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        let errors: Vec<String> = self.errors.iter().collect();
        (status.success(), said, errors.join("\n"))
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
