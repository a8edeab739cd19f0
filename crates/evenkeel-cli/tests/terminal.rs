//! `evenkeel top` on a terminal: what keys do, and how the terminal is left.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel::Class;
use evenkeel::runtime::{Builder, Runtime};
use evenkeel_admin::Admin;
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};

/// Far beyond what anything here takes.
const LIMIT: Duration = Duration::from_secs(60);
const SIZE: Winsize = Winsize {
    ws_row: 40,
    ws_col: 120,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// `top` on a terminal of its own; ends with this.
struct Top {
    child: Child,
    terminal: File,
    before: Termios,
    screen: Arc<Mutex<vt100::Parser>>,
    /// It has said that an answer did not come in time.
    was_late: Arc<AtomicBool>,
}

impl Top {
    fn start(arguments: &[&str]) -> Self {
        let OpenptyResult { master, slave } = openpty(Some(&SIZE), None).unwrap();
        let (terminal, slave) = (File::from(master), File::from(slave));
        let before = tcgetattr(&terminal).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(["top", "--interval", "0.1"])
            .args(arguments)
            .env_remove("EVENKEEL_ADMIN_TOKEN")
            .env("TERM", "xterm-256color")
            .stdin(slave.try_clone().unwrap())
            .stdout(slave)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let screen = vt100::Parser::new(SIZE.ws_row, SIZE.ws_col, 0);
        let screen = Arc::new(Mutex::new(screen));
        let (mut drawn, drawn_on) = (terminal.try_clone().unwrap(), Arc::clone(&screen));
        let was_late = Arc::new(AtomicBool::new(false));
        let is_late = Arc::clone(&was_late);
        // Ends when nobody has the other side of the terminal.
        std::thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while let Ok(length @ 1..) = drawn.read(&mut buffer) {
                let mut screen = drawn_on.lock().unwrap();
                screen.process(&buffer[..length]);
                if screen.screen().contents().contains("did not answer") {
                    is_late.store(true, SeqCst);
                }
            }
        });
        Self {
            child,
            terminal,
            before,
            screen,
            was_late,
        }
    }

    fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn until_shown(&self, part: &str) {
        let what = || format!("{part:?} is not on\n{}", self.text());
        until(|| self.text().contains(part), what);
    }

    /// Whether it reads keys itself.
    fn is_raw(&self) -> bool {
        let now = tcgetattr(&self.terminal).unwrap();
        !now.local_flags.contains(LocalFlags::ICANON)
    }

    #[track_caller]
    fn assert_quits(&mut self) {
        let mut status: Option<ExitStatus> = None;
        until(
            || {
                status = self.child.try_wait().unwrap();
                status.is_some()
            },
            || "it goes on".to_owned(),
        );
        assert!(status.unwrap().success(), "{status:?}");
        let now = tcgetattr(&self.terminal).unwrap();
        assert_eq!(now, self.before, "the terminal is as it was");
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn until(mut is_so: impl FnMut() -> bool, otherwise: impl Fn() -> String) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "{}", otherwise());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn serving() -> (Runtime, Admin) {
    let runtime = Builder::new().workers(2).build().unwrap();
    let listens = evenkeel_admin::listen("127.0.0.1:0");
    let admin = runtime.block_on(listens).unwrap();
    (runtime, admin)
}

#[test]
fn keys_sort_pause_change_a_share_and_quit() {
    let (runtime, admin) = serving();
    let mut top = Top::start(&[&admin.address()]);
    top.until_shown("by time in all");
    assert!(top.is_raw(), "keys are read one by one");
    top.press("s");
    top.until_shown("by polls");
    top.press("p");
    top.until_shown("PAUSED");
    top.press("p");
    until(|| !top.text().contains("PAUSED"), || top.text());
    let share = || runtime.stats().classes[Class::URGENT.index()].share;
    let before = share();
    top.press("++");
    // A tenth each time, of what the key before has made of it.
    let once = before + (before / 10).max(1);
    let twice = once + (once / 10).max(1);
    until(|| share() == twice, || format!("{} of {twice}", share()));
    top.press("t");
    top.until_shown("ran");
    top.press("q");
    top.assert_quits();
    // What was on the screen before is there again.
    until(
        || !top.screen.lock().unwrap().screen().alternate_screen(),
        || top.text(),
    );
}

#[test]
fn a_recording_goes_on_in_a_pause() {
    let (_runtime, admin) = serving();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("snapshots");
    let mut top = Top::start(&[&admin.address(), "--record", file.to_str().unwrap()]);
    top.until_shown("by time in all");
    top.press(" ");
    top.until_shown("PAUSED");
    let recorded = || std::fs::read_to_string(&file).unwrap().lines().count();
    let before = recorded();
    // One may be on its way already.
    until(|| recorded() > before + 2, || recorded().to_string());
    assert!(top.text().contains("PAUSED"));
    top.press("\u{3}");
    top.assert_quits();
}

/// A server that answers with `body` so many times, and then no more: it takes connections, and
/// tells of each.
fn stuck_after(times: usize, body: String) -> (String, std::sync::mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (stuck, is_stuck) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for (index, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).unwrap();
            if index < times {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all((head + &body).as_bytes()).unwrap();
            } else {
                kept.push(stream);
                if stuck.send(()).is_err() {
                    return;
                }
            }
        }
    });
    (address, is_stuck)
}

fn stats(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = "GET /stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    body.to_owned()
}

/// Whoever looks at a process that is stuck can go away before it answers, or is given up.
#[test]
fn quitting_waits_for_no_answer() {
    let (_runtime, admin) = serving();
    let (address, is_stuck) = stuck_after(1, stats(&admin.address()));
    let mut top = Top::start(&[&address]);
    is_stuck.recv_timeout(LIMIT).unwrap();
    // It waits for an answer that does not come.
    top.press("q");
    top.assert_quits();
    assert!(!top.was_late.load(SeqCst), "it has waited for the answer");
}
