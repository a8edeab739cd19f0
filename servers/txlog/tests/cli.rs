//! The command line, as its users meet it.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use support::program::{Server, run_command, wait};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_txlog"));
    command.args(arguments).stdout(Stdio::piped());
    command
}

#[test]
fn help_teaches_every_command() {
    let (done, said, errors) = run_command(&["--help"]);
    assert!(done && errors.is_empty(), "{errors}");
    for command in ["serve", "append", "read", "ping", "verify", "bench"] {
        assert!(said.contains(command), "{said}");
        let (done, said, errors) = run_command(&[command, "--help"]);
        assert!(
            done && errors.is_empty() && said.contains("Usage: txlog"),
            "{said}{errors}"
        );
    }
}

#[test]
fn what_is_appended_is_read_and_survives_an_end_by_ctrl_c() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let mut server = Server::start(&path, &[]);
    let address = server.address.to_string();
    let (done, said, errors) = run_command(&["append", "--server", &address, "one", "two"]);
    assert!(done, "{errors}");
    assert_eq!(said, "1\n2\n");
    let mut child = program(&["append", "--server", &address])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"three\nfour\n")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"3\n4\n");
    let (done, said, _) = run_command(&["ping", "--server", &address, "--count", "1"]);
    assert!(done && said.contains("answered in"), "{said}");
    server.signal("INT");
    assert!(server.ended().success());
    let (done, said, errors) = run_command(&["verify", path.to_str().unwrap()]);
    assert!(done && said.contains("4 records"), "{said}{errors}");
    let server = Server::start(&path, &[]);
    let address = server.address.to_string();
    let (done, said, _) = run_command(&["read", "--server", &address, "--from", "2"]);
    assert!(done);
    assert_eq!(said, "2\ttwo\n3\tthree\n4\tfour\n");
}

#[test]
fn who_follows_sees_what_comes() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let address = server.address.to_string();
    let follow = ["read", "--server", &address, "--follow", "--count", "2"];
    let mut follower = program(&follow).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert!(run_command(&["append", "--server", &address, "first"]).0);
    assert_eq!(lines.next().unwrap().unwrap(), "1\tfirst");
    assert!(run_command(&["append", "--server", &address, "second"]).0);
    assert_eq!(lines.next().unwrap().unwrap(), "2\tsecond");
    assert!(wait(&mut follower).success());
}

#[test]
fn what_cannot_be_done_is_one_line_and_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let server = Server::start(directory.path(), &[]);
    let taken = server.address.to_string();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = free.local_addr().unwrap().to_string();
    drop(free);
    let (empty, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let empty = empty.path().to_str().unwrap();
    let fresh = fresh.path().to_str().unwrap();
    let mistakes: [(&[&str], &str); 6] = [
        (
            &["serve", "--dir", path],
            "another server has this directory",
        ),
        (
            &["serve", "--dir", fresh, "--listen", &taken],
            "cannot listen on",
        ),
        (&["serve", "--nats", &nobody], "cannot connect to NATS"),
        (
            &["append", "--server", &nobody, "x"],
            "does `txlog serve` run there?",
        ),
        (&["verify", empty], "holds no log"),
        (&["bench", path], "is not empty"),
    ];
    for (arguments, says) in mistakes {
        let (done, said, errors) = run_command(arguments);
        assert!(!done && said.is_empty(), "{arguments:?}: {said}");
        let line = errors.lines().last().unwrap_or_default();
        assert!(
            line.starts_with("error: ") && line.contains(says),
            "{arguments:?}: {errors}"
        );
    }
    drop(server);
}

#[test]
fn the_bench_measures_both_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bench");
    let arguments = [
        "bench",
        path.to_str().unwrap(),
        "--appenders",
        "20",
        "--rounds",
        "1",
    ];
    let mut all = arguments.to_vec();
    all.extend(["--seconds", "0.1"]);
    let (done, said, errors) = run_command(&all);
    assert!(done, "{errors}");
    assert!(
        said.contains("sync each") && said.contains("times the appends"),
        "{said}"
    );
    assert!(!path.exists());
}
