//! The report that a process prints when it exits, and before.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

fn said(report: &str, end: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reported"));
    let output = command
        .arg(end)
        .env("EVENKEEL_REPORT", report)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn is_off() -> bool {
    std::env::var("EVENKEEL").is_ok_and(|value| value == "off")
}

#[test]
fn a_process_says_what_was_done_for_it_however_it_ends() {
    for end in ["return", "exit"] {
        let report = said("1", end);
        if is_off() {
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
            // The function itself, by its stack.
            "found in: reported::parse_at_length",
            "left to Tokio: 1 listener for a signal, 1 runtime of one thread\n",
        ] {
            assert!(report.contains(part), "`{part}` is not in: {report}");
        }
        assert!(!report.contains("Polled<"), "{report}");
        // The one that gave up its seat is no hog.
        assert!(!report.contains("reported::main::"), "{report}");
    }
}

/// Names are made at the lowest priority, for which such a machine has hardly a moment.
#[test]
fn functions_have_names_in_the_end_beside_others_that_take_all_processors() {
    if is_off() {
        return;
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..2 * processors {
            scope.spawn(|| {
                // Relaxed: it says all there is to say.
                while !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let reports = ["return", "exit"].map(|end| said("1", end));
        is_over.store(true, Relaxed);
        for report in reports {
            assert!(
                report.contains("found in: reported::parse_at_length 1 time, "),
                "{report}"
            );
            assert!(!report.contains("not over yet"), "{report}");
        }
    });
}

#[test]
fn nothing_is_said_unless_it_is_asked_for() {
    for report in ["", "0"] {
        assert_eq!(said(report, "return"), "");
    }
    assert!(said("yes", "return").contains("use 1 for a report"));
}

#[test]
fn what_is_left_to_tokio_is_counted_by_kinds() {
    if is_off() {
        return;
    }
    let mut wrong = Vec::new();
    for (what, counted) in [
        ("nothing", "nothing"),
        ("process", "nothing"),
        ("orphan", "1 process that nobody waits for"),
        ("signal", "1 listener for a signal"),
        ("priority", "1 descriptor with out-of-band data"),
        ("file", "1 operation on a file or standard stream"),
        ("stdout", "2 operations on a file or standard stream"),
        ("lookup", "1 lookup of a name"),
        ("blocking", "1 piece of blocking work"),
        ("set", "1 piece of blocking work"),
        ("local", "1 runtime of local tasks"),
        ("paused", "1 runtime of one thread, 1 pause of a clock"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_left"))
            .arg(what)
            .env("EVENKEEL_REPORT", "1")
            .output()
            .unwrap();
        let report = String::from_utf8_lossy(&output.stderr);
        // The driver may begin to wait for the orphan, by a signal, before the program ends.
        let counts = report.replace("1 listener for a signal, ", "");
        if !counts.contains(&format!("left to Tokio: {counted}\n")) {
            wrong.push((what, report.into_owned()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What the program that hogs says of its runtimes: one of many threads, one of a single thread.
fn with(variable: &str, value: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reported"));
    command.env("EVENKEEL_REPORT", "1").env("EVENKEEL", "on");
    let output = command.env(variable, value).output().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn with_evenkeel_off_no_runtime_is_evenkeels() {
    let report = with("EVENKEEL", "off");
    let left = "1 runtime of one thread, 1 runtime of many threads, as EVENKEEL is `off`";
    assert!(report.contains(left), "{report}");
    assert!(
        report.contains("0 runtimes with 0 workers on Evenkeel"),
        "{report}"
    );
}

#[test]
fn a_runtime_of_one_thread_is_evenkeels_only_if_it_is_forced() {
    let report = with("EVENKEEL_FORCE", "1");
    assert!(
        report.contains("2 runtimes with 3 workers on Evenkeel"),
        "{report}"
    );
    assert!(!report.contains("runtime of one thread"), "{report}");
    let report = with("EVENKEEL_FORCE", "0");
    assert!(
        report.contains("1 runtime with 2 workers on Evenkeel"),
        "{report}"
    );
    assert!(report.contains("1 runtime of one thread"), "{report}");
}

#[test]
fn a_process_that_runs_on_says_what_was_done_every_so_often() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_left"))
        .arg("wait")
        .env("EVENKEEL_REPORT", "20ms")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (mut titles, mut reports) = (0, 0);
    let mut was_counted = false;
    let mut take = |line: String| {
        titles += usize::from(line.starts_with("evenkeel: after "));
        reports += usize::from(line.contains("left to Tokio: "));
        was_counted |= line.contains("left to Tokio: 1 piece of blocking work");
        titles >= 2 && was_counted
    };
    // Some seconds, at most.
    let is_said = lines.by_ref().take(1000).any(|line| take(line.unwrap()));
    drop(child.stdin.take());
    lines.for_each(|line| _ = take(line.unwrap()));
    assert!(child.wait().unwrap().success());
    assert!(is_said && was_counted);
    // That of the end has no title.
    assert_eq!(reports, titles + 1);
}
