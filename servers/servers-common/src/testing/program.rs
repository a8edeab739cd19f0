//! A program that a test starts, and ends by its id.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::LIMIT;

/// A program at work. It is ended when this is dropped; if the test has failed, what the program
/// said on standard error is shown.
#[derive(Debug)]
pub struct Program {
    child: Child,
    lines: Mutex<Receiver<String>>,
    hearing: Option<JoinHandle<()>>,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Program {
    /// Starts it. Its outputs are read while they come, so that it never waits for the test.
    pub fn start(command: &mut Command) -> Self {
        let mut child = piped(command);
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The test may have heard all that it wants.
                let _ = sender.send(line);
            }
        });
        let mut errors = child.stderr.take().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        let hearing = thread::spawn(move || {
            let mut part = [0; 4_096];
            while let Ok(bytes @ 1..) = errors.read(&mut part) {
                heard.lock().unwrap().extend_from_slice(&part[..bytes]);
            }
        });
        Self {
            child,
            lines: Mutex::new(lines),
            hearing: Some(hearing),
            said,
        }
    }

    /// Runs a command that ends by itself: whether it succeeded, its output and its errors.
    pub fn run(command: &mut Command) -> (bool, String, String) {
        let mut child = piped(command);
        let (output, errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (output, errors) = (all_of(output), all_of(errors));
        let done = wait(&mut child).success();
        (done, output.join().unwrap(), errors.join().unwrap())
    }

    /// The next line of its output.
    pub fn line(&mut self) -> String {
        let next = self.lines.lock().unwrap().recv_timeout(LIMIT);
        match next {
            Ok(line) => line,
            Err(_) => panic!("the program says nothing more: {}", self.end()),
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Kills it, and waits until it has ended.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it ends by itself.
    pub fn ended(&mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    /// Kills it, and returns all that it has said on standard error.
    pub fn end(&mut self) -> String {
        self.kill();
        if let Some(hearing) = self.hearing.take() {
            hearing.join().unwrap();
        }
        self.said()
    }

    /// What it has said on standard error so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> usize {
        let listed = std::fs::read_dir(format!("/proc/{}/fd", self.id()));
        listed.unwrap().count()
    }

    /// What it occupies in memory, in bytes.
    pub fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let mut lines = status.lines();
        let line = lines.find(|line| line.starts_with("VmRSS:")).unwrap();
        let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib * 1_024
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("the program's own errors:\n{}", self.said());
        }
    }
}

/// Sends a signal to a process.
pub fn signal(process: u32, name: &str) {
    let process = process.to_string();
    let sent = Command::new("kill").args(["-s", name, &process]).status();
    assert!(sent.unwrap().success());
}

/// Waits until a program ends. One that does not is ended.
pub fn wait(child: &mut Child) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if began.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the program does not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn piped(command: &mut Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads to the end, on a thread of its own.
fn all_of(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    })
}
