//! `evenkeel top` beside a server: what it prints, records and replays, and what it says when
//! something is wrong.

use std::process::{Command, Output};

use evenkeel::runtime::{Builder, Runtime};
use evenkeel_admin::Admin;

fn top(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .arg("top")
        .args(arguments)
        .env_remove("EVENKEEL_ADMIN_TOKEN")
        .output()
        .unwrap()
}

#[track_caller]
fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(str::to_owned).collect()
}

#[track_caller]
fn assert_fails(output: &Output, part: &str) {
    assert!(!output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(part), "{part} is not in {text}");
}

fn serving(builder: evenkeel_admin::Builder) -> (Runtime, Admin) {
    let runtime = Builder::new().workers(2).build().unwrap();
    let admin = runtime.block_on(builder.listen("127.0.0.1:0")).unwrap();
    (runtime, admin)
}

#[test]
fn a_line_is_printed_for_each_interval_and_recorded_lines_are_printed_again() {
    let (_runtime, admin) = serving(evenkeel_admin::Builder::new());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("snapshots");
    let file = file.to_str().unwrap();
    let address = admin.address();
    let asks = ["--plain", "--count", "3", "--interval", "0.1"];
    let printed = lines(&top(&[&[&*address, "--record", file], &asks[..]].concat()));
    assert_eq!(printed.len(), 4, "{printed:?}");
    assert!(printed[0].trim_start().starts_with("loop"), "{printed:?}");
    let columns = |line: &str| {
        line.split("  ")
            .filter(|cell| !cell.trim().is_empty())
            .count()
    };
    for line in &printed {
        assert_eq!(columns(line), 12, "{line}");
    }
    let again = lines(&top(&["--plain", "--replay", file]));
    assert_eq!(again, printed);
}

#[test]
fn a_token_is_sent() {
    let (_runtime, admin) = serving(evenkeel_admin::Builder::new().token("correct-horse"));
    let address = admin.address();
    let asks = ["--plain", "--count", "1", "--interval", "0.1", "--token"];
    let ask = |token| top(&[&[&*address], &asks[..], &[token]].concat());
    assert_eq!(lines(&ask("correct-horse")).len(), 2);
    assert_fails(&ask("wrong-horse"), "a token is needed");
}

#[test]
fn what_is_wrong_is_said() {
    assert_fails(&top(&["nonsense"]), "is no address of an admin server");
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    assert_fails(&top(&[&address, "--plain"]), "evenkeel_admin::listen");
    assert_fails(&top(&["--replay", "/nowhere"]), "cannot read /nowhere");
    assert_fails(&top(&["--interval", "0"]), "use 0.1 to 3600");
    // Something that answers, and is no admin server.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let answers = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = other.accept().unwrap();
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
            .unwrap();
    });
    assert_fails(&top(&[&address, "--plain"]), "not that of an admin server");
    answers.join().unwrap();
}
