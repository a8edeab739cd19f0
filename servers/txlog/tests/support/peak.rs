//! The most memory that a server's process takes while a test runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::program::Server;

/// What a server without names for hogs may have beyond its budget, in MiB: the program (2 when it
/// begins), the log's buffer of 2 and its index, and what the allocators of its threads leave
/// unused.
pub(crate) const SLACK_MIB: usize = 16;

/// The most memory of its own that a process has, without the files that it maps: looked at often.
pub(crate) struct Peak {
    ended: Arc<AtomicBool>,
    looks: JoinHandle<usize>,
    idle: usize,
}

impl Peak {
    /// Of a server that has served nobody yet.
    pub(crate) fn of(server: &Server) -> Self {
        let path = format!("/proc/{}/status", server.id());
        let own = move || {
            let status = std::fs::read_to_string(&path).unwrap_or_default();
            let line = status.lines().find(|line| line.starts_with("RssAnon:"));
            let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
            kib.unwrap_or(0) >> 10
        };
        let idle = own();
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let looks = thread::spawn(move || {
            let mut most = 0;
            // SeqCst: it is a test's flag, and orders nothing else.
            while !end.load(Ordering::SeqCst) {
                most = most.max(own());
                thread::sleep(Duration::from_millis(10));
            }
            most
        });
        Self { ended, looks, idle }
    }

    /// Ends the looks. The budget is in bytes.
    pub(crate) fn expect_within(self, budget: usize, when: &str) {
        // SeqCst: as above.
        self.ended.store(true, Ordering::SeqCst);
        let (peak, idle, budget) = (self.looks.join().unwrap(), self.idle, budget >> 20);
        eprintln!("{peak} MiB {when}, of a budget of {budget}; {idle} before");
        assert!(
            peak > 0 && peak <= budget + SLACK_MIB,
            "{peak} MiB {when}, of a budget of {budget}"
        );
    }
}
