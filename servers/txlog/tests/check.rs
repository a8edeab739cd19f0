//! `check/check.py`, which shares no code with the server, finds that it keeps its promises while
//! it
//! is killed: for 20 seconds, or as many as `TXLOG_CHECK_SECONDS` says.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{LIMIT, rounds};

#[test]
fn a_checker_that_shares_no_code_finds_the_promises_kept() {
    let has_python = Command::new("python3")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !has_python.is_ok_and(|status| status.success()) {
        eprintln!("skipped: python3 is not installed here");
        return;
    }
    let seconds = rounds("TXLOG_CHECK_SECONDS", 20);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("check/check.py");
    let mut checker = Command::new("python3")
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_txlog"))
        .args(["--seconds", &seconds.to_string(), "--life", "0.5"])
        .arg("--option=--segment-bytes=300000")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(seconds) + 2 * LIMIT;
    let status = loop {
        if let Some(status) = checker.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            // At this signal it ends its server, too.
            let id = checker.id().to_string();
            let told = Command::new("kill").args(["-s", "INT", &id]).status();
            let _ = (told, checker.wait());
            panic!("the checker does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "it says above what was broken");
}
