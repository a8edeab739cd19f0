//! The report that a process prints when it exits.

use std::process::Command;

fn said(report: &str, end: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reported"));
    let output = command
        .arg(end)
        .env("EVENKEEL_REPORT", report)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_process_says_what_was_done_for_it_however_it_ends() {
    for end in ["return", "exit"] {
        let report = said("1", end);
        if std::env::var("EVENKEEL").is_ok_and(|value| value == "off") {
            assert!(
                report.contains("1 runtime of many threads, as EVENKEEL is `off`"),
                "{report}"
            );
            continue;
        }
        for part in [
            "1 runtime with 2 workers on Evenkeel\n",
            " handed over for polls that were too long, 1 by block_in_place; 0 refused\n",
            // The library's line, and what tells whose the task is.
            "spawned at src/bin/reported.rs:8:5: ",
            "reported::parse_at_length",
            "left to Tokio: 1 listener for a signal, 1 runtime of one thread\n",
        ] {
            assert!(report.contains(part), "`{part}` is not in: {report}");
        }
        assert!(!report.contains("Polled<"), "{report}");
        // The one that gave up its seat is no hog.
        assert!(!report.contains("reported::main::"), "{report}");
    }
}

#[test]
fn nothing_is_said_unless_it_is_asked_for() {
    for report in ["", "0"] {
        assert_eq!(said(report, "return"), "");
    }
    assert!(said("yes", "return").contains("use 1 for a report"));
}
